#include "tensor/dtype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

namespace sparkpilot {
namespace {

struct Info {
  std::string_view name, numpy, onnx;
  int bits;
  char kind;  // f float, i signed, u unsigned, b boolean, - none
  int code;   // ONNX's code
};
constexpr std::array<Info, kDTypeCount> kInfo{{
    {"none", "", "UNDEFINED", 0, '-', 0},
    {"f32", "float32", "FLOAT", 32, 'f', 1},
    {"f64", "float64", "DOUBLE", 64, 'f', 11},
    {"f16", "float16", "FLOAT16", 16, 'f', 10},
    {"bf16", "bfloat16", "BFLOAT16", 16, 'f', 16},
    {"i8", "int8", "INT8", 8, 'i', 3},
    {"i16", "int16", "INT16", 16, 'i', 5},
    {"i32", "int32", "INT32", 32, 'i', 6},
    {"i64", "int64", "INT64", 64, 'i', 7},
    {"u8", "uint8", "UINT8", 8, 'u', 2},
    {"u16", "uint16", "UINT16", 16, 'u', 4},
    {"u32", "uint32", "UINT32", 32, 'u', 12},
    {"u64", "uint64", "UINT64", 64, 'u', 13},
    {"bool", "bool", "BOOL", 8, 'b', 9},
    {"f8e4m3fn", "float8_e4m3fn", "FLOAT8E4M3FN", 8, 'f', 17},
    {"f8e4m3fnuz", "float8_e4m3fnuz", "FLOAT8E4M3FNUZ", 8, 'f', 18},
    {"f8e5m2", "float8_e5m2", "FLOAT8E5M2", 8, 'f', 19},
    {"f8e5m2fnuz", "float8_e5m2fnuz", "FLOAT8E5M2FNUZ", 8, 'f', 20},
    {"f8e8m0", "float8_e8m0", "FLOAT8E8M0", 8, 'f', 24},
    {"f4e2m1", "float4_e2m1", "FLOAT4E2M1", 4, 'f', 23},
    {"i4", "int4", "INT4", 4, 'i', 22},
    {"u4", "uint4", "UINT4", 4, 'u', 21},
    {"i2", "int2", "INT2", 2, 'i', 26},
    {"u2", "uint2", "UINT2", 2, 'u', 25},
}};

const Info& info(DType dtype) { return kInfo[static_cast<size_t>(dtype)]; }

// A small binary float: sign, `exponent` bits with `bias`, `mantissa` bits.
struct SmallFloat {
  int exponent, mantissa, bias;
  bool infinity;  // has infinities (IEEE style); otherwise the top exponent also holds numbers
  bool fnuz;      // NaN is the code of negative zero
  bool has_nan;
};

SmallFloat small_float(DType dtype) {
  switch (dtype) {
    case DType::f8e4m3fn: return {4, 3, 7, false, false, true};
    case DType::f8e4m3fnuz: return {4, 3, 8, false, true, true};
    case DType::f8e5m2: return {5, 2, 15, true, false, true};
    case DType::f8e5m2fnuz: return {5, 2, 16, false, true, true};
    case DType::f4e2m1: return {2, 1, 1, false, false, false};
    default: fail_internal("{} is no small float", name(dtype));
  }
}

double decode_small(const SmallFloat& f, uint32_t code) {
  const int width = 1 + f.exponent + f.mantissa;
  const uint32_t sign = code >> (width - 1) & 1;
  const uint32_t exponent = code >> f.mantissa & ((1u << f.exponent) - 1);
  const uint32_t mantissa = code & ((1u << f.mantissa) - 1);
  const uint32_t top = (1u << f.exponent) - 1;
  if (f.fnuz && code == 1u << (width - 1)) return std::numeric_limits<double>::quiet_NaN();
  if (f.infinity && exponent == top) {
    if (mantissa) return std::numeric_limits<double>::quiet_NaN();
    return sign ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  }
  if (f.has_nan && !f.fnuz && !f.infinity && exponent == top && mantissa == (1u << f.mantissa) - 1) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  const double value =
      exponent == 0 ? std::ldexp(mantissa, 1 - f.bias - f.mantissa)
                    : std::ldexp(mantissa + (1u << f.mantissa), static_cast<int>(exponent) - f.bias - f.mantissa);
  return sign ? -value : value;
}

// The same of one type, looked up.
template <DType dtype>
double decode(uint32_t code) {
  static const auto values = [] {
    std::array<double, 256> out{};
    const SmallFloat f = small_float(dtype);
    for (uint32_t i = 0; i < 2u << (f.exponent + f.mantissa); ++i) out[i] = decode_small(f, i);
    return out;
  }();
  return values[code];
}

// Largest finite magnitude code (without sign).
uint32_t largest_code(const SmallFloat& f) {
  const uint32_t all = (1u << (f.exponent + f.mantissa)) - 1;
  if (f.infinity) return all - (1u << f.mantissa);
  return f.has_nan && !f.fnuz ? all - 1 : all;
}

uint32_t encode_small(const SmallFloat& f, double value, bool saturate) {
  const int width = 1 + f.exponent + f.mantissa;
  const uint32_t sign = std::signbit(value) ? 1u << (width - 1) : 0;
  const uint32_t nan = f.fnuz ? 1u << (width - 1) : sign | ((1u << (f.exponent + f.mantissa)) - 1);
  // In a format without NaN it becomes negative zero, as in ONNX's own test cases.
  if (std::isnan(value)) return f.has_nan ? nan : 1u << (width - 1);
  const double magnitude = std::fabs(value);
  const uint32_t largest = largest_code(f);
  const double limit = decode_small(f, largest);
  uint32_t code;
  if (std::isinf(value)) {
    if (!saturate && f.infinity) return sign | (largest + 1);
    code = largest;
    if (!saturate) return f.has_nan ? nan : sign | code;
  } else {
    int exponent = 0;
    std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, m in [0.5, 1)
    const int scale = std::max(exponent - 1, 1 - f.bias) - f.mantissa;
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(magnitude, -scale)), scale);
    if (rounded > limit) {
      if (!saturate) return f.infinity ? sign | (largest + 1) : (f.has_nan ? nan : sign | largest);
      code = largest;
    } else if (rounded == 0) {
      code = 0;
    } else {
      std::frexp(rounded, &exponent);
      const int biased = exponent - 1 + f.bias;
      if (biased <= 0) {
        code = static_cast<uint32_t>(std::ldexp(rounded, f.bias - 1 + f.mantissa));
      } else {
        const auto fraction =
            static_cast<uint32_t>(std::ldexp(rounded, f.mantissa - (exponent - 1))) - (1u << f.mantissa);
        code = static_cast<uint32_t>(biased) << f.mantissa | fraction;
      }
    }
  }
  if (f.fnuz && code == 0) return 0;  // no negative zero
  return sign | code;
}

}  // namespace

