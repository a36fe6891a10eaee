// What integer matrix products and convolutions share: reading scales and zero points, and requantizing results.
#pragma once

#include <cmath>

#include "ir/op.h"

namespace sparkpilot {

using ByteTypes = TypeList<int8_t, uint8_t>;

// A scale or zero point of one element, or of several that repeat: index i uses element i % count.
struct Parameter {
  DType dtype = DType::none;  // none: absent, all zero
  const void* data = nullptr;
  int64_t count = 1;

  Parameter() = default;
  explicit Parameter(const ConstView& view) : dtype(view.dtype), data(view.data), count(view.elements()) {}
  static Parameter of(const Call& call, size_t i) { return call.has(i) ? Parameter(call.inputs[i]) : Parameter(); }
  double at(int64_t index) const { return data ? load_element(dtype, data, index % count) : 0; }
};

// Stores a result, given in units of the output's scale, in the output's dtype: rounds halves to even, adds the zero
// point, saturates. NaN becomes the smallest value. `out` is i8, u8 or a small float type, which is not rounded to
// integers.
inline void store_quantized(const View& out, int64_t index, float value, double zero_point) {
  if (is_float(out.dtype)) {
    store_element(out.dtype, out.data, index, static_cast<double>(value) + zero_point);
    return;
  }
  const double low = out.dtype == DType::i8 ? -128 : 0, high = low + 255;
  const double q = std::nearbyint(value) + zero_point;
  const double saturated = q > low ? std::fmin(q, high) : low;
  if (out.dtype == DType::i8) out.as<int8_t>()[index] = static_cast<int8_t>(saturated);
  else out.as<uint8_t>()[index] = static_cast<uint8_t>(saturated);
}

// A sum as a 32-bit integer, modulo 2^32 as ONNX allows.
inline int32_t wrap_to_i32(double sum) { return static_cast<int32_t>(static_cast<int64_t>(sum)); }

}  // namespace sparkpilot
