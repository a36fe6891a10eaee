// Faults planted in copies of networks are found at the node where they are.
#include "compare/bisect.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/random.h"
#include "base/test_files.h"
#include "compare/test_faults.h"
#include "ir/op.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/zoo.h"

namespace sparkpilot::compare {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class Bisect : public testing::Test {
 protected:
  Variant saved(const Graph& graph, const std::string& name) {
    save_onnx(graph, folder / (name + ".onnx"));
    return {.name = name, .file = folder / (name + ".onnx"), .session = {.threads = 1}};
  }
  // Compares the model with a copy, whose named values were kept at most `kept_at_once` at a time.
  Bisection search(const Graph& model, const Graph& copy, const BisectOptions& options = {}) {
    const Variant expected = saved(model, "model"), got = saved(copy, "copy");
    Session session = open_variant(expected, nullptr);
    const Samples samples = load_samples(session, {}, 3, options.samples);
    const Side a = side_of(expected, samples);
    Side b = side_of(got, samples);
    b.run = [this, run = b.run](const auto& keep, size_t sample) {
      kept_at_once = std::max(kept_at_once, keep.size());
      return run(keep, sample);
    };
    return bisect(load_onnx(expected.file), b, a, options);
  }

  TempFolder folder;
  size_t kept_at_once = 0;
};

class BisectZoo : public Bisect, public testing::WithParamInterface<const char*> {};

TEST_P(BisectZoo, FindsAWeightThatIsFivePercentLarger) {
  const Graph model = build_zoo_model(GetParam(), 1);
  const std::vector<NodeId> nodes = products(model);
  Random random(11);
  for (int i = 0; i < 7; ++i) {
    Graph copy = model;
    const NodeId at = nodes[static_cast<size_t>(random.integer(0, std::ssize(nodes) - 1))];
    scale_weights(copy, at, 1.05);
    const Bisection found = search(model, copy, {.samples = 8});  // a Relu may hide it from some
    ASSERT_TRUE(found.fault) << model.label(at);
    EXPECT_TRUE(std::count(found.fault->nodes.begin(), found.fault->nodes.end(), model.label(at)) > 0)
        << model.label(at) << " was planted, found at " << found.fault->nodes.front();
    EXPECT_LE(found.runs, 2 + static_cast<double>(found.sample) + std::log2(static_cast<double>(found.values)));
    EXPECT_GT(found.fault->difference.relative_l2, 0);
    EXPECT_LT(kept_at_once, found.values / 2) << "a run may not keep everything";
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, BisectZoo,
                         testing::Values("tiny_driving_vision", "tiny_driving_policy", "tiny_supercombo"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST_F(Bisect, OfEqualModelsIsOneRun) {
  const Graph model = build_zoo_model("tiny_driving_policy", 1);
  const Bisection found = search(model, model);
  EXPECT_FALSE(found.fault);
  EXPECT_EQ(found.runs, 1);
}

// What differs by less than another engine's rounding is passed over, however large that is beside the value.
TEST_F(Bisect, PassesOverRounding) {
  const auto model = [](float tiny, float factor) {
    Graph graph;
    graph.opsets[""] = 21;
    Builder b(graph, "n", 21);
    const ValueId x = graph.add_input("x", DType::f32, Shape{1, 8});
    const ValueId small = b.add("Mul", {x, b.scalar(DType::f32, tiny)});
    const ValueId large = b.add("Sinh", {b.add("Mul", {b.add("Sin", {x}), b.scalar(DType::f32, factor)})});
    graph.add_output(small, "small");
    graph.add_output(large, "large");
    return graph;
  };
  BisectOptions options{.max_relative_l2 = 1e-4, .rounding = 1e-6};
  EXPECT_FALSE(search(model(1e-9F, 1), model(3e-9F, 1), options).fault);
  const Bisection found = search(model(1e-9F, 1), model(3e-9F, 1.01F), options);
  ASSERT_TRUE(found.fault);
  EXPECT_EQ(found.fault->value, "large");
  options.rounding = 0;
  const Bisection all = search(model(1e-9F, 1), model(3e-9F, 1.01F), options);
  ASSERT_TRUE(all.fault);
  EXPECT_LT(all.fault->difference.max_abs, 1e-7);
  EXPECT_TRUE(search(model(1e-9F, 1), model(static_cast<float>(kNan), 1), {.rounding = 1e30}).fault);
}

TEST_F(Bisect, FindsNan) {
  const Graph model = build_zoo_model("tiny_driving_policy", 1);
  Graph copy = model;
  const std::vector<NodeId> nodes = products(model);
  const NodeId at = nodes[nodes.size() / 2];
  scale_weights(copy, at, kNan);
  // However large the limit is.
  const Bisection found = search(model, copy, {.max_relative_l2 = 1e30});
  ASSERT_TRUE(found.fault);
  EXPECT_GT(found.fault->difference.not_finite, 0);
  EXPECT_TRUE(std::count(found.fault->nodes.begin(), found.fault->nodes.end(), model.label(at)) > 0);
}

// Values of the faulty branch and of a sound one alternate in the order of the file; the difference shrinks on the way,
// and is nothing to the size of the other output.
TEST_F(Bisect, FollowsABranchAmongOthers) {
  Graph model;
  model.opsets[""] = 21;
  Builder b(model, "n", 21);
  ValueId left = model.add_input("x", DType::f32, Shape{4, 16}), right = left;
  std::vector<NodeId> of_left;
  for (uint64_t i = 0; i < 12; ++i) {
    Tensor weights(DType::f32, Shape{16, 16});
    Random random(i + 1);
    for (float& w : weights.data<float>()) w = 0.25f * static_cast<float>(random.normal());
    left = b.add("MatMul", {left, b.constant(weights)});
    of_left.push_back(model.value(left).producer);
    right = b.add("Sinh", {b.add("MatMul", {right, b.constant(weights.clone())})});
  }
  for (int i = 0; i < model.value_count(); ++i) {
    Value& value = model.value(ValueId{i});
    if (!value.producer.present()) continue;
    value.name = fmt::format("v{}", i);
    model.node(value.producer).name = fmt::format("n{}", i);
  }
  model.add_output(b.add("Mul", {left, b.scalar(DType::f32, 1e-3)}), "left");
  model.add_output(right, "right");
  for (const NodeId at : of_left) {
    Graph copy = model;
    scale_weights(copy, at, 1.001);
    const Bisection found = search(model, copy);
    ASSERT_TRUE(found.fault) << model.label(at);
    EXPECT_EQ(found.fault->nodes.back(), model.label(at));  // the last one is fused with the Mul
    EXPECT_LE(found.fault->nodes.size(), 2u);
    EXPECT_NEAR(found.fault->difference.relative_l2, 1e-3, 1e-5);
  }
}

// An output of another name or shape is not taken for an equal one.
TEST_F(Bisect, RefusesModelsWithoutACommonOutput) {
  const auto model = [](const std::string& output, float factor, bool whole) {
    Graph graph;
    graph.opsets[""] = 21;
    Builder b(graph, "n", 21);
    const ValueId y = b.add("Mul", {graph.add_input("x", DType::f32, Shape{1, 8}), b.scalar(DType::f32, factor)});
    graph.add_output(whole ? y : b.add("Slice", {y, b.ints({0}), b.ints({7}), b.ints({1})}), output);
    return graph;
  };
  EXPECT_TRUE(search(model("out", 1, true), model("out", 2, true)).fault);
  EXPECT_THROW(search(model("out", 1, true), model("out2", 2, true)), Error);
  EXPECT_THROW(search(model("out", 1, true), model("out", 2, false)), Error);
}

// Behind a shape that depends on data the rest of the graph is compiled, and fused, when it runs.
TEST_F(Bisect, FindsFaultsBehindShapesThatDependOnData) {
  const auto model = [](float factor) {
    Graph graph;
    graph.opsets[""] = 21;
    Builder b(graph, "n", 21);
    ValueId x = graph.add_input("x", DType::f32, Shape{6, 8});
    const ValueId rows =
        b.add("NonZero", {b.add("ReduceMax", {b.add("Abs", {x}), b.ints({1})}, {{"keepdims", int64_t{0}}})});
    x = b.add("Gather", {x, b.add("Reshape", {rows, b.ints({-1})})});
    for (int i = 0; i < 3; ++i) {
      Tensor weights(DType::f32, Shape{8, 8});
      Random random(static_cast<uint64_t>(i) + 1);
      for (float& w : weights.data<float>()) w = (i == 1 ? factor : 1) * static_cast<float>(random.normal());
      x = b.add("Relu", {b.add("MatMul", {x, b.constant(weights)})});
    }
    for (int i = 0; i < graph.value_count(); ++i) {
      Value& value = graph.value(ValueId{i});
      if (!value.producer.present()) continue;
      value.name = fmt::format("v{}", i);
      graph.node(value.producer).name = fmt::format("{}_{}", graph.node(value.producer).op->name, i);
    }
    graph.add_output(x, graph.value(x).name);
    return graph;
  };
  const Graph good = model(1);
  const Bisection found = search(good, model(1.05F));
  ASSERT_TRUE(found.fault);
  std::vector<std::string> matmuls;
  for (const NodeId id : good.order()) {
    if (good.node(id).op->name == std::string("MatMul")) matmuls.push_back(good.label(id));
  }
  EXPECT_TRUE(std::count(found.fault->nodes.begin(), found.fault->nodes.end(), matmuls[1]) > 0) << found.fault->value;
  EXPECT_EQ(std::count(found.fault->nodes.begin(), found.fault->nodes.end(), matmuls[0]), 0);
}

}  // namespace
}  // namespace sparkpilot::compare