std::string_view name(DType dtype) { return info(dtype).name; }
int bits(DType dtype) { return info(dtype).bits; }
bool is_float(DType dtype) { return info(dtype).kind == 'f'; }
bool is_integer(DType dtype) { return info(dtype).kind == 'i' || info(dtype).kind == 'u'; }
bool is_signed(DType dtype) { return info(dtype).kind == 'i' || info(dtype).kind == 'f'; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const Info& row = kInfo[static_cast<size_t>(i)];
    if (text == row.name || text == row.numpy || text == row.onnx) return static_cast<DType>(i);
  }
  if (text == "fp32") return DType::f32;
  if (text == "fp16") return DType::f16;
  return std::nullopt;
}

std::optional<DType> dtype_from_onnx(int64_t code) {
  for (int i = 1; i < kDTypeCount; ++i) {
    if (kInfo[static_cast<size_t>(i)].code == code) return static_cast<DType>(i);
  }
  return std::nullopt;
}
int64_t onnx_code(DType dtype) { return info(dtype).code; }

int64_t storage_bytes(DType dtype, int64_t elements) { return (elements * bits(dtype) + 7) / 8; }

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t exponent = h >> 10 & 0x1f;
  const uint32_t mantissa = h & 0x3ff;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t float_to_half(float value) {
  const uint32_t u = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(u >> 16 & 0x8000);
  const uint32_t magnitude = u & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | static_cast<uint16_t>(magnitude >> 13 & 0x3ff);
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // rounds to infinity
  if (magnitude < 0x38800000) {                       // subnormal: let the float adder round at 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - std::bit_cast<uint32_t>(0.5f)));
  }
  const uint32_t odd = magnitude >> 13 & 1;
  return static_cast<uint16_t>(sign | ((magnitude - 0x38000000 + 0xfff + odd) >> 13));
}

double load_element(DType dtype, const void* data, int64_t index) {
  const auto byte = [&](int64_t i) { return static_cast<const uint8_t*>(data)[i]; };
  switch (dtype) {
    case DType::i4: return static_cast<int8_t>((byte(index / 2) >> (index % 2 * 4) & 15) << 4) >> 4;
    case DType::u4: return byte(index / 2) >> (index % 2 * 4) & 15;
    case DType::i2: return static_cast<int8_t>((byte(index / 4) >> (index % 4 * 2) & 3) << 6) >> 6;
    case DType::u2: return byte(index / 4) >> (index % 4 * 2) & 3;
    case DType::f4e2m1: return decode<DType::f4e2m1>(byte(index / 2) >> (index % 2 * 4) & 15u);
    case DType::f8e8m0: {
      const uint8_t code = byte(index);
      return code == 255 ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, code - 127);
    }
    case DType::f8e4m3fn: return decode<DType::f8e4m3fn>(byte(index));
    case DType::f8e4m3fnuz: return decode<DType::f8e4m3fnuz>(byte(index));
    case DType::f8e5m2: return decode<DType::f8e5m2>(byte(index));
    case DType::f8e5m2fnuz: return decode<DType::f8e5m2fnuz>(byte(index));
    default: break;
  }
  double out = 0;
  dispatch(AllTypes{}, dtype, [&]<typename T>() { out = static_cast<double>(static_cast<const T*>(data)[index]); });
  return out;
}

void store_element(DType dtype, void* data, int64_t index, double value, bool saturate) {
  auto* bytes = static_cast<uint8_t*>(data);
  const auto put = [&](int per_byte, uint32_t code) {
    const int width = 8 / per_byte;
    const int shift = static_cast<int>(index % per_byte) * width;
    uint8_t& cell = bytes[index / per_byte];
    cell = static_cast<uint8_t>((cell & ~(((1 << width) - 1) << shift)) | (code & ((1u << width) - 1)) << shift);
  };
  // ONNX converts integers to 4 and 2 bits by keeping the low bits; rounding to a float4 saturates.
  const auto integer = [&] { return static_cast<uint32_t>(saturate_to<int64_t>(value)); };
  switch (dtype) {
    case DType::i4:
    case DType::u4: return put(2, integer());
    case DType::i2:
    case DType::u2: return put(4, integer());
    case DType::f4e2m1: return put(2, encode_small(small_float(dtype), value, true));
    case DType::f8e8m0: {
      if (std::isnan(value)) {
        bytes[index] = 255;
        return;
      }
      int exponent = -127;
      if (value > 0 && std::isfinite(value)) {
        const double m = std::frexp(value, &exponent);  // value = m * 2^exponent, m in [0.5, 1): halves round up
        exponent = m >= 0.75 ? exponent : exponent - 1;
      } else if (std::isinf(value)) {
        exponent = 127;
      }
      bytes[index] = static_cast<uint8_t>(std::clamp(exponent, -127, 127) + 127);
      return;
    }
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
      bytes[index] = static_cast<uint8_t>(encode_small(small_float(dtype), value, saturate));
      return;
    default: break;
  }
  dispatch(AllTypes{}, dtype, [&]<typename T>() {
    T* out = static_cast<T*>(data) + index;
    if constexpr (std::is_same_v<T, bool>) *out = value != 0;
    else if constexpr (std::is_integral_v<T>) *out = saturate_to<T>(value);
    else *out = T(static_cast<Compute<T>>(value));
  });
}

}  // namespace sparkpilot
