#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <utility>

#include "sparkpilot/sparkpilot.h"
#include "tensor/tensor.h"

namespace sparkpilot {
namespace {

TEST(DType, HalfRoundTripsEveryCode) {
  for (uint32_t code = 0; code < 65536; ++code) {
    const float value = half_to_float(static_cast<uint16_t>(code));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      EXPECT_EQ(float_to_half(value), code);
    }
  }
}

TEST(DType, TheCInterfaceHasOnnxsNumbers) {
  const std::pair<DType, int> all[] = {{DType::f32, SPARKPILOT_F32},
                                       {DType::f64, SPARKPILOT_F64},
                                       {DType::f16, SPARKPILOT_F16},
                                       {DType::bf16, SPARKPILOT_BF16},
                                       {DType::i8, SPARKPILOT_I8},
                                       {DType::i16, SPARKPILOT_I16},
                                       {DType::i32, SPARKPILOT_I32},
                                       {DType::i64, SPARKPILOT_I64},
                                       {DType::u8, SPARKPILOT_U8},
                                       {DType::u16, SPARKPILOT_U16},
                                       {DType::u32, SPARKPILOT_U32},
                                       {DType::u64, SPARKPILOT_U64},
                                       {DType::boolean, SPARKPILOT_BOOL},
                                       {DType::f8e4m3fn, SPARKPILOT_F8E4M3FN},
                                       {DType::f8e4m3fnuz, SPARKPILOT_F8E4M3FNUZ},
                                       {DType::f8e5m2, SPARKPILOT_F8E5M2},
                                       {DType::f8e5m2fnuz, SPARKPILOT_F8E5M2FNUZ},
                                       {DType::f8e8m0, SPARKPILOT_F8E8M0},
                                       {DType::f4e2m1, SPARKPILOT_F4E2M1},
                                       {DType::i4, SPARKPILOT_I4},
                                       {DType::u4, SPARKPILOT_U4},
                                       {DType::i2, SPARKPILOT_I2},
                                       {DType::u2, SPARKPILOT_U2}};
  EXPECT_EQ(std::size(all), size_t{kDTypeCount - 1});
  for (const auto& [dtype, code] : all) EXPECT_EQ(onnx_code(dtype), code) << name(dtype);
}

TEST(DType, OnnxCodesRoundTrip) {
  EXPECT_EQ(dtype_from_onnx(1), DType::f32);
  EXPECT_EQ(dtype_from_onnx(7), DType::i64);
  EXPECT_EQ(dtype_from_onnx(16), DType::bf16);
  for (int i = 1; i < kDTypeCount; ++i)
    EXPECT_EQ(dtype_from_onnx(onnx_code(static_cast<DType>(i))), static_cast<DType>(i));
  for (const int64_t code : {int64_t{0}, int64_t{8}, int64_t{-1}, int64_t{1000}, INT64_MAX}) {
    EXPECT_FALSE(dtype_from_onnx(code).has_value()) << code;
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.0f + 0x1p-11f), 0x3c00);      // tie: to even
  EXPECT_EQ(float_to_half(1.0f + 3 * 0x1p-11f), 0x3c02);  // tie: to even
  EXPECT_EQ(float_to_half(1.0f + 0x1.8p-11f), 0x3c01);
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(0x1p-25f), 0);
  EXPECT_EQ(float_to_half(0x1.8p-25f), 1);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
}

TEST(DType, BFloat16RoundsToNearestEvenAndKeepsNaN) {
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(NAN))));
}

TEST(DType, SmallFloatsRoundTripEveryCode) {
  for (const DType dtype : {DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz, DType::f8e8m0}) {
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<uint8_t>(code);
      const double value = load_element(dtype, &byte, 0);
      uint8_t back = 0;
      store_element(dtype, &back, 0, value, false);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(load_element(dtype, &back, 0))) << name(dtype) << code;
      } else {
        EXPECT_EQ(back, byte) << name(dtype) << " " << value;
      }
    }
  }
}

TEST(DType, FloatsBecomeIntegersByTruncationAndSaturation) {
  EXPECT_EQ(saturate_to<int8_t>(-3.9), -3);
  EXPECT_EQ(saturate_to<int8_t>(-128.9), -128);
  EXPECT_EQ(saturate_to<int8_t>(1e9), 127);
  EXPECT_EQ(saturate_to<uint8_t>(-0.5), 0);
  EXPECT_EQ(saturate_to<uint8_t>(255.9), 255);
  EXPECT_EQ(saturate_to<int64_t>(1e30), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(saturate_to<int64_t>(-1e30), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(saturate_to<uint64_t>(0x1p64), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(saturate_to<int32_t>(NAN), 0);
}

TEST(DType, PublishedLimits) {
  uint8_t code = 0x7e;
  EXPECT_EQ(load_element(DType::f8e4m3fn, &code, 0), 448.0);
  code = 0x7b;
  EXPECT_EQ(load_element(DType::f8e5m2, &code, 0), 57344.0);
  store_element(DType::f8e4m3fn, &code, 0, 1e9, true);
  EXPECT_EQ(code, 0x7e);
  store_element(DType::f8e4m3fn, &code, 0, 1e9, false);
  EXPECT_EQ(code, 0x7f);
  uint8_t pair = 0;
  store_element(DType::f4e2m1, &pair, 1, -6.0);
  EXPECT_EQ(pair, 0xf0);
  EXPECT_EQ(load_element(DType::f4e2m1, &pair, 1), -6.0);
  uint8_t nan = 0;
  store_element(DType::f4e2m1, &nan, 1, NAN);
  EXPECT_EQ(nan, 0x80);
  store_element(DType::i4, &pair, 0, -3);
  EXPECT_EQ(load_element(DType::i4, &pair, 0), -3.0);
  EXPECT_EQ(load_element(DType::i4, &pair, 1), -1.0);
}

TEST(Tensor, ConvertSaturatesAndRounds) {
  const Tensor x = Tensor::of<float>({4}, {1.5f, -2.7f, 300.f, NAN});
  const Tensor converted = convert(x, DType::u8);
  const auto bytes = converted.data<uint8_t>();
  EXPECT_EQ(bytes[0], 1);
  EXPECT_EQ(bytes[1], 0);
  EXPECT_EQ(bytes[2], 255);
  EXPECT_EQ(convert(x, DType::boolean).data<bool>()[3], true);
}

}  // namespace
}  // namespace sparkpilot
