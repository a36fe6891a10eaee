#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::run_and_compare;

using Ints = std::vector<int64_t>;

struct FirstLayer {
  int64_t channels = 6, out = 20, kernel = 3, stride = 2;
  DType image = DType::u8, computed = DType::f16;
  bool last_weight_is_nan = false;

  // Cast, moved to channels last, convolved.
  void add_to(Net& n) const {
    const ValueId x = n.input("x", {2, channels, 16, 24}, image);
    const ValueId y = n.transpose(n.op("Cast", {x}, {{"to", onnx_code(computed)}}), {0, 2, 3, 1});
    n.output(convolution(n, y));
  }
  ValueId convolution(Net& n, ValueId x) const {
    Tensor weights = testing::random_tensor({out, channels, kernel, kernel}, 3, computed, 0.3);
    if (last_weight_is_nan) store_element(computed, weights.raw(), weights.elements() - 1, NAN);
    return n.op("sparkpilot::Conv", {x, n.b.constant(weights), n.weight({out}, 5)},
                {{"channels_last", int64_t{1}}, {"strides", Ints{stride, stride}}});
  }
};

TEST(ReadImages, TakesCastAndTransposeAway) {
  for (const auto& [image, computed] : {std::pair(DType::u8, DType::f16),
                                        {DType::u8, DType::f32},
                                        {DType::f32, DType::f16},
                                        {DType::f32, DType::bf16}}) {
    Net n;
    FirstLayer{.image = image, .computed = computed}.add_to(n);
    EXPECT_EQ(run_and_compare(n.graph, read_images), 1);
    EXPECT_EQ(count(n.graph, "Cast") + count(n.graph, "Transpose"), 0);
    EXPECT_EQ(n.graph.node(n.graph.order()[0]).attrs.integer("x_cast"), onnx_code(computed));
  }
}

// In the other order, and with nothing but one of them.
TEST(ReadImages, TakesEitherAlone) {
  Net first;
  const ValueId moved = first.transpose(first.input("x", {2, 6, 16, 24}, DType::u8), {0, 2, 3, 1});
  first.output(FirstLayer().convolution(first, first.op("Cast", {moved}, {{"to", onnx_code(DType::f16)}})));
  EXPECT_EQ(run_and_compare(first.graph, read_images), 1);
  EXPECT_EQ(count(first.graph, "Cast") + count(first.graph, "Transpose"), 0);
  Net only;
  only.output(
      FirstLayer().convolution(only, only.transpose(only.input("x", {2, 6, 16, 24}, DType::f16), {0, 2, 3, 1})));
  EXPECT_EQ(run_and_compare(only.graph, read_images), 1);
  EXPECT_EQ(count(only.graph, "Transpose"), 0);
}

// A grey image is the same with channels last: only its shape differs.
TEST(ReadImages, TakesTheCastOfAGreyImage) {
  Net n;
  const ValueId grey = n.op("Cast", {n.input("x", {1, 1, 16, 24}, DType::u8)}, {{"to", onnx_code(DType::f16)}});
  const FirstLayer layer{.channels = 1, .kernel = 8, .stride = 8};
  n.output(layer.convolution(n, n.reshape(grey, {1, 16, 24, 1})));
  EXPECT_EQ(run_and_compare(n.graph, read_images), 1);
  EXPECT_EQ(count(n.graph, "Cast"), 0);
}

TEST(ReadImages, LeavesWhatWouldBeReadTooOftenOrByAnotherKernel) {
  for (const FirstLayer& layer : {FirstLayer{.channels = 40}, FirstLayer{.out = 200}, FirstLayer{.stride = 5},
                                  FirstLayer{.kernel = 1}, FirstLayer{.last_weight_is_nan = true}}) {
    Net n;
    layer.add_to(n);
    const int before = n.graph.node_count();
    EXPECT_EQ(read_images(n.graph), 0);
    EXPECT_EQ(n.graph.node_count(), before);
  }
}

TEST(ReadImages, LeavesWhatOthersReadAsWell) {
  Net n;
  FirstLayer().add_to(n);
  n.output(n.graph.node(n.graph.order()[1]).outputs[0], "moved");
  EXPECT_EQ(run_and_compare(n.graph, read_images), 0);
}

}  // namespace
}  // namespace sparkpilot
