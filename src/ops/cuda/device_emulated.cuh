// The words of device.cuh in the emulator; device_gpu.cuh says what they mean.
#pragma once

#include "emulator/matrix.h"
#include "emulator/memory_words.h"

namespace device {

inline void begin_kernel() {}
inline void let_next_begin() {}

using sparkpilot::emulator::bfloat16_value;
using sparkpilot::emulator::e4m3_value;
using sparkpilot::emulator::half_value;
using sparkpilot::emulator::to_bfloat16;
using sparkpilot::emulator::to_e4m3;
using sparkpilot::emulator::to_half;

inline float2 half2_values(uint32_t bits) {
  return {half_value(static_cast<uint16_t>(bits)), half_value(static_cast<uint16_t>(bits >> 16))};
}
inline uint32_t pack_half2(float low, float high) { return to_half(low) | static_cast<uint32_t>(to_half(high)) << 16; }
inline float2 bfloat162_values(uint32_t bits) {
  return {bfloat16_value(static_cast<uint16_t>(bits)), bfloat16_value(static_cast<uint16_t>(bits >> 16))};
}
inline uint32_t pack_bfloat162(float low, float high) {
  return to_bfloat16(low) | static_cast<uint32_t>(to_bfloat16(high)) << 16;
}
inline uint32_t pack_e2m1x2(float low, float high) {
  return sparkpilot::emulator::to_e2m1(low) | static_cast<uint32_t>(sparkpilot::emulator::to_e2m1(high)) << 4;
}

inline uint32_t multiply_half2(uint32_t a, uint32_t b) {
  const float2 x = half2_values(a), y = half2_values(b);
  return pack_half2(x.x * y.x, x.y * y.y);
}
inline uint32_t multiply_bfloat162(uint32_t a, uint32_t b) {
  const float2 x = bfloat162_values(a), y = bfloat162_values(b);
  return pack_bfloat162(x.x * y.x, x.y * y.y);
}

inline uint4 load_16(const void* from, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::load<uint4>(from, here);
}
inline uint2 load_8(const void* from, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::load<uint2>(from, here);
}
inline uint4 load_16_once(const void* from, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::load<uint4>(from, here);
}
inline uint4 load_16_ahead(const void* from, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::load<uint4>(from, here);
}
inline uint2 load_8_ahead(const void* from, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::load<uint2>(from, here);
}
inline uint2 load_8_once(const void* from, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::load<uint2>(from, here);
}
inline uint32_t load_4_once(const void* from, SPARKPILOT_EMULATOR_HERE) {
  return sparkpilot::emulator::load<uint32_t>(from, here);
}
inline void store_16(void* to, uint4 value, SPARKPILOT_EMULATOR_HERE) { sparkpilot::emulator::store(to, value, here); }
inline void store_8(void* to, uint2 value, SPARKPILOT_EMULATOR_HERE) { sparkpilot::emulator::store(to, value, here); }

template <int kBytes>
inline void copy_async(void* to, const void* from, int bytes, SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::copy_async({to, from, kBytes, static_cast<unsigned>(bytes), here});
}
inline void copy_16_ahead(void* to, const void* from, int bytes, SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::copy_async({to, from, 16, static_cast<unsigned>(bytes), here});
}
inline void copy_commit() { sparkpilot::emulator::commit_copies(); }
template <int kPending>
inline void copy_wait() {
  sparkpilot::emulator::wait_for_copies(kPending);
}

inline void load_matrix_x4(uint32_t (&r)[4], const void* row, SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::load_matrices(4, false, row, r, here);
}
inline void load_matrix_x4_transposed(uint32_t (&r)[4], const void* row, SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::load_matrices(4, true, row, r, here);
}

template <typename T, int kM, int kN>
inline void emulated_tile(sparkpilot::emulator::MmaType type, T (&c)[kM][kN][4], const uint32_t (&a)[kM][4],
                          const uint32_t (&b)[kN][2], SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::multiply(type, kM, kN, a, b, &c[0][0][0], here);
}
inline void mma_f16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::multiply(sparkpilot::emulator::MmaType::f16, 1, 1, &a, &b, c, here);
}
inline void mma_bf16(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::multiply(sparkpilot::emulator::MmaType::bf16, 1, 1, &a, &b, c, here);
}
inline void mma_e4m3(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::multiply(sparkpilot::emulator::MmaType::e4m3, 1, 1, &a, &b, c, here);
}
inline void mma_s8(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::multiply(sparkpilot::emulator::MmaType::s8, 1, 1, &a, &b, c, here);
}
inline void mma_e2m1(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], uint32_t scale_a, uint32_t scale_b,
                     SPARKPILOT_EMULATOR_HERE) {
  sparkpilot::emulator::multiply_fp4(a, b, scale_a, scale_b, c, here);
}

}  // namespace device
