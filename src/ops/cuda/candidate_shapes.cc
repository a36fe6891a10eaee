#include "ops/cuda/candidate_shapes.h"

namespace sparkpilot::cuda {

std::optional<ElementType> element_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return ElementType::f32;
    case DType::f16: return ElementType::f16;
    case DType::bf16: return ElementType::bf16;
    case DType::i32: return ElementType::i32;
    case DType::i64: return ElementType::i64;
    case DType::u8: return ElementType::u8;
    case DType::i8: return ElementType::i8;
    case DType::boolean: return ElementType::boolean;
    default: return {};
  }
}

std::optional<int> copied_bytes(DType dtype) {
  switch (bits(dtype)) {
    case 8:
    case 16:
    case 32:
    case 64: return bits(dtype) / 8;
    default: return {};
  }
}

std::vector<int64_t> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

Acceptance takes_elements(const Shape& shape) {
  if (shape.elements() == 0) return "empty";
  if (shape.elements() >= int64_t{1} << 31) return "2^31 elements or more";
  return true;
}

Acceptance takes_indices(const Tensor& indices, std::span<const int64_t> sizes) {
  for (int64_t i = 0; i < indices.elements(); ++i) {
    const auto size = static_cast<double>(sizes[static_cast<size_t>(i) % sizes.size()]);
    const double index = load_element(indices.dtype(), indices.raw(), i);
    if (index < -size || index >= size) return "an index out of range";
  }
  return true;
}

}  // namespace sparkpilot::cuda
