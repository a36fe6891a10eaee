// Geometry of windows: sizes against ONNX's formulas, and the errors for invalid attributes.
#include "ops/cpu/conv/window.h"

#include <gtest/gtest.h>

#include "ops/cpu/conv/conv_shape.h"
#include "ops/cpu/conv/pool_shape.h"
#include "ops/cpu/gemm/matmul_shape.h"

namespace sparkpilot {
namespace {

using Ints = std::vector<int64_t>;

std::string refusal(const std::function<void()>& fn) {
  try {
    fn();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    return error.what();
  }
  return "nothing was refused";
}

KernelWindow one_dimension(const Attributes& attrs, int64_t in, int64_t kernel, bool ceil_mode = false) {
  return sliding_window(attrs, Ints{in}, Ints{kernel}, ceil_mode);
}

TEST(KernelWindow, SameKeepsTheSizeAndSplitsTheOddPadding) {
  const KernelWindow upper = one_dimension({{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}}, 9, 4);
  EXPECT_EQ(upper.out[2], 5);
  EXPECT_EQ(upper.pad_begin[2], 1);
  EXPECT_EQ(upper.pad_end[2], 2);
  const KernelWindow lower = one_dimension({{"auto_pad", std::string("SAME_LOWER")}, {"strides", Ints{2}}}, 9, 4);
  EXPECT_EQ(lower.pad_begin[2], 2);
  EXPECT_EQ(lower.pad_end[2], 1);
  EXPECT_EQ(one_dimension({{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{4}}}, 8, 1).pad_end[2], 0);
}

TEST(KernelWindow, CeilModeCountsAnOverhangingWindowUnlessItStartsInPadding) {
  EXPECT_EQ(one_dimension({{"strides", Ints{2}}}, 6, 3).out[2], 2);
  EXPECT_EQ(one_dimension({{"strides", Ints{2}}}, 6, 3, true).out[2], 3);
  EXPECT_EQ(one_dimension({{"strides", Ints{2}}, {"pads", Ints{0, 1}}}, 2, 1, true).out[2], 1);
}

TEST(KernelWindow, InsideNamesExactlyTheTapsThatHitTheImage) {
  for (int64_t start = -9; start < 12; ++start) {
    for (int64_t dilation = 1; dilation < 4; ++dilation) {
      const KernelRange range = inside(start, 4, dilation, 7);
      for (int64_t k = 0; k < 4; ++k) {
        const int64_t at = start + k * dilation;
        EXPECT_EQ(k >= range.begin && k < range.end, at >= 0 && at < 7) << start << " " << dilation << " " << k;
      }
    }
  }
}

TEST(KernelWindow, TransposedSizesFollowTheStandard) {
  const KernelWindow plain = transposed_window({{"strides", Ints{3}}, {"output_padding", Ints{1}}}, Ints{4}, Ints{3});
  EXPECT_EQ(plain.out[2], 13);
  const KernelWindow wanted = transposed_window({{"strides", Ints{2}}, {"output_shape", Ints{8}}}, Ints{4}, Ints{3});
  EXPECT_EQ(wanted.out[2], 8);
  EXPECT_EQ(wanted.pad_begin[2], 1);
  EXPECT_EQ(wanted.pad_end[2], 0);
}

TEST(KernelWindow, HostileAttributesAreRefused) {
  const int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(refusal([] { one_dimension({}, 3, 5); }), "window of 5 does not fit into the padded image of 3");
  EXPECT_NE(refusal([] { one_dimension({{"strides", Ints{0}}}, 3, 1); }).find("strides holds 0"), std::string::npos);
  EXPECT_NE(refusal([] {
              one_dimension({{"dilations", Ints{0}}}, 3, 1);
            }).find("dilations holds 0"),
            std::string::npos);
  EXPECT_NE(refusal([&] { one_dimension({{"dilations", Ints{huge}}}, 3, 2); }).find("dilations"), std::string::npos);
  EXPECT_NE(refusal([&] { one_dimension({{"pads", Ints{huge, huge}}}, 3, 2); }).find("pads"), std::string::npos);
  EXPECT_NE(refusal([] { one_dimension({{"pads", Ints{-1, 0}}}, 3, 2); }).find("pads holds -1"), std::string::npos);
  EXPECT_NE(refusal([] { one_dimension({{"pads", Ints{1}}}, 3, 2); }).find("pads has 1 entries"), std::string::npos);
  EXPECT_NE(refusal([] { one_dimension({{"auto_pad", std::string("SOME")}}, 3, 2); }).find("SOME"), std::string::npos);
  EXPECT_NE(refusal([&] {
              transposed_window({{"output_shape", Ints{huge}}}, Ints{4}, Ints{3});
            }).find("output_shape"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              transposed_window({{"pads", Ints{4, 4}}}, Ints{4}, Ints{3});
            }).find("leave no output"),
            std::string::npos);
  const int64_t big = int64_t{1} << 30;
  EXPECT_NE(refusal([&] {
              sliding_window({{"pads", Ints{big, big, big, big, big, big}}}, Ints{1, 1, 1}, Ints{big, big, big});
            }).find("elements"),
            std::string::npos);
}

TEST(ConvShape, OperandsThatDoNotFitAreRefused) {
  EXPECT_EQ(refusal([] { conv_shape({}, {1, 12, 8, 8}, {4, 6, 3, 3}); }), "input has 12 channels, weight expects 6");
  EXPECT_EQ(refusal([] {
              conv_shape({{"group", int64_t{3}}}, {1, 12, 8, 8}, {6, 6, 3, 3});
            }),
            "input has 12 channels, weight expects 6 in each of 3 groups");
  EXPECT_EQ(refusal([] {
              conv_shape({{"group", int64_t{3}}}, {1, 12, 8, 8}, {4, 4, 3, 3});
            }),
            "weight has 4 outputs, which do not divide into 3 groups");
  EXPECT_EQ(refusal([] {
              conv_shape({{"group", int64_t{0}}}, {1, 12, 8, 8}, {4, 4, 3, 3});
            }),
            "group is 0, expected 1 or more");
  EXPECT_EQ(refusal([] { conv_shape({}, {1, 12, 8, 8}, {4, 12, 3}); }), "weight has rank 3, input has rank 4");
  EXPECT_EQ(refusal([] {
              conv_shape({{"kernel_shape", Ints{3, 2}}}, {1, 2, 8, 8}, {4, 2, 3, 3});
            }),
            "kernel_shape differs from the weight's spatial shape");
  EXPECT_NE(refusal([] { conv_shape({}, {1, 12}, {4, 12}); }).find("1 to 3 spatial dimensions"), std::string::npos);
  EXPECT_EQ(refusal([] {
              conv_transpose_shape({}, {1, 12, 8, 8}, {4, 6, 3, 3});
            }),
            "input has 12 channels, weight expects 4");
}

TEST(ConvShape, ProductsWithPaddingAreNotNeeded) {
  const Attributes three{{"pads", Ints{1, 1, 1, 1}}}, seven{{"pads", Ints{3, 3, 3, 3}}};
  EXPECT_DOUBLE_EQ(conv_shape(three, {1, 5, 1, 1}, {4, 5, 3, 3}).needed(), 1.0 / 9);
  EXPECT_DOUBLE_EQ(conv_shape(seven, {1, 5, 2, 2}, {4, 5, 7, 7}).needed(), 4.0 / 49);
  EXPECT_DOUBLE_EQ(conv_shape({}, {1, 5, 8, 9}, {4, 5, 3, 3}).needed(), 1);
  // Three windows along a row of five: the first has one element of padding, the last one as well.
  const Attributes strided{{"pads", Ints{0, 1, 0, 1}}, {"strides", Ints{1, 2}}};
  EXPECT_DOUBLE_EQ(conv_shape(strided, {1, 5, 3, 5}, {4, 5, 3, 3}).needed(), 7.0 / 9);
  // Two inputs of three elements each fall on two outputs: each leaves one out.
  const Attributes cropped{{"pads", Ints{1, 1}}};
  EXPECT_DOUBLE_EQ(inside_share(conv_transpose_shape(cropped, {1, 5, 2}, {5, 4, 3}).window, true), 4.0 / 6);
}

TEST(PoolShape, AWindowMustBeGiven) {
  EXPECT_EQ(refusal([] { pool_shape({}, {1, 2, 8}); }), "attribute kernel_shape is missing");
  EXPECT_EQ(refusal([] {
              pool_shape({{"kernel_shape", Ints{0}}}, {1, 2, 8});
            }),
            "kernel_shape holds 0, expected 1 or more");
  EXPECT_EQ(pool_shape({{"kernel_shape", Ints{3}}, {"channels_last", int64_t{1}}}, {1, 8, 2}).output(),
            (Shape{1, 6, 2}));
}

TEST(MatMulShape, FoldsJoinsAndRefuses) {
  const MatMulShape folded = matmul_shape({2, 3, 4, 5}, {5, 6});
  EXPECT_EQ(folded.batch, 1);
  EXPECT_EQ(folded.m, 24);
  EXPECT_EQ(folded.out, (Shape{2, 3, 4, 6}));
  const MatMulShape joined = matmul_shape({2, 1, 3, 4, 5}, {2, 1, 3, 5, 6});
  EXPECT_EQ(joined.batch_rank, 1);
  EXPECT_EQ(joined.batch_dims[0], 6);
  const MatMulShape crossed = matmul_shape({2, 1, 4, 5}, {3, 5, 6});
  EXPECT_EQ(crossed.batch, 6);
  EXPECT_EQ(crossed.offsets(4).a, 20);
  EXPECT_EQ(crossed.offsets(4).b, 30);
  EXPECT_EQ(matmul_shape({5}, {5}).out, Shape{});
  EXPECT_NE(refusal([] { matmul_shape({2, 3}, {4, 5}); }).find("3 columns against 4 rows"), std::string::npos);
  EXPECT_NE(refusal([] { matmul_shape({}, {4, 5}); }).find("scalar"), std::string::npos);
  EXPECT_NE(refusal([] { matmul_shape({2, 3, 4}, {3, 4, 5}); }).find("broadcast"), std::string::npos);
  EXPECT_NE(refusal([] { gemm_shape({2, 3}, {4, 5}, false, true); }).find("3 columns"), std::string::npos);
}

}  // namespace
}  // namespace sparkpilot
