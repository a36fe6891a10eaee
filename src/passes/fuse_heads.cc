// Puts products of one row that do not need one another's results into one node: heads that read one vector, and the
// layers of heads beside one another. On a GPU each launch costs more than most of these products.
#include <algorithm>
#include <map>

#include "ir/activation.h"
#include "ir/gemm_group.h"
#include "ir/id_map.h"
#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

// A product of one row with constant weights, whose result has one row.
bool is_head(const Edit& edit, const Node& node) {
  if (!is_op(node, "sparkpilot::Gemm") || !edit.constant(node.inputs[1]) || !edit.known(node.inputs[0])) return false;
  if (node.inputs.size() > 2 && node.inputs[2].present() && !edit.constant(node.inputs[2])) return false;
  const Shape& x = edit.shape(node.inputs[0]);
  return x.elements() > 0 && x.elements() == x[x.rank() - 1] && edit.known(node.outputs[0]) &&
         edit.shape(node.outputs[0]).elements() > 0 && node.attrs.texts("epilogue").size() <= kMostGroupedSteps;
}

void write_group(Graph& graph, Edit& edit, std::span<const NodeId> heads) {
  std::vector<ValueId> inputs, operands;
  std::vector<std::string> epilogue;
  std::vector<int64_t> steps, transposed;
  for (const NodeId id : heads) {
    const Node& node = graph.node(id);
    const bool bias = node.inputs.size() > 2;
    inputs.insert(inputs.end(), {node.inputs[0], node.inputs[1], bias ? node.inputs[2] : ValueId{}});
    transposed.push_back(node.attrs.integer("transB", 0));
    const std::vector<std::string> texts = node.attrs.texts("epilogue");
    steps.push_back(static_cast<int64_t>(texts.size()));
    for (const std::string& step : texts) {
      const std::optional<size_t> operand = operand_of_step(step);
      epilogue.push_back(operand ? step_with_operand(step, 3 * heads.size() + operands.size()) : step);
      if (operand) operands.push_back(node.inputs[*operand]);
    }
  }
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  Attributes attrs{{"steps", steps}, {"transB", transposed}};
  if (!epilogue.empty()) attrs.set("epilogue", epilogue);
  Builder builder(graph, graph.node(heads[0]).name);
  const std::vector<ValueId> results =
      builder.add_many("sparkpilot::GemmGroup", inputs, attrs, static_cast<int>(heads.size()));
  for (size_t i = 0; i < heads.size(); ++i) edit.replace(graph.node(heads[i]).outputs[0], results[i]);
}

}  // namespace

int fuse_heads(Graph& graph) {
  Edit edit(graph);
  // How many such products come before a value on its longest way; products with as many do not need one another.
  ValueMap<int> before(graph.value_count());
  std::map<std::tuple<int, DType, DType>, std::vector<NodeId>> groups;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    int most = 0;
    for (const ValueId input : node.inputs) most = std::max(most, input.present() ? before[input] : 0);
    const bool head = is_head(edit, node);
    if (head) groups[{most, edit.dtype(node.inputs[0]), edit.dtype(node.inputs[1])}].push_back(id);
    for (const ValueId output : node.outputs) before[output] = most + (head ? 1 : 0);
  }
  int changes = 0;
  for (const auto& [key, heads] : groups) {
    for (size_t first = 0; first < heads.size(); first += kMostGroupedProducts) {
      const size_t count = std::min<size_t>(kMostGroupedProducts, heads.size() - first);
      if (count < 2) continue;
      write_group(graph, edit, std::span(heads).subspan(first, count));
      ++changes;
    }
  }
  if (changes) graph.compact();
  return changes;
}

}  // namespace sparkpilot
