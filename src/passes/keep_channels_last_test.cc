#include "passes/min_cut.h"

#include <gtest/gtest.h>

#include "passes/test_graph.h"

namespace sparkpilot {
namespace {

using testing::count;
using testing::Net;
using testing::run_and_compare;

Attributes pads(int64_t p) { return {{"pads", std::vector<int64_t>{p, p, p, p}}}; }

ValueId conv(Net& n, ValueId x, const Shape& w, uint64_t seed, int64_t pad = 1) {
  return n.op("Relu", {n.op("Conv", {x, n.weight(w, seed), n.weight({w[0]}, seed + 1)}, pads(pad))});
}

int fuse_and_keep(Graph& graph) {
  fuse_epilogues(graph);
  infer(graph);
  return keep_channels_last(graph);
}

TEST(KeepChannelsLast, AChainHasTransposesAtItsBordersOnly) {
  Net n;
  const ValueId x = n.input("x", {1, 3, 8, 8});
  ValueId y = conv(n, x, {8, 3, 3, 3}, 1);
  const ValueId residual = y;
  y = n.op("MaxPool", {y}, {{"kernel_shape", std::vector<int64_t>{3, 3}}, {"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  y = n.op("Add", {n.op("Mul", {y, n.weight({8, 1, 1}, 7)}), residual});
  y = n.op("Concat", {conv(n, y, {4, 8, 3, 3}, 3), conv(n, y, {4, 8, 3, 3}, 5)}, {{"axis", int64_t{1}}});
  y = n.op("Softmax", {y}, {{"axis", int64_t{1}}});
  y = n.op("Pad", {y, n.b.ints({0, 1, 2, 0, 0, 0, 1, 0})});
  y = n.op("Slice", {y, n.b.ints({0, 2}), n.b.ints({8, 7}), n.b.ints({1, -2})});
  y = conv(n, y, {5, 8, 3, 3}, 9);
  n.output(y);
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 2);
  EXPECT_EQ(count(n.graph, "MaxPool"), 0);
}

// Numbers by channel that are computed, as the gains of an adapter's layers are.
TEST(KeepChannelsLast, ComputedOperandsOfFewerDimensionsStayBetweenConvolutions) {
  Net n;
  const ValueId gains = n.op("Tanh", {n.input("gains", {8, 1, 1})}), gain = n.op("Tanh", {n.input("gain", {1})});
  const ValueId x = conv(n, n.input("x", {1, 1, 8, 8}), {8, 1, 3, 3}, 1);
  const ValueId y = conv(n, n.op("Mul", {x, gains}), {8, 8, 3, 3}, 3);
  n.output(n.op("GlobalAveragePool", {n.op("Sub", {n.op("Div", {gain, n.op("Exp", {y})}), x})}));
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
}

// One row of each image's columns would have to be moved: the operation stays with channels first.
TEST(KeepChannelsLast, ComputedOperandsThatWouldMoveStay) {
  Net n;
  const ValueId table = n.input("table", {8, 1, 8});
  const ValueId x = conv(n, conv(n, n.input("x", {1, 1, 8, 8}), {8, 1, 3, 3}, 1), {8, 8, 3, 3}, 3);
  const ValueId y = n.op("Div", {x, n.op("Exp", {table})});
  n.output(n.op("GlobalAveragePool", {conv(n, conv(n, y, {8, 8, 3, 3}, 5), {8, 8, 3, 3}, 7)}));
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 2);
}

// An image that comes with channels last is read as it is, under its own name.
TEST(KeepChannelsLast, InputsKeepTheirNames) {
  Net n;
  const ValueId x = n.input("x", {1, 8, 8, 3});
  const ValueId first = n.op("Transpose", {x}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  n.graph.value(first).name = "first";
  n.output(conv(n, conv(n, first, {8, 3, 3, 3}, 1), {8, 8, 3, 3}, 3));
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  const Value& input = n.graph.value(n.graph.inputs()[0]);
  EXPECT_EQ(input.name, "x");
  EXPECT_FALSE(input.channels_last);
}

// The way back through two convolutions: the gradients of weights read both images as they come.
TEST(KeepChannelsLast, GradientsOfConvolutionsReadChannelsLast) {
  Net n;
  const ValueId image = n.op("Transpose", {n.input("x", {2, 8, 8, 4})}, {{"perm", std::vector<int64_t>{0, 3, 1, 2}}});
  const ValueId weights = n.weight({6, 8, 3, 3}, 5);
  const ValueId x = conv(n, image, {8, 4, 3, 3}, 1);
  const ValueId dy = n.op("Tanh", {n.op("Conv", {x, weights}, pads(1))});
  const ValueId dx = n.op("ConvTranspose", {dy, weights}, pads(1));
  Attributes window = pads(1);
  window.set("kernel_shape", std::vector<int64_t>{3, 3});
  n.output(n.op("sparkpilot::ConvWeightGradient", {x, dy}, window));
  n.output(n.op("sparkpilot::ConvWeightGradient", {image, dx}, window));
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
  EXPECT_EQ(count(n.graph, "sparkpilot::ConvTranspose"), 1);
}

TEST(KeepChannelsLast, ImagesOfOnePixelOrOneChannelNeedNoTranspose) {
  Net n;
  ValueId y = conv(n, n.input("x", {2, 1, 8, 8}), {8, 1, 3, 3}, 1);
  y = conv(n, y, {6, 8, 3, 3}, 3);
  y = n.op("GlobalAveragePool", {y});
  n.output(n.op("MatMul", {n.op("Flatten", {y}), n.weight({6, 4}, 5)}));
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
  EXPECT_EQ(count(n.graph, "sparkpilot::AveragePool"), 1);
}

TEST(KeepChannelsLast, RowsForAMatrixProductStayInTheOtherOrder) {
  Net n;
  ValueId y = conv(n, n.input("x", {2, 1, 6, 6}), {4, 1, 3, 3}, 1);
  y = n.op("Flatten", {conv(n, y, {4, 4, 3, 3}, 3)});
  n.output(n.op("Gemm", {y, n.weight({144, 5}, 5), n.weight({5}, 6)}), "a");
  n.output(n.op("Gemm", {y, n.weight({7, 144}, 7)}, {{"transB", int64_t{1}}}), "b");
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
}

TEST(KeepChannelsLast, ReadsTransposesAndResizesAsTheyAre) {
  Net n;
  ValueId y = conv(n, n.input("x", {1, 4, 6, 6}), {8, 4, 3, 3}, 1);
  const ValueId scales = n.b.constant(Tensor::of<float>(Shape{4}, {1, 1, 2, 2}));
  y = n.op("Resize", {y, ValueId{}, scales}, {{"mode", std::string("nearest")}});
  y = conv(n, y, {8, 8, 3, 3}, 3);
  const auto parts = n.b.add_many("Split", {y, n.b.ints({2, 6})}, {{"axis", int64_t{1}}}, 2);
  n.output(n.reshape(n.transpose(parts[0], {0, 2, 3, 1}), {144, 2}), "head");
  n.output(conv(n, parts[1], {3, 6, 1, 1}, 5, 0), "image");
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 2);
  EXPECT_EQ(count(n.graph, "sparkpilot::Resize"), 1);
}

TEST(KeepChannelsLast, GatesOfSqueezeAndExcitation) {
  Net n;
  const ValueId x = conv(n, n.input("x", {2, 4, 6, 6}), {8, 4, 3, 3}, 1);
  ValueId gate = n.op("GlobalAveragePool", {x});
  gate = n.op("Sigmoid", {n.op("Conv", {gate, n.weight({8, 8, 1, 1}, 3)})});
  n.output(conv(n, n.op("Mul", {x, gate}), {4, 8, 3, 3}, 5));
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 2);
}

TEST(KeepChannelsLast, OneAndThreeDimensionalImages) {
  Net n;
  const auto two = [&](const Shape& shape, const std::string& name, int64_t spatial) {
    std::vector<int64_t> w{6, 4}, v{4, 6};
    for (int64_t i = 0; i < spatial; ++i) {
      w.push_back(2);
      v.push_back(2);
    }
    const ValueId y = n.op("Conv", {n.input("in_" + name, shape), n.weight(Shape(w), 1)});
    n.output(n.op("Conv", {n.op("Tanh", {y}), n.weight(Shape(v), 2)}), name);
  };
  two({1, 4, 9}, "line", 1);
  two({1, 4, 5, 5, 5}, "volume", 3);
  EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 4);
}

// Of three dimensions channels first and last are one and the same transpose, so two of them are none.
TEST(KeepChannelsLast, LinesThatAreTransposedAndReadAlongTime) {
  for (const char* reader : {"ReduceMean", "Slice", "Conv"}) {
    SCOPED_TRACE(reader);
    Net n;
    const ValueId x = n.op("Relu", {n.op("Conv", {n.input("x", {1, 8, 50}), n.weight({6, 8, 3}, 1)})});
    const ValueId t = n.transpose(n.op("Conv", {x, n.weight({6, 6, 3}, 2)}), {0, 2, 1});
    if (reader == std::string_view("ReduceMean")) n.output(n.op(reader, {t, n.b.ints({1})}));
    else if (reader == std::string_view("Conv"))
      n.output(n.op(reader, {n.transpose(t, {0, 2, 1}), n.weight({4, 6, 3}, 3)}));
    else n.output(n.op(reader, {t, n.b.ints({2}), n.b.ints({40}), n.b.ints({1})}));
    EXPECT_GT(run_and_compare(n.graph, fuse_and_keep), 0);
  }
}

// Where oneDNN has fast convolutions, which move the image themselves.
TEST(KeepChannelsLast, LeavesASingleConvolutionAndOpsItDoesNotKnow) {
  Net n;
  n.output(conv(n, n.input("x", {1, 4, 6, 6}), {4, 4, 3, 3}, 1), "one");
  const ValueId y = conv(n, n.input("z", {1, 4, 6, 6}), {4, 4, 3, 3}, 3);
  const ValueId r = n.reshape(n.op("Relu", {n.reshape(y, {4, 36})}), {1, 4, 6, 6});
  n.output(conv(n, r, {4, 4, 3, 3}, 5), "reshaped");
  const int changes = run_and_compare(n.graph, fuse_and_keep);
#if defined(__x86_64__)
  EXPECT_EQ(changes, 0);
  EXPECT_EQ(count(n.graph, "Transpose"), 0);
#else
  EXPECT_EQ(changes, 3);
  EXPECT_EQ(count(n.graph, "Transpose"), 6);
#endif
}

TEST(MinCut, CutsTheCheapestEdges) {
  MinCut cut;
  const int a = cut.add_node(), b = cut.add_node(), c = cut.add_node();
  cut.add_edge(cut.source(), a, 5);
  cut.add_edge(a, b, 2);
  cut.add_edge(b, a, 9);
  cut.add_edge(b, cut.sink(), 4);
  cut.add_edge(a, c, MinCut::kNever);
  cut.add_edge(c, cut.sink(), 1);
  const std::vector<bool> side = cut.solve();
  EXPECT_TRUE(side[static_cast<size_t>(a)]);
  EXPECT_FALSE(side[static_cast<size_t>(b)]);
  EXPECT_TRUE(side[static_cast<size_t>(c)]);
}

}  // namespace
}  // namespace sparkpilot
