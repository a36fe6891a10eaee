// Element types, their names and sizes, and the 16-bit and 8-bit float scalars.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "base/error.h"

namespace sparkpilot {

enum class DType : uint8_t {
  none,  // absent: an optional input or output that is not there
  f32,
  f64,
  f16,
  bf16,
  i8,
  i16,
  i32,
  i64,
  u8,
  u16,
  u32,
  u64,
  boolean,  // one byte, 0 or 1
  f8e4m3fn,
  f8e4m3fnuz,
  f8e5m2,
  f8e5m2fnuz,
  f8e8m0,
  f4e2m1,  // two in a byte, the first in the low half
  i4,      // two in a byte, the first in the low half
  u4,
  i2,  // four in a byte, the first in the low bits
  u2,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::u2) + 1;

// "f32" ... as this project writes them.
std::string_view name(DType dtype);
// Accepts this project's names, NumPy's ("float32") and ONNX's ("FLOAT"); empty where none fits.
std::optional<DType> parse_dtype(std::string_view text);
// ONNX's number of an element type (TensorProto.DataType), which attributes such as `to` and `dtype` hold; empty for
// types that are not supported (strings, complex numbers) and numbers that ONNX does not define.
std::optional<DType> dtype_from_onnx(int64_t code);
int64_t onnx_code(DType dtype);
int bits(DType dtype);
bool is_float(DType dtype);    // any floating format, 4 to 64 bits
bool is_integer(DType dtype);  // signed or unsigned, not boolean
bool is_signed(DType dtype);
// Bytes of `elements` elements, packed types rounded up to a byte.
int64_t storage_bytes(DType dtype, int64_t elements);

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  // round to nearest even
inline float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
inline uint16_t float_to_bfloat16(float value) {  // round to nearest even
  const uint32_t u = std::bit_cast<uint32_t>(value);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40);
  return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

// The storage of f16 and bf16. Arithmetic converts to float and rounds once on the way back.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(float_to_half(value)) {}
  operator float() const { return half_to_float(bits); }
};
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(float_to_bfloat16(value)) {}
  operator float() const { return bfloat16_to_float(bits); }
};

// The type arithmetic is done in: float for Half and BFloat16, the type itself otherwise.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  else if constexpr (std::is_same_v<T, double>) return DType::f64;
  else if constexpr (std::is_same_v<T, Half>) return DType::f16;
  else if constexpr (std::is_same_v<T, BFloat16>) return DType::bf16;
  else if constexpr (std::is_same_v<T, int8_t>) return DType::i8;
  else if constexpr (std::is_same_v<T, int16_t>) return DType::i16;
  else if constexpr (std::is_same_v<T, int32_t>) return DType::i32;
  else if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  else if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
  else if constexpr (std::is_same_v<T, uint16_t>) return DType::u16;
  else if constexpr (std::is_same_v<T, uint32_t>) return DType::u32;
  else if constexpr (std::is_same_v<T, uint64_t>) return DType::u64;
  else if constexpr (std::is_same_v<T, bool>) return DType::boolean;
  else static_assert(!sizeof(T), "no dtype for this type");
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

// Calls fn.operator()<T>() for the T of the list that `dtype` names; fails (internal) when it is not in the list:
// a kernel's `accepts` has to have refused it before.
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

// One element of any dtype as a double (exact for all but 64-bit integers), and back with saturation as ONNX's Cast
// defines it for the small floats. `index` counts elements; packed types are handled. Slow: references and tests.
double load_element(DType dtype, const void* data, int64_t index);
void store_element(DType dtype, void* data, int64_t index, double value, bool saturate = true);

}  // namespace sparkpilot
