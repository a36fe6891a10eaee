// Lets attention read queries, keys and values from the columns of the product that computed them, without the copies
// of a Split.
#include <algorithm>

#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

struct Columns {
  ValueId matrix;
  std::vector<int64_t> range;  // the first column and their number
};

// The columns that a value is, if it is an output of a Split along the last of three axes; empty otherwise.
std::optional<Columns> columns_of(Edit& edit, ValueId value) {
  const NodeId split = edit.maker(value, "Split");
  if (!split.present() || !edit.known(value) || !edit.known(edit.node(split).inputs[0])) return {};
  const Shape& shape = edit.shape(value);
  if (shape.rank() != 3 || normalize_axis(edit.node(split).attrs.integer("axis", 0), 3) != 2) return {};
  int64_t first = 0;
  for (const ValueId part : edit.node(split).outputs) {
    if (part == value) return Columns{edit.node(split).inputs[0], {first, shape[2]}};
    first += edit.shape(part)[2];
  }
  return {};
}

bool read_in_place(Edit& edit, NodeId id) {
  const Node node = edit.node(id);
  if (!is_op(node, "Attention") || node.outputs.size() != 1 || node.inputs.size() > 4) return false;
  std::vector<ValueId> inputs = node.inputs;
  Attributes attrs = node.attrs;
  constexpr std::string_view kColumns[] = {"q_columns", "k_columns", "v_columns"};
  for (size_t i = 0; i < 3; ++i) {
    const auto columns = columns_of(edit, inputs[i]);
    if (!columns) continue;
    inputs[i] = columns->matrix;
    attrs.set(std::string(kColumns[i]), columns->range);
  }
  if (inputs == node.inputs) return false;
  edit.replace(node.outputs[0], edit.make(id, "sparkpilot::Attention", inputs, attrs));
  return true;
}

}  // namespace

int attend_to_columns(Graph& graph) {
  Edit edit(graph);
  int changes = 0;
  for (const NodeId id : graph.order()) {
    if (!graph.erased(id)) changes += read_in_place(edit, id);
  }
  graph.compact();
  return changes;
}

}  // namespace sparkpilot
