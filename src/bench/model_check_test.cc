// model check: outputs that agree, outputs that do not, and outputs about which these inputs say nothing.
#include "bench/model_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_files.h"
#include "bench/rounding.h"
#include "ir/interpret.h"
#include "ir/op.h"
#include "onnx/export.h"

namespace sparkpilot {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::nanf("");

Tensor row(std::vector<float> values) { return Tensor::of<float>(Shape{std::ssize(values)}, values); }

class ModelCheckTest : public testing::Test {
 protected:
  ModelCheckTest() { graph.opsets[""] = 21; }
  ValueId input(const Shape& shape) { return graph.add_input("x", DType::f32, shape); }
  ValueId filled(int64_t count, float value) {
    return b.constant(row(std::vector<float>(static_cast<size_t>(count), value)));
  }
  OutputCheck check(ValueId y, ModelCheckOptions options = {}) {
    graph.add_output(y, "y");
    const auto file = folder.path() / "model.onnx";
    save_onnx(graph, file);
    options.session.threads = 1;
    const ModelCheck result = check_model(file, options);
    EXPECT_EQ(result.passed(), result.outputs.at(0).outcome != Outcome::failed);
    return result.outputs.at(0);
  }

  TempFolder folder;
  Graph graph;
  Builder b{graph, "n", 21};
};

TEST_F(ModelCheckTest, WhatAgreesNeedsNoFurtherRun) {
  const ValueId x = input({2, 8});
  const OutputCheck y = check(b.add("LayerNormalization", {x, filled(8, 1.5f)}));
  EXPECT_EQ(y.outcome, Outcome::passed);
  EXPECT_FALSE(y.rounding);
}

TEST_F(ModelCheckTest, TheSameInfinityAgrees) {
  const OutputCheck y = check(b.add("ReduceMax", {input({3, 0}), b.ints({1})}));  // of no elements: minus infinity
  EXPECT_EQ(y.not_finite, 3);
  EXPECT_EQ(y.relative_l2, 0);
  EXPECT_EQ(y.outcome, Outcome::passed);
}

TEST_F(ModelCheckTest, TheSameNanAgrees) {
  const ValueId x = input({16});
  const OutputCheck y = check(b.add("Sqrt", {x}));
  EXPECT_GT(y.not_finite, 0);
  EXPECT_LT(y.not_finite, 16);
  EXPECT_EQ(y.outcome, Outcome::passed);
}

TEST_F(ModelCheckTest, WithoutAReferenceWhatIsNotFiniteFails) {
  ModelCheckOptions quick;
  quick.compare = false;
  EXPECT_EQ(check(b.add("Sqrt", {input({16})}), quick).outcome, Outcome::failed);
}

// Every plane holds one value: its difference from the mean is rounding error, divided by the root of almost zero.
TEST_F(ModelCheckTest, ANormOfOneValueIsIllConditioned) {
  const ValueId planes = b.add("Expand", {input({1, 4, 1, 1}), b.ints({1, 4, 3, 3})});
  const OutputCheck y = check(b.add("InstanceNormalization", {planes, filled(4, 1), filled(4, 0)}));
  EXPECT_EQ(y.outcome, Outcome::ill_conditioned) << y.relative_l2;
  ASSERT_TRUE(y.rounding);
  EXPECT_LE(y.relative_l2, 4 * *y.rounding);
}

TEST_F(ModelCheckTest, ALayerNormOfOneValueIsIllConditioned) {
  const ValueId rows = b.add("Expand", {input({5, 1}), b.ints({5, 7})});
  const ValueId y = b.add("LayerNormalization", {rows, filled(7, 1)});
  const OutputCheck check_y = check(b.add("LayerNormalization", {y, filled(7, 1)}));
  EXPECT_NE(check_y.outcome, Outcome::failed) << check_y.relative_l2;
}

TEST_F(ModelCheckTest, ABatchOfOneValueIsIllConditioned) {
  const ValueId batch = b.add("Expand", {input({1, 4, 1, 1}), b.ints({3, 4, 1, 1})});
  const ValueId w =
      b.constant(Tensor::of<float>(Shape{4, 4, 1, 1}, std::vector<float>{.3f, -.7f, .1f, .9f, .2f, .8f, -.4f, .6f, -.5f,
                                                                         .3f, .7f, .1f, .9f, -.2f, .4f, .3f}));
  const ValueId mixed = b.add("Conv", {batch, w});
  const ValueId ones = filled(4, 1), zeros = filled(4, 0);
  const ValueId y =
      b.add_many("BatchNormalization", {mixed, ones, zeros, zeros, ones}, {{"training_mode", int64_t{1}}}, 3)[0];
  const OutputCheck normed = check(y);
  EXPECT_NE(normed.outcome, Outcome::failed) << normed.relative_l2;
}

TEST(DistanceOf, CountsNanAndInfinityAsValues) {
  const Tensor expected = row({1, kInfinity, -kInfinity, kNan});
  EXPECT_EQ(distance_of(expected.clone(), expected, {}).relative_l2, 0);
  for (const Tensor& other : {row({1, -kInfinity, -kInfinity, kNan}), row({1, 5, -kInfinity, kNan}),
                              row({kNan, kInfinity, -kInfinity, kNan}), row({1, kInfinity, -kInfinity, 0})}) {
    EXPECT_EQ(distance_of(other, expected, {}).relative_l2, kInfinity);
  }
  EXPECT_EQ(distance_of(row({1, 2}), row({1, 2, 3}), {}).relative_l2, kInfinity);
  EXPECT_NEAR(distance_of(row({3, 4.5f}), row({3, 4}), {}).relative_l2, 0.1, 1e-12);
}

TEST(DistanceOf, RoundingExplainsFourTimesWhatItDoes) {
  const Tensor expected = row({3, 4});
  const std::vector<Tensor> disturbed{row({3, 4.01f}), row({3, 3.98f})};
  const Distance near = distance_of(row({3.07f, 4}), expected, disturbed);
  EXPECT_TRUE(near.explained);
  EXPECT_NEAR(near.rounding, 0.02 / 5, 1e-6);
  EXPECT_FALSE(distance_of(row({3.09f, 4}), expected, disturbed).explained);
  EXPECT_FALSE(distance_of(row({3.07f, kNan}), expected, disturbed).explained);
  EXPECT_FALSE(distance_of(row({3, 4, 5}), expected, disturbed).explained);
}

TEST(DistanceOf, WhatRoundingMakesNanIsLeftOut) {
  const Tensor expected = row({3, kNan, 4});
  const std::vector<Tensor> disturbed{row({3, kInfinity, 4.001f}), row({3, kNan, 4})};
  EXPECT_TRUE(distance_of(row({3, 7, 4.002f}), expected, disturbed).explained);
  EXPECT_FALSE(distance_of(row({3, 7, 4.1f}), expected, disturbed).explained);
  EXPECT_FALSE(distance_of(row({kNan, kNan, 4}), expected, disturbed).explained);
}

// The outputs of a sane network move by about the size of the errors; integers and the seed stay unchanged.
TEST(RunWithErrors, MovesASaneNetworkByTheErrorsOnly) {
  Graph graph;
  Builder b(graph, "n");
  const ValueId x = graph.add_input("x", DType::f32, Shape{1, 6});
  const ValueId y = b.add("Softmax", {b.add("Mul", {b.add("Tanh", {x}), b.scalar(DType::f32, 3)})});
  graph.add_output(y, "y");
  graph.add_output(b.add("Floor", {x}), "floor");
  const Tensor in = Tensor::of<float>(Shape{1, 6}, {0.3f, -1.7f, 2.2f, 0.9f, -0.4f, 5});
  const std::vector<Tensor> plain = interpret(graph, std::vector<Tensor>{in});
  const std::vector<Tensor> one = run_with_errors(graph, std::vector<Tensor>{in}, {}, 1);
  const std::vector<Tensor> again = run_with_errors(graph, std::vector<Tensor>{in}, {}, 1);
  const double moved = distance_of(one[0], plain[0], {}).relative_l2;
  EXPECT_GT(moved, 1e-9);
  EXPECT_LT(moved, 1e-5);
  EXPECT_EQ(distance_of(one[0], again[0], {}).relative_l2, 0);
  EXPECT_EQ(distance_of(one[1], plain[1], {}).relative_l2, 0);
  EXPECT_EQ(in.data<float>()[0], 0.3f);
}

}  // namespace
}  // namespace sparkpilot
