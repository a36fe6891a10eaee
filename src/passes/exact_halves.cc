#include "passes/exact_halves.h"

#include <algorithm>

#include "passes/edit.h"
#include "sparkpilot/builder.h"

namespace sparkpilot {
namespace {

template <class Number>
bool holds_exactly(std::span<const float> values) {
  return std::ranges::all_of(values, [](float x) { return float{Number(x)} == x; });
}

}  // namespace

DType exact_type(const Tensor& tensor) {
  const std::span<const float> values = tensor.data<float>();
  if (holds_exactly<Half>(values)) return DType::f16;
  return holds_exactly<BFloat16>(values) ? DType::bf16 : DType::f32;
}

int store_exact_halves(Graph& graph) {
  constexpr int64_t kFewest = 256;
  std::vector<std::pair<ValueId, DType>> found;
  {
    Edit edit(graph);
    for (int i = 0; i < graph.value_count(); ++i) {
      const ValueId id{i};
      const Tensor* constant = graph.constant(id);
      if (!constant || constant->dtype() != DType::f32 || constant->elements() < kFewest || edit.leaves_graph(id))
        continue;
      const auto& readers = edit.readers(id);
      const bool is_scale = std::ranges::any_of(readers, [&](NodeId reader) {
        return is_op(graph.node(reader), "DequantizeLinear") || is_op(graph.node(reader), "QuantizeLinear");
      });
      if (readers.empty() || is_scale) continue;
      if (const DType type = exact_type(*constant); type != DType::f32) found.emplace_back(id, type);
    }
  }
  Builder builder(graph, "");
  for (const auto& [id, type] : found) {
    std::string name = std::move(graph.value(id).name);
    graph.value(id).name.clear();
    const ValueId half = graph.add_constant(convert(*graph.constant(id), type), std::move(name));
    graph.replace_uses(id, builder.add("Cast", {half}, {{"to", onnx_code(DType::f32)}}));
  }
  if (!found.empty()) graph.compact();
  return static_cast<int>(found.size());
}

}  // namespace sparkpilot
