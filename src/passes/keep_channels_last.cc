// Puts chains of image ops into channels-last layout, in which convolutions and the ops between them run without moving
// data. Which nodes change is decided by a minimum cut: every Transpose between the layouts costs the bytes it moves,
// and every convolution or pool that stays channels first costs the bytes that its kernel moves instead.
#include <map>

#include "ir/id_map.h"
#include "ir/infer.h"
#include "passes/layout_roles.h"
#include "passes/min_cut.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

class Layout {
 public:
  explicit Layout(Graph& graph) : edit_(graph), graph_(graph) {}

  int run() {
    order_ = graph_.order();
    decide();
    int changes = 0;
    for (const NodeId id : order_) {
      if (last_[id]) changes += rewrite(id);
    }
    return changes;
  }

 private:
  void decide();
  void add_value(MinCut& cut, ValueId value);
  bool rewrite(NodeId id);
  ValueId with_channels_last(NodeId reader, ValueId value);
  // The node of the cut that stands for the layout of the node's outputs; the sink if they have channels first.
  int variable_of(const MinCut& cut, NodeId id) const {
    if (!id.present()) return cut.sink();
    if (variables_[id] < 0 || roles_[id].kind == LayoutRole::consumer) return cut.sink();
    return variables_[id];
  }

  Edit edit_;
  Graph& graph_;
  std::vector<NodeId> order_;
  NodeMap<LayoutRole> roles_;
  NodeMap<int> variables_;               // nodes of the cut; -1: fixed
  NodeMap<bool> last_;                   // whether it gets channels last
  std::map<ValueId, ValueId> versions_;  // value -> the same image with channels last
};

void Layout::decide() {
  const int nodes = graph_.node_count();
  roles_ = NodeMap<LayoutRole>(nodes);
  variables_ = NodeMap<int>(nodes, -1);
  last_ = NodeMap<bool>(nodes);
  MinCut cut;
  bool worth = false;
  for (const NodeId id : order_) {
    roles_[id] = layout_role(edit_, id);
    if (roles_[id].kind == LayoutRole::fixed) continue;
    variables_[id] = cut.add_node();
    cut.add_edge(cut.source(), variables_[id], roles_[id].first_cost);
    cut.add_edge(variables_[id], cut.sink(), roles_[id].last_cost);
    worth |= roles_[id].first_cost > 0;
  }
  if (!worth) return;
  for (int i = 0; i < graph_.value_count(); ++i) {
    const Value& value = graph_.value(ValueId{i});
    if (value.kind != ValueKind::constant && value.shape && value.shape->rank() >= 3) add_value(cut, ValueId{i});
  }
  const std::vector<bool> side = cut.solve();
  for (const NodeId id : order_) {
    last_[id] = variables_[id] >= 0 && side[static_cast<size_t>(variables_[id])];
  }
}

// A value that is made in one layout and read in the other is moved once, however many nodes read it.
void Layout::add_value(MinCut& cut, ValueId value) {
  const Shape& shape = edit_.shape(value);
  std::vector<int> readers;
  for (const NodeId reader : edit_.readers(value)) {
    const std::vector<ValueId>& inputs = edit_.node(reader).inputs;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] != value) continue;
      const bool image = variables_[reader] >= 0 && i < roles_[reader].images.size() && roles_[reader].images[i];
      readers.push_back(image ? variables_[reader] : cut.sink());
    }
  }
  if (edit_.leaves_graph(value)) readers.push_back(cut.sink());
  if (readers.empty()) return;
  const bool moves = moves_data(shape, to_channels_last(shape.rank()));
  const double cost = moves ? static_cast<double>(storage_bytes(edit_.dtype(value), shape.elements())) : 1;
  const int maker = variable_of(cut, edit_.maker(value));
  const int all_last = cut.add_node(), any_last = cut.add_node();
  cut.add_edge(maker, all_last, maker == cut.sink() ? 0 : cost);
  cut.add_edge(any_last, maker, cost);
  for (const int reader : readers) {
    cut.add_edge(all_last, reader, MinCut::kNever);
    if (reader != cut.sink()) cut.add_edge(reader, any_last, MinCut::kNever);
  }
}

ValueId Layout::with_channels_last(NodeId reader, ValueId value) {
  const auto known = versions_.find(value);
  if (known != versions_.end()) {
    // Of three dimensions both transposes are the same one, so that a version may have gone with its reader.
    const NodeId maker = edit_.maker(known->second);
    if (!maker.present() || !graph_.erased(maker)) return known->second;
  }
  const ValueId moved = edit_.transpose(reader, value, to_channels_last(edit_.shape(value).rank()));
  versions_[value] = moved;
  return moved;
}

bool Layout::rewrite(NodeId id) {
  const LayoutRole& role = roles_[id];
  std::vector<ValueId> inputs = edit_.node(id).inputs;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (role.images[i] && inputs[i].present()) inputs[i] = with_channels_last(id, inputs[i]);
  }
  const std::vector<ValueId> old = edit_.node(id).outputs, made = make_channels_last(edit_, id, inputs);
  for (size_t i = 0; i < old.size(); ++i) {
    ValueId result = made[i];
    if (role.kind != LayoutRole::consumer) {
      const int rank = edit_.shape(made[i]).rank();
      result = edit_.transpose(id, made[i], to_channels_first(rank));
      versions_[result] = made[i];
      Value& image = graph_.value(made[i]);
      if (image.name.empty() && image.kind == ValueKind::node_output) {  // else it is an older value
        image.name = graph_.value(old[i]).name;
        image.channels_last = true;
      }
    }
    edit_.replace(old[i], result);
  }
  return true;
}

}  // namespace

int keep_channels_last(Graph& graph) {
  const int changes = Layout(graph).run();
  if (changes > 0) merge_views(graph);
  return changes;
}

}  // namespace sparkpilot
