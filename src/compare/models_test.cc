// Comparisons of models: numbers against plain loops, outputs that cannot be compared, wrong inputs.
#include "compare/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "base/random.h"
#include "base/test_files.h"
#include "compare/test_faults.h"
#include "ir/op.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "onnx/zoo.h"
#include "passes/precision.h"
#include "tensor/npy.h"

namespace sparkpilot::compare {
namespace {

class CompareModels : public testing::Test {
 protected:
  Variant saved(const Graph& graph, const std::string& name) {
    save_onnx(graph, folder / (name + ".onnx"));
    return {.name = name, .file = folder / (name + ".onnx"), .session = {.threads = 1}};
  }
  // y = x * factor, and what else the test adds.
  struct Small {
    Graph graph;
    Builder b{graph, "n", 21};
    ValueId x, y;
    explicit Small(float factor, const Shape& shape = {2, 8}) {
      graph.opsets[""] = 21;
      x = graph.add_input("x", DType::f32, shape);
      y = b.add("Mul", {x, b.scalar(DType::f32, factor)});
    }
  };
  static std::string error_of(const std::vector<Variant>& variants, const ModelsOptions& options = {}) {
    try {
      compare_models(variants, options);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  TempFolder folder;
  ModelsOptions quick{.time = false};
};

TEST_F(CompareModels, MeasuresOutputsOverAllSamples) {
  Small a(1), b(1.5f);
  a.graph.add_output(a.y, "y");
  b.graph.add_output(b.y, "y");
  Tensor samples(DType::f32, Shape{2, 8});
  for (int64_t i = 0; i < 16; ++i) store_element(DType::f32, samples.raw(), i, static_cast<double>(i - 4));
  save_npy(folder / "a_first.npy", samples.view());
  for (int64_t i = 0; i < 16; ++i) store_element(DType::f32, samples.raw(), i, 100.0);
  save_npy(folder / "b_second.npy", samples.view());
  quick.inputs = {{"x", folder.path().string()}};
  const ModelsComparison c = compare_models({saved(a.graph, "a"), saved(b.graph, "b")}, quick);
  EXPECT_EQ(c.samples, 2u);
  ASSERT_EQ(c.variants[1].outputs.size(), 1u);
  const OutputDifference& y = c.variants[1].outputs[0];
  EXPECT_EQ(y.difference.elements, 32);
  EXPECT_NEAR(y.difference.max_abs, 50, 1e-4);
  EXPECT_NEAR(y.difference.relative_l2, 0.5, 1e-6);
  EXPECT_NEAR(y.difference.worst_sample, 0.5, 1e-6);
  EXPECT_NEAR(y.difference.cosine, 1, 1e-12);
  EXPECT_TRUE(c.variants[0].outputs.empty());
}

TEST_F(CompareModels, NamesWhatItCannotCompare) {
  Small a(1), b(1);
  a.graph.add_output(a.y, "y");
  a.graph.add_output(a.b.add("Relu", {a.y}), "only_a");
  a.graph.add_output(a.b.add("Abs", {a.y}), "shape");
  b.graph.add_output(b.y, "y");
  b.graph.add_output(b.b.add("Neg", {b.y}), "only_b");
  b.graph.add_output(b.b.add("ReduceSum", {b.y, b.b.ints({1})}), "shape");
  const ModelsComparison c = compare_models({saved(a.graph, "a"), saved(b.graph, "b")}, quick);
  ASSERT_EQ(c.variants[1].outputs.size(), 1u);
  EXPECT_EQ(c.variants[1].outputs[0].name, "y");
  const std::vector<std::string> expected{"only_a: only the first model has it",
                                          "shape: [2,1], the first model's is [2,8]",
                                          "only_b: the first model does not have it"};
  EXPECT_EQ(c.variants[1].not_compared, expected);
}

// Two products in a row: the last one is a head, which stays in f32; of convolutions fp4 stores weights as fp8 does.
TEST_F(CompareModels, SaysWhereAPrecisionIsTheSameAsAnother) {
  const auto notes = [&](std::string_view op, int products, const std::map<std::string, double>& largest = {}) {
    Graph graph;
    graph.opsets[""] = 21;
    const bool conv = op == "Conv";
    Random random(1);
    ValueId x = graph.add_input("x", DType::f32, conv ? Shape{1, 8, 2, 2} : Shape{1, 8});
    Builder b(graph, "n", 21);
    for (int i = 0; i < products; ++i) {
      Tensor weights(DType::f32, conv ? Shape{8, 8, 1, 1} : Shape{8, 8});
      for (float& weight : weights.data<float>()) weight = static_cast<float>(random.normal());
      x = b.add(std::string(op), {x, graph.add_constant(weights)});
    }
    graph.add_output(x, "y");
    std::vector<Variant> variants;
    for (const Precision precision : {Precision::fp32, Precision::fp8, Precision::fp4}) {
      variants.push_back(saved(graph, "m"));
      variants.back().name = name(precision);
      variants.back().session.passes.precision = precision;
      if (precision == Precision::fp8) variants.back().session.passes.largest = largest;
    }
    return compare_models(variants, quick).notes;
  };
  const std::string none = ": the model has no weights that would be stored in fewer bits";
  EXPECT_EQ(notes("MatMul", 2), std::vector<std::string>{});
  EXPECT_EQ(notes("Conv", 2), std::vector<std::string>{"fp4: the same as fp8" + none});
  EXPECT_EQ(notes("Conv", 2, {{"x", 3.0}}),
            std::vector<std::string>{"fp4: the same as fp8 without a calibration" + none});
  EXPECT_EQ(notes("MatMul", 1),
            (std::vector<std::string>{"fp8: the same as fp32" + none, "fp4: the same as fp32" + none}));
}

TEST_F(CompareModels, MatchesByPositionWhereNoNameIsTheSame) {
  Small a(1), b(1);
  a.graph.add_output(a.y, "first");
  b.graph.add_output(b.y, "erste");
  const ModelsComparison c = compare_models({saved(a.graph, "a"), saved(b.graph, "b")}, quick);
  ASSERT_EQ(c.variants[1].outputs.size(), 1u);
  EXPECT_EQ(c.variants[1].outputs[0].name, "erste");
  EXPECT_EQ(c.variants[1].outputs[0].of, "first");
  EXPECT_TRUE(c.variants[1].outputs[0].difference.equal());
}

TEST_F(CompareModels, RefusesOtherInputs) {
  Small a(1), larger(1, {2, 9});
  a.graph.add_output(a.y, "y");
  larger.graph.add_output(larger.y, "y");
  EXPECT_NE(error_of({saved(a.graph, "a"), saved(larger.graph, "b")}, quick)
                .find("b.onnx: input \"x\" is [2,9], the first model's is [2,8]"),
            std::string::npos);
  Graph other;
  other.opsets[""] = 21;
  Builder b(other, "n", 21);
  other.add_output(b.add("Relu", {other.add_input("image", DType::f32, Shape{2, 8})}), "y");
  EXPECT_NE(error_of({saved(a.graph, "a"), saved(other, "b")}, quick)
                .find("input \"image\" is not an input of the first model"),
            std::string::npos);
  EXPECT_NE(error_of({saved(a.graph, "a")}).find("at least two"), std::string::npos);
}

// Another type of the same input gets the same numbers.
TEST_F(CompareModels, ConvertsInputs) {
  Small a(1);
  a.graph.add_output(a.y, "y");
  Graph half;
  half.opsets[""] = 21;
  Builder b(half, "n", 21);
  const ValueId x = half.add_input("x", DType::f16, Shape{2, 8});
  half.add_output(b.add("Cast", {x}, {{"to", onnx_code(DType::f32)}}), "y");
  const ModelsComparison c = compare_models({saved(a.graph, "a"), saved(half, "b")}, quick);
  EXPECT_LT(c.variants[1].outputs[0].difference.relative_l2, 1e-3);
  EXPECT_GT(c.variants[1].outputs[0].difference.relative_l2, 0);
}

// Open dimensions of a later model become those of the first one's inputs.
TEST_F(CompareModels, OpenDimensionsFollowTheFirstModel) {
  Small fixed(1, {3, 8});
  fixed.graph.add_output(fixed.y, "y");
  Graph open;
  open.opsets[""] = 21;
  Builder b(open, "n", 21);
  const ValueId x = open.add_input("x", DType::f32, std::vector<Dim>{{-1, "batch"}, {8, ""}});
  open.add_output(b.add("Mul", {x, b.scalar(DType::f32, 1)}), "y");
  const ModelsComparison c = compare_models({saved(fixed.graph, "a"), saved(open, "b")}, quick);
  EXPECT_EQ(c.variants[1].outputs[0].difference.elements, 24);
  EXPECT_TRUE(c.variants[1].outputs[0].difference.equal());
}

// An output whose shape depends on data, and is another one for some sample, does not end the comparison.
TEST_F(CompareModels, OutputsThatChangeTheirShapeAreNotCompared) {
  const auto model = [](float limit) {
    Small m(1, {1, 64});
    const ValueId chosen = m.b.add("Greater", {m.x, m.b.scalar(DType::f32, limit)});
    m.graph.add_output(m.b.add("NonZero", {chosen}), "indices");
    m.graph.add_output(m.y, "y");
    return m.graph;
  };
  quick.random = 5;
  quick.layers = false;
  const ModelsComparison c = compare_models({saved(model(0.5F), "a"), saved(model(0.45F), "b")}, quick);
  EXPECT_EQ(c.samples, 5U);
  ASSERT_EQ(c.variants[1].outputs.size(), 1U);
  EXPECT_EQ(c.variants[1].outputs[0].name, "y");
  ASSERT_EQ(c.variants[1].not_compared.size(), 1U);
  EXPECT_EQ(c.variants[1].not_compared[0].find("indices: [2,"), 0U) << c.variants[1].not_compared[0];
}

TEST_F(CompareModels, ErrorsNameTheFile) {
  Small a(1), b(1);
  a.graph.add_output(a.y, "y");
  b.graph.add_output(b.y, "y");
  Variant wrong = saved(b.graph, "b");
  wrong.session.dims = {{"batch", 2}};
  EXPECT_NE(error_of({saved(a.graph, "a"), wrong}, quick).find("b.onnx"), std::string::npos);
}

TEST(Growing, EndsWithTheFirstInfinity) {
  const auto layer = [](double error) { return LayerDifference{"v", "n", {.relative_l2 = error}}; };
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(growing({layer(0), layer(1e-3), layer(1.5e-3), layer(2e-3), layer(infinity), layer(infinity)}).size(), 3U);
}

// A fault inside shows in the layers: equal before it, different from it on.
TEST_F(CompareModels, LayersSayWhereADifferenceBegins) {
  const Graph model = build_zoo_model("tiny_driving_vision", 1);
  Graph copy = model;
  const std::vector<NodeId> nodes = products(model);
  scale_weights(copy, nodes[nodes.size() / 2], 2);
  const ModelsComparison c = compare_models({saved(model, "a"), saved(copy, "b")}, quick);
  const std::vector<LayerDifference>& layers = c.variants[1].layers;
  ASSERT_GE(layers.size(), 5u);
  EXPECT_TRUE(layers.front().difference.equal());
  const std::vector<LayerDifference> grows = growing(layers);
  ASSERT_FALSE(grows.empty());
  size_t first = 0;
  while (layers[first].difference.equal()) ++first;
  EXPECT_EQ(grows[0].value, layers[first].value);
  for (size_t i = 1; i < grows.size(); ++i) {
    EXPECT_GE(grows[i].difference.relative_l2, 2 * grows[i - 1].difference.relative_l2);
  }
}

TEST_F(CompareModels, TimesInTurns) {
  const Graph model = build_zoo_model("tiny_driving_policy", 1);
  const Variant a = saved(model, "a"), b = saved(model, "b");
  ModelsOptions options;
  options.turns = {.rounds = 6, .round_ms = 1, .min_runs = 2};
  std::vector<std::string> said;
  options.progress = [&](std::string_view what, double done) {
    EXPECT_GE(done, 0);
    EXPECT_LE(done, 1);
    if (said.empty() || said.back() != what) said.emplace_back(what);
  };
  const ModelsComparison c = compare_models({a, b}, options);
  for (const VariantResult& v : c.variants) {
    EXPECT_GE(v.ms.count, 12);
    EXPECT_EQ(v.ratio.rounds, 6);
    EXPECT_GT(v.ratio.median, 0);
    EXPECT_LE(v.ratio.low, v.ratio.median);
    EXPECT_GE(v.ratio.high, v.ratio.median);
    EXPECT_GT(v.arena_bytes, 0);
    EXPECT_EQ(v.threads, 1);
  }
  EXPECT_EQ(c.variants[0].ratio.median, 1);
  EXPECT_EQ(said.front(), "loading");
  EXPECT_NE(std::find(said.begin(), said.end(), "timing in turns"), said.end());
}

}  // namespace
}  // namespace sparkpilot::compare
