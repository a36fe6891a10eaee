// Products by weights in 8 and 4 bits on every instruction set of this machine, against sums in double.
#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "ir/infer.h"
#include "ops/check.h"
#include "tensor/small_floats.h"

namespace sparkpilot {
namespace {

Tensor normal_numbers(const Shape& shape, uint64_t seed) {
  Tensor out = Tensor::zeros(DType::f32, shape);
  Random random(seed);
  for (float& x : out.data<float>()) x = static_cast<float>(random.normal());
  return out;
}

struct SmallProduct {
  std::vector<Tensor> inputs;  // of sparkpilot::ScaledGemm
  std::vector<double> expected;
};

// relu(a w + bias), w [depth, columns] as it is stored.
SmallProduct small_product(int64_t rows, int64_t depth, int64_t columns, bool four_bits) {
  const Tensor a = normal_numbers(Shape{rows, depth}, 1), w = normal_numbers(Shape{depth, columns}, 2);
  const Tensor bias = normal_numbers(Shape{columns}, 3);
  SmallProduct out;
  Tensor floats;
  if (four_bits) {
    const Fp4Weights small = to_fp4(w, 0);
    floats = to_floats(small, 0);
    out.inputs = {a, small.codes, small.scale, small.block_scales, bias};
  } else {
    const Fp8Weights small = to_fp8(w, 1);
    floats = to_floats(small, 1);
    out.inputs = {a, small.codes, small.scales, Tensor(), bias};
  }
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      double sum = bias.view().as<float>()[j];
      for (int64_t p = 0; p < depth; ++p)
        sum += double{a.view().as<float>()[i * depth + p]} * double{floats.view().as<float>()[p * columns + j]};
      out.expected.push_back(std::max(sum, 0.0));
    }
  }
  return out;
}

double distance_from(const Tensor& y, const std::vector<double>& expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double d = double{y.view().as<float>()[i]} - expected[i];
    difference += d * d;
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

TEST(SmallProducts, AreWithinAMillionthOfDouble) {
  const OpDef& op = *find_op("sparkpilot", "ScaledGemm", 1);
  struct Sizes {
    int64_t rows, depth, columns;
  };
  for (const bool four_bits : {false, true}) {
    for (const Sizes& s : {Sizes{1, 700, 40}, {1, 16400, 40}, {2, 16401, 33}, {7, 16400, 40}, {65, 2049, 5}}) {
      const SmallProduct product = small_product(s.rows, s.depth, s.columns, four_bits);
      Node node{.op = &op, .name = "product", .inputs = {}, .outputs = {ValueId{0}}, .attrs = {}};
      for (size_t i = 0; i < product.inputs.size(); ++i)
        node.inputs.push_back(product.inputs[i].present() ? ValueId{static_cast<int32_t>(i)} : ValueId{});
      node.attrs.set("epilogue", std::vector<std::string>{"relu"});
      for (int bit = 0; bit < 63; ++bit) {
        const int64_t target = int64_t{1} << bit;
        if (!(hwy::SupportedTargets() & target & HWY_TARGETS)) continue;
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(target);
        const std::vector<Tensor> y = evaluate(node, product.inputs, "simd");
        EXPECT_LE(distance_from(y[0], product.expected), 1e-6)
            << (four_bits ? "NVFP4 " : "E4M3 ") << s.rows << " x " << s.depth << " x " << s.columns << ", target "
            << target;
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot
