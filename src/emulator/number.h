// The small number types of GPUs, from and to their bits. Values are exact; rounding is to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace sparkpilot::emulator {

inline float half_value(uint16_t h) {
  // Subnormals by the multiplication; infinity and NaN keep their exponent.
  const auto magnitude = static_cast<uint32_t>(h & 0x7fff) << 13, sign = static_cast<uint32_t>(h & 0x8000) << 16;
  const uint32_t bits = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
  return std::bit_cast<float>(bits | sign | ((h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0u));
}

inline uint16_t to_half(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > 0x7f800000) return 0x7fff;  // what the GPU makes of any NaN
  if (magnitude >= 0x47800000) {
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {
    half = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  } else {
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  }
  return static_cast<uint16_t>(sign | half);
}

inline float bfloat16_value(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

inline uint16_t to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// FP8 E4M3 as ONNX's FLOAT8E4M3FN: no infinity, NaN is 0x7f and 0xff.
inline float e4m3_value(uint8_t b) {
  const int exponent = b >> 3 & 15, mantissa = b & 7;
  const float magnitude = exponent == 15 && mantissa == 7 ? NAN
                          : exponent ? std::ldexp(1.0f + static_cast<float>(mantissa) / 8, exponent - 7)
                                     : std::ldexp(static_cast<float>(mantissa), -9);
  return b & 0x80 ? -magnitude : magnitude;
}

// Saturating: what is beyond 448 becomes 448; NaN stays NaN.
inline uint8_t to_e4m3(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  const float magnitude = std::fabs(value);
  if (magnitude != magnitude) return 0x7f;
  if (magnitude >= 464.0f) return sign | 0x7e;
  const int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  const auto steps =
      static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));  // 8 to 16, below 8: subnormal
  const int code = exponent == -6 && steps < 8 ? steps : (exponent + 7) * 8 + steps - 8;
  return static_cast<uint8_t>(sign | (code > 0x7e ? 0x7e : code));
}

// FP4 E2M1, the four low bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
inline float e2m1_value(unsigned bits) {
  constexpr float kValues[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return bits & 8 ? -kValues[bits & 7] : kValues[bits & 7];
}

// Saturating; NaN becomes 6, since there is no other code for it.
inline uint8_t to_e2m1(float value) {
  if (value != value) return 7;
  const double x = std::fmin(std::fabs(value), 6.0f);
  uint8_t nearest = 0;
  for (uint8_t code = 1; code < 8; ++code) {
    const double further = std::fabs(x - e2m1_value(code)) - std::fabs(x - e2m1_value(nearest));
    if (further < 0 || (further == 0 && code % 2 == 0)) nearest = code;
  }
  return static_cast<uint8_t>((std::signbit(value) ? 8 : 0) | nearest);
}

}  // namespace sparkpilot::emulator
