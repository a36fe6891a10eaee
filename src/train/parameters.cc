#include "train/parameters.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "ir/op.h"

namespace sparkpilot::train {

bool decays(const Shape& shape) {
  return std::ranges::count_if(shape, [](int64_t n) { return n > 1; }) > 1;
}

std::vector<Parameter> all_weights(const Graph& graph) {
  std::vector<Parameter> out;
  std::set<ValueId> seen;
  std::set<std::string> names;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!node.op->traits.product && !node.op->traits.norm) continue;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].present()) continue;
      const Value& v = graph.value(node.inputs[i]);
      if (v.kind != ValueKind::constant || v.dtype != DType::f32 || !seen.insert(node.inputs[i]).second) continue;
      std::string name = v.name;
      if (name.empty() || names.contains(name)) name = fmt::format("{}/{}", graph.label(id), i);
      names.insert(name);
      out.push_back({node.inputs[i], std::move(name), decays(v.constant.shape())});
    }
  }
  return out;
}

}  // namespace sparkpilot::train
