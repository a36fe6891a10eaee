// The emulator's numbers against those of NVIDIA's own headers, which convert on the processor, too.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/random.h"
#include "emulator/number.h"

namespace sparkpilot::emulator {
namespace {

bool same(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (std::isnan(a) && std::isnan(b));
}

TEST(NumbersOfTheToolkit, EveryCode) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto code = static_cast<uint16_t>(bits);
    ASSERT_TRUE(same(half_value(code), __half2float(__half(__half_raw{code})))) << bits;
    ASSERT_TRUE(same(bfloat16_value(code), __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{code})))) << bits;
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto code = static_cast<uint8_t>(bits);
    const __half value(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3));
    EXPECT_TRUE(same(e4m3_value(code), __half2float(value))) << bits;
    const __half four(__nv_cvt_fp4_to_halfraw(static_cast<__nv_fp4_storage_t>(bits & 15), __NV_E2M1));
    EXPECT_TRUE(same(e2m1_value(bits & 15), __half2float(four))) << bits;
  }
}

// All exponents, and ties: the codes' own values, the middles between them, and their neighbours.
TEST(NumbersOfTheToolkit, Rounding) {
  const auto check = [](float x) {
    ASSERT_EQ(to_half(x), std::bit_cast<uint16_t>(static_cast<__half_raw>(__float2half_rn(x)))) << x;
    ASSERT_EQ(to_bfloat16(x), std::bit_cast<uint16_t>(static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)))) << x;
    ASSERT_EQ(to_e4m3(x), __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3)) << x;
    ASSERT_EQ(to_e2m1(x), __nv_cvt_float_to_fp4(x, __NV_E2M1, cudaRoundNearest)) << x;
  };
  Random random(1);
  for (int i = 0; i < 1000000; ++i) check(std::bit_cast<float>(random.bits()));
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float a = half_value(static_cast<uint16_t>(bits)), b = half_value(static_cast<uint16_t>(bits + 1));
    for (const float x : {a, (a + b) / 2, std::nextafter((a + b) / 2, a), std::nextafter((a + b) / 2, b)}) check(x);
  }
  for (unsigned bits = 0; bits < 256; ++bits) {
    const float a = e4m3_value(static_cast<uint8_t>(bits)), b = e4m3_value(static_cast<uint8_t>(bits + 1));
    for (const float x : {(a + b) / 2, std::nextafter((a + b) / 2, a), std::nextafter((a + b) / 2, b)}) check(x);
  }
  for (unsigned bits = 0; bits < 16; ++bits) {
    const float a = e2m1_value(bits), b = e2m1_value(bits + 1);
    for (const float x : {a, (a + b) / 2, std::nextafter((a + b) / 2, a), std::nextafter((a + b) / 2, b)}) check(x);
  }
}

}  // namespace
}  // namespace sparkpilot::emulator
