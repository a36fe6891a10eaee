// Indices of tensors with strides, as kernels compute them without divisions; and dimensions that are merged on the
// host, so that kernels see few of them.
#pragma once

#include <cstdint>
#include <vector>

namespace sparkpilot::cuda {

// How memory holds elements.
enum class ElementType : uint8_t { f32, f16, bf16, i32, i64, u8, i8, boolean };
constexpr int element_bytes(ElementType type) {
  switch (type) {
    case ElementType::i64: return 8;
    case ElementType::f32:
    case ElementType::i32: return 4;
    case ElementType::f16:
    case ElementType::bf16: return 2;
    default: return 1;
  }
}

// n / size = (high word of n * multiplier + n) >> shift, for n below 2^31.
struct Divisor {
  unsigned size = 1, multiplier = 1, shift = 0;
};
Divisor make_divisor(long long size);

// The most dimensions that kernels see, after merging.
constexpr int kMostDimensions = 6;

// Dimensions from the innermost outwards; missing ones have size 1.
struct Dimensions {
  Divisor sizes[kMostDimensions];
  int rank = 1;
};

// Sizes and, for each operand, strides in elements, both from the outermost dimension inwards as ONNX writes them.
struct StridedLoops {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  // by operand
  int64_t elements() const;
  // Without dimensions of size 1, and with those merged that every operand walks through as through one.
  StridedLoops merged() const;
};
// Of a tensor that lies together; and of one that is broadcast to `to` (0 along dimensions that it repeats).
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& sizes);
std::vector<int64_t> broadcast_strides(const std::vector<int64_t>& sizes, const std::vector<int64_t>& to);

// Of loops that are merged. Fails (internal) if they have more dimensions than kernels see, or 2^31 elements.
Dimensions make_dimensions(const StridedLoops& merged);
// Fails (internal) if a stride does not fit.
void set_strides(int (&to)[kMostDimensions], const std::vector<int64_t>& strides);

// Whether `data` is a multiple of `bytes`.
inline bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

}  // namespace sparkpilot::cuda
