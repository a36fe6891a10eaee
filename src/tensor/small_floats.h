// The formats of 8 and 4 bits in which weights are stored: E4M3 with a scale for each channel, and NVFP4.
//
//   E4M3 (f8e4m3fn)  sign, 4 bits of exponent (bias 7), 3 of mantissa; at most 448; one NaN, no infinity
//   E2M1 (f4e2m1)    0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives; no NaN, no infinity
// (OCP 8-bit Floating Point Specification 1.0; OCP Microscaling Formats Specification 1.0.) Numbers are rounded to the
// nearest, ties to the even code, and saturate. All arithmetic below is in f32, each operation rounded once.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/tensor.h"

namespace sparkpilot {

inline constexpr float kLargestE4m3 = 448, kLargestE2m1 = 6;

// NaN becomes 0x7f or 0xff, by its sign.
inline uint8_t float_to_e4m3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<uint8_t>(bits >> 24 & 0x80);
  if (magnitude > 0x7f800000u) return sign | 0x7f;
  if (magnitude < 0x3c800000u) {  // below 2^-6: steps of 2^-9, rounded by an addition that leaves no bits behind it
    const float rounded = std::bit_cast<float>(magnitude) * 512.0f + 8388608.0f;
    return static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(rounded) & 0xff));
  }
  const uint32_t code = ((magnitude + 0x7ffff + (magnitude >> 20 & 1)) >> 20) - (120u << 3);
  return static_cast<uint8_t>(sign | (magnitude >= 0x7f800000u || code > 0x7e ? 0x7e : code));
}
inline float e4m3_to_float(uint8_t code) {
  if ((code & 0x7f) == 0x7f) return std::bit_cast<float>(0x7fc00000u | static_cast<uint32_t>(code & 0x80) << 24);
  // The same exponent and mantissa in f16, whose bias is larger by 8.
  return half_to_float(static_cast<uint16_t>((code & 0x80) << 8 | (code & 0x7f) << 7)) * 256.0f;
}

// NaN is not represented: the caller excludes it.
inline uint8_t float_to_e2m1(float value) {
  const float m = std::fabs(value);
  const int code = (m > 0.25f) + (m >= 0.75f) + (m > 1.25f) + (m >= 1.75f) + (m > 2.5f) + (m >= 3.5f) + (m > 5.0f);
  return static_cast<uint8_t>((std::signbit(value) ? 8 : 0) | code);
}
inline float e2m1_to_float(uint8_t code) {
  constexpr float kValues[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  return (code & 8) != 0 ? -kValues[code & 7] : kValues[code & 7];
}

// Weights in E4M3: element i is code[i] * scale[its index along an axis].
struct Fp8Weights {
  Tensor codes;   // f8e4m3fn, the weights' shape
  Tensor scales;  // f32 [channels]
};
// A channel's scale is its largest magnitude / 448, or 1 if that is not a normal number. `weights` are f32 and finite.
Fp8Weights to_fp8(const Tensor& weights, int channel_axis);

// Weights in NVFP4: element i is code[i] * (block scale * tensor scale), with a block scale for each 16 elements along
// an axis; the last block may be shorter.
struct Fp4Weights {
  static constexpr int64_t kBlock = 16;
  Tensor codes;         // f4e2m1, the weights' shape
  Tensor block_scales;  // f8e4m3fn, the weights' shape with the axis divided by 16 and rounded up
  Tensor scale;         // f32, one number, shape []
};
// The tensor scale is the largest magnitude / (448 * 6), or 1 if that is not a normal number. A block scale is the
// block's largest magnitude / (6 * tensor scale) in E4M3; where it is 0, so are the codes. `weights` are f32 and
// finite.
Fp4Weights to_fp4(const Tensor& weights, int block_axis);

// NVFP4 of values that are not known beforehand: the tensor scale of `largest`, the largest magnitude of a tensor; the
// step of a block (its scale times the tensor's) whose largest magnitude is `largest`; a value in such a block.
float fp4_scale(float largest);
inline float fp4_step(float largest, float scale) {
  return e4m3_to_float(float_to_e4m3(largest / (kLargestE2m1 * scale))) * scale;
}
inline float round_to_fp4(float value, float step) {
  return step == 0 ? 0 : e2m1_to_float(float_to_e2m1(value / step)) * step;
}
// The larger magnitude, or NaN if one is: a block that holds NaN is NaN.
inline float larger_magnitude(float most, float value) {
  const float magnitude = std::fabs(value);
  return magnitude > most || magnitude != magnitude ? magnitude : most;
}

// What such weights stand for, in f32.
Tensor to_floats(const Fp8Weights& weights, int channel_axis);
Tensor to_floats(const Fp4Weights& weights, int block_axis);

// The scale with which `largest`, the largest magnitude of a tensor, becomes the largest number of E4M3; 1 if that is
// not a normal number.
float fp8_scale(float largest);

}  // namespace sparkpilot
