// Stores weights that were given in 16 bits in 16 bits again, if that is exact and the op's time goes into reading
// them: a product with few rows uses every weight in only one or two multiplications.
#include <algorithm>
#include <bit>
#include <map>

#include "passes/edit.h"
#include "passes/pass.h"

namespace sparkpilot {
namespace {

constexpr int64_t kFewRows = 8;
constexpr int64_t kWorthwhile = 32768;  // bytes of weights

bool is_half(float value) {
  const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
  if (magnitude >= 0x38800000u && magnitude <= 0x477fe000u) return (magnitude & 0x1fffu) == 0;  // f16's normal numbers
  return magnitude == 0 || half_to_float(float_to_half(value)) == value;
}

bool is_bfloat16(float value) { return (std::bit_cast<uint32_t>(value) & 0xffffu) == 0; }

// The 16-bit type that represents every value exactly; none if neither does.
DType exact_half(const Tensor& weights) {
  const std::span<const float> data = weights.data<float>();
  if (std::all_of(data.begin(), data.end(), is_half)) return DType::f16;
  return std::all_of(data.begin(), data.end(), is_bfloat16) ? DType::bf16 : DType::none;
}

}  // namespace

int store_half(Graph& graph) {
  Edit edit(graph);
  std::map<ValueId, ValueId> done;  // weights -> their 16-bit form; absent if that is not exact
  int changes = 0;
  for (const NodeId id : graph.order()) {
    const Node& node = graph.node(id);
    if (!is_op(node, "sparkpilot::Gemm") || !edit.known(node.inputs[0])) continue;
    const Shape& a = edit.shape(node.inputs[0]);
    const ValueId weights = node.inputs[1];
    const Tensor* tensor = edit.constant(weights);
    if (!tensor || tensor->dtype() != DType::f32 || edit.dtype(node.inputs[0]) != DType::f32) continue;
    if (tensor->bytes() < kWorthwhile || a.elements(0, a.rank() - 1) > kFewRows) continue;
    const auto [half, fresh] = done.try_emplace(weights);
    const DType dtype = fresh ? exact_half(*tensor) : DType::none;
    if (dtype != DType::none) half->second = graph.add_constant(convert(*tensor, dtype), graph.value(weights).name);
    if (!half->second.present()) continue;
    edit.set_input(id, 1, half->second);
    if (edit.readers(weights).empty()) graph.value(weights).constant = Tensor();
    ++changes;
  }
  if (changes > 0) graph.compact();
  return changes;
}

}  // namespace sparkpilot
