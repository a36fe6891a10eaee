// Runs a template for an element type that is known only at run time.
#pragma once

#include <limits>

#include "base/error.h"
#include "sparkpilot/tensor.h"

namespace sparkpilot {

// A floating value as an integer type: truncated, outside of the range its nearest end, 0 for NaN.
template <typename T>
T saturate_to(double value) {
  if (!(value > static_cast<double>(std::numeric_limits<T>::min()))) {
    return value == value ? std::numeric_limits<T>::min() : T{0};
  }
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(value);
}

template <typename... Ts>
struct TypeList {};
using FloatTypes = TypeList<float, double, Half, BFloat16>;
using IntTypes = TypeList<int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using NumericTypes =
    TypeList<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t>;
using AllTypes = TypeList<float, double, Half, BFloat16, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
                          uint64_t, bool>;

template <typename... Ts>
bool contains(TypeList<Ts...>, DType dtype) {
  return ((dtype == dtype_of<Ts>()) || ...);
}

// Calls fn.operator()<T>() for the T of the list that `dtype` names; fails (internal) if it is not in the list: a
// kernel's `accepts` must refuse it before.
template <typename... Ts, typename Fn>
void dispatch(TypeList<Ts...>, DType dtype, Fn&& fn) {
  const bool found = ((dtype == dtype_of<Ts>() ? (fn.template operator()<Ts>(), true) : false) || ...);
  if (!found) fail_internal("kernel reached with dtype {}", name(dtype));
}

// Calls fn.operator()<T>() with the unsigned integer of the dtype's size (1, 2, 4, 8 bytes): for ops that only move
// data.
template <typename Fn>
void dispatch_size(DType dtype, Fn&& fn) {
  switch (bits(dtype)) {
    case 8: fn.template operator()<uint8_t>(); break;
    case 16: fn.template operator()<uint16_t>(); break;
    case 32: fn.template operator()<uint32_t>(); break;
    case 64: fn.template operator()<uint64_t>(); break;
    default: fail_internal("kernel reached with packed dtype {}", name(dtype));
  }
}

}  // namespace sparkpilot
