// Shape, indexing, control flow and random ops: invalid operands are refused, old versions agree with the new ones,
// loops carry values and stop, random numbers have the right moments.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/parallel.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ops/registry.h"

namespace sparkpilot {
namespace {

using List = std::vector<int64_t>;

// Runs one node on constants, expansions included.
std::vector<Tensor> run(std::string_view name, std::vector<Tensor> inputs, Attributes attrs = {}, int outputs = 1,
                        int opset = 26) {
  Graph graph;
  std::vector<ValueId> ids;
  for (const Tensor& tensor : inputs) ids.push_back(tensor.present() ? graph.add_constant(tensor) : ValueId{});
  const size_t colon = name.find("::");
  const OpDef* op = colon == std::string_view::npos ? find_op("", name, opset)
                                                    : find_op(name.substr(0, colon), name.substr(colon + 2), opset);
  if (!op) fail_internal("no op {}", name);
  const NodeId id = graph.add_node(*op, ids, std::move(attrs), outputs, "node");
  check_schema(graph, id);
  for (const ValueId output : graph.node(id).outputs) graph.add_output(output, "");
  return interpret(graph, {});
}

Tensor iota(const Shape& shape) {
  Tensor out(DType::f32, shape);
  std::iota(out.data<float>().begin(), out.data<float>().end(), 0.0f);
  return out;
}
Tensor ints(std::initializer_list<int64_t> v) { return Tensor::ints(v); }
List values(const Tensor& tensor) {
  List out;
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    out.push_back(static_cast<int64_t>(load_element(tensor.dtype(), tensor.raw(), i)));
  }
  return out;
}

constexpr int64_t kHuge = INT64_MAX, kTiny = INT64_MIN;

// A border that only crops, at the end of the last axis.
TEST(Pad, CropsTheEndOfTheLastAxis) {
  EXPECT_EQ(values(run("Pad", {iota({2, 4}), ints({0, 0, 0, -2})})[0]), (List{0, 1, 4, 5}));
  EXPECT_EQ(values(run("Pad", {iota({2, 4}), ints({1, 0, -1, -1})})[0]), (List{0, 0, 0, 0, 1, 2}));
}

TEST(Indexing, ShapesThatMakeNoSenseAreRefused) {
  const Tensor x = iota(Shape{2, 3});
  EXPECT_THROW(run("Reshape", {x, ints({-1, -1})}), Error);
  EXPECT_THROW(run("Reshape", {x, ints({4})}), Error);
  EXPECT_THROW(run("Reshape", {x, ints({kHuge, kHuge})}), Error);
  EXPECT_THROW(run("Reshape", {x, ints({0, 0, 0})}), Error);
  EXPECT_THROW(run("Reshape", {x, ints({0, -1})}, {{"allowzero", int64_t{1}}}), Error);
  EXPECT_THROW(run("Reshape", {x, ints({1, 1, 1, 1, 1, 1, 1, 2, 3})}), Error);
  EXPECT_THROW(run("Flatten", {x}, {{"axis", kHuge}}), Error);
  EXPECT_THROW(run("Squeeze", {x, ints({0})}), Error);
  EXPECT_THROW(run("Unsqueeze", {x, ints({0, 0})}), Error);
  EXPECT_THROW(run("Unsqueeze", {x, ints({0, 1, 2, 3, 4, 5, 6})}), Error);
  EXPECT_THROW(run("Transpose", {x}, {{"perm", List{0, 0}}}), Error);
  EXPECT_THROW(run("Transpose", {x}, {{"perm", List{0}}}), Error);
  EXPECT_THROW(run("Concat", {x, iota(Shape{3, 2})}, {{"axis", int64_t{0}}}), Error);
  EXPECT_THROW(run("Split", {x, ints({1, 1})}, {{"axis", int64_t{1}}}, 2), Error);
  EXPECT_THROW(run("Split", {x, ints({kHuge, kHuge})}, {}, 2), Error);
  EXPECT_THROW(run("Split", {x}, {{"num_outputs", int64_t{3}}}, 2), Error);
}

TEST(Indexing, SizesBeyondEveryMemoryAreRefused) {
  const Tensor x = iota(Shape{2, 3});
  EXPECT_THROW(run("ConstantOfShape", {ints({kHuge, 2})}), Error);
  EXPECT_THROW(run("ConstantOfShape", {ints({-1})}), Error);
  EXPECT_THROW(run("Expand", {x, ints({kHuge, 2, 3})}), Error);
  EXPECT_THROW(run("Tile", {x, ints({kHuge, kHuge})}), Error);
  EXPECT_THROW(run("Tile", {x, ints({-1, 1})}), Error);
  EXPECT_THROW(run("Pad", {x, ints({kHuge, kHuge, kHuge, kHuge})}), Error);
  EXPECT_THROW(run("Pad", {x, ints({kTiny, 0, 0, 0})}), Error);
  EXPECT_THROW(run("Pad", {iota(Shape{0}), ints({1, 1})}, {{"mode", std::string("edge")}}), Error);
  EXPECT_THROW(run("Pad", {x, ints({1, 1, 1, 1})}, {{"mode", std::string("mirror")}}), Error);
  EXPECT_THROW(run("Range", {Tensor::scalar(kTiny), Tensor::scalar(kHuge), Tensor::scalar(int64_t{1})}), Error);
  EXPECT_THROW(run("Range", {Tensor::scalar(0.0f), Tensor::scalar(1.0f), Tensor::scalar(0.0f)}), Error);
  EXPECT_THROW(run("Range", {Tensor::scalar(NAN), Tensor::scalar(1.0f), Tensor::scalar(1.0f)}), Error);
  EXPECT_THROW(run("Range", {Tensor::scalar(0), Tensor::scalar(1), Tensor::scalar(0)}), Error);
  EXPECT_THROW(run("OneHot", {ints({1}), Tensor::scalar(kHuge), iota(Shape{2})}), Error);
  EXPECT_THROW(run("OneHot", {ints({1}), Tensor::scalar(NAN), iota(Shape{2})}), Error);
  EXPECT_THROW(run("CenterCropPad", {x, ints({kHuge, kHuge})}), Error);
  EXPECT_THROW(run("DepthToSpace", {iota(Shape{1, 4, 1, 1})}, {{"blocksize", kHuge}}), Error);
  EXPECT_THROW(run("DepthToSpace", {iota(Shape{1, 4, 1, 1})}, {{"blocksize", int64_t{0}}}), Error);
}

TEST(Indexing, IndicesOutsideAreRefused) {
  const Tensor x = iota(Shape{2, 3});
  for (const int64_t bad : {int64_t{2}, int64_t{-3}, kHuge, kTiny}) {
    EXPECT_THROW(run("Gather", {x, ints({0, bad})}), Error);
    EXPECT_THROW(run("Gather", {Tensor::of<uint8_t>(Shape{2}, {1, 2}), ints({bad})}), Error);
    EXPECT_THROW(run("GatherElements", {x, ints({bad}).reshaped(Shape{1, 1})}), Error);
    EXPECT_THROW(run("GatherND", {x, ints({bad})}), Error);
    EXPECT_THROW(run("ScatterND", {x, ints({bad}).reshaped(Shape{1, 1}), iota(Shape{1, 3})}), Error);
    EXPECT_THROW(run("ScatterElements", {x, ints({bad}).reshaped(Shape{1, 1}), iota(Shape{1, 1})}), Error);
    EXPECT_THROW(run("TensorScatter", {iota(Shape{1, 2, 3}), iota(Shape{1, 1, 3}), ints({bad})}), Error);
    EXPECT_THROW(run("ReverseSequence", {iota(Shape{1, 1}), ints({bad})}), Error);
  }
  EXPECT_THROW(run("Gather", {iota(Shape{}), ints({0})}), Error);
  EXPECT_THROW(run("Gather", {x, iota(Shape{1})}), Error);
  EXPECT_THROW(run("GatherND", {x, ints({0, 0, 0})}), Error);
  EXPECT_THROW(run("GatherND", {x, ints({0})}, {{"batch_dims", kHuge}}), Error);
  EXPECT_THROW(run("ScatterND", {x, ints({0}).reshaped(Shape{1, 1}), iota(Shape{2, 3})}), Error);
  EXPECT_THROW(run("ScatterElements", {x, ints({0}).reshaped(Shape{1, 1}), iota(Shape{1, 1})},
                   {{"reduction", std::string("avg")}}),
               Error);
  EXPECT_THROW(run("Slice", {x, ints({0}), ints({1}), ints({2})}), Error);
  EXPECT_THROW(run("Slice", {x, ints({0, 0}), ints({1, 1}), ints({1, -1})}), Error);
  EXPECT_THROW(run("Slice", {x, ints({0}), ints({1}), ints({0}), ints({0})}), Error);
  EXPECT_THROW(run("TopK", {x, ints({4})}, {}, 2), Error);
  EXPECT_THROW(run("TopK", {x, ints({-1})}, {}, 2), Error);
  EXPECT_THROW(run("Compress", {x, Tensor::of<bool>(Shape{3}, {true, true, true})}, {{"axis", int64_t{0}}}), Error);
  EXPECT_THROW(run("Col2Im", {iota(Shape{1, 4, 4}), ints({3, 3}), ints({kHuge, kHuge})}), Error);
  EXPECT_THROW(run("Col2Im", {iota(Shape{1, 4, 4}), ints({3, 3}), ints({2, 2})}, {{"strides", List{0, 1}}}), Error);
}

// A boolean from a file may hold any byte: counting and copying must agree.
TEST(Indexing, BooleansOfAnyByteCountOnce) {
  Tensor odd(DType::boolean, Shape{5});
  const uint8_t bytes[] = {0, 2, 255, 1, 0};
  std::memcpy(odd.raw(), bytes, sizeof(bytes));
  EXPECT_EQ(values(run("NonZero", {odd})[0]), (List{1, 2, 3}));
  EXPECT_EQ(values(run("Compress", {iota(Shape{5}), odd})[0]), (List{1, 2, 3}));
}

TEST(Indexing, OldFormsMeanWhatTheNewOnesDo) {
  const Tensor x = iota(Shape{2, 3, 1});
  EXPECT_EQ(run("Squeeze", {x}, {{"axes", List{2}}}, 1, 11)[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(run("Squeeze", {x}, {}, 1, 11)[0].shape(), (Shape{2, 3}));
  EXPECT_EQ(run("Unsqueeze", {x}, {{"axes", List{0}}}, 1, 11)[0].shape(), (Shape{1, 2, 3, 1}));
  EXPECT_EQ(run("Reshape", {x}, {{"shape", List{-1, 2}}}, 1, 4)[0].shape(), (Shape{3, 2}));
  EXPECT_EQ(values(run("Slice", {x}, {{"starts", List{1}}, {"ends", List{9}}, {"axes", List{1}}}, 1, 9)[0]),
            (List{1, 2, 4, 5}));
  EXPECT_EQ(values(run("Pad", {iota(Shape{2})}, {{"pads", List{1, 1}}, {"value", 7.0f}}, 1, 9)[0]), (List{7, 0, 1, 7}));
  EXPECT_EQ(values(run("TopK", {iota(Shape{5})}, {{"k", int64_t{2}}}, 2, 9)[1]), (List{4, 3}));
  EXPECT_EQ(run("Concat", {iota(Shape{1, 2}), iota(Shape{1, 3})}, {}, 1, 3)[0].shape(), (Shape{1, 5}));
  const auto parts = run("Split", {iota(Shape{5})}, {{"split", List{4, 1}}}, 2, 11);
  EXPECT_EQ(values(parts[1]), (List{4}));
  EXPECT_EQ(values(run("Scatter", {iota(Shape{3}), ints({2}), iota(Shape{1})}, {}, 1, 10)[0]), (List{0, 1, 0}));
}

// --- control flow
// Carries x to Concat(x, captured) and scans x's size; continues while `go`.
std::shared_ptr<const Graph> growing_body(bool go) {
  Graph graph;
  graph.add_input("i", DType::i64, Shape{});
  graph.add_input("condition", DType::boolean, Shape{});
  const ValueId x = graph.add_input("x", DType::f32, std::vector<Dim>{{-1, "n"}});
  const ValueId w = graph.add_input("w", DType::f32, Shape{2});
  Builder b(graph, "body");
  graph.add_output(b.constant(Tensor::scalar(go)), "go");
  const NodeId joined = graph.add_node(*find_op("", "Concat", 26), {x, w}, {{"axis", int64_t{0}}}, 1);
  graph.add_output(graph.node(joined).outputs[0], "next");
  const NodeId size = graph.add_node(*find_op("", "Size", 26), {x}, {}, 1);
  graph.add_output(graph.node(size).outputs[0], "size");
  return std::make_shared<const Graph>(std::move(graph));
}

TEST(Loop, CarriesValuesThatGrowAndStacksWhatItScans) {
  const Attributes attrs{{"body", growing_body(true)}, {"captures", int64_t{1}}};
  const auto out = run("Loop", {Tensor::scalar(int64_t{3}), {}, iota(Shape{1}), iota(Shape{2})}, attrs, 2);
  EXPECT_EQ(values(out[0]), (List{0, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(values(out[1]), (List{1, 3, 5}));
}

TEST(Loop, StopsWhenTheBodySaysSoAndMayNotRunAtAll) {
  const Attributes attrs{{"body", growing_body(false)}, {"captures", int64_t{1}}};
  const auto once = run("Loop", {{}, {}, iota(Shape{1}), iota(Shape{2})}, attrs, 2);
  EXPECT_EQ(values(once[1]), (List{1}));
  const auto never = run("Loop", {Tensor::scalar(int64_t{-5}), {}, iota(Shape{1}), iota(Shape{2})}, attrs, 2);
  EXPECT_EQ(values(never[0]), (List{0}));
  EXPECT_EQ(never[1].shape(), Shape{0});
  EXPECT_EQ(never[1].dtype(), DType::i64);
}

TEST(Loop, BodiesThatDoNotFitAreRefused) {
  const auto body = growing_body(true);
  const Tensor m = Tensor::scalar(int64_t{1}), x = iota(Shape{1});
  EXPECT_THROW(run("Loop", {m, {}, x}, {{"body", body}}, 2), Error);
  EXPECT_THROW(run("Loop", {m, {}, x, x}, {{"body", body}, {"captures", int64_t{9}}}, 2), Error);
  EXPECT_THROW(run("Loop", {m, {}, x, x}, {{"body", body}, {"captures", int64_t{1}}}, 3), Error);
  EXPECT_THROW(run("Loop", {m, {}, ints({1}), x}, {{"body", body}, {"captures", int64_t{1}}}, 2), Error);
  EXPECT_THROW(run("If", {Tensor::scalar(true), x}, {{"then_branch", body}, {"else_branch", body}}), Error);
}

// --- random
TEST(Random, MomentsAndRangeAreRight) {
  const auto draw = [](std::string_view op) {
    return run(op, {Tensor::scalar(uint64_t{3}), Tensor::scalar(uint64_t{0})}, {{"shape", List{100000}}}, 1, 1)[0];
  };
  for (const char* op : {"sparkpilot::RandomUniform", "sparkpilot::RandomNormal"}) {
    const Tensor x = draw(op);
    double sum = 0, squares = 0, low = INFINITY, high = -INFINITY;
    for (const float v : x.data<float>()) {
      sum += v;
      squares += static_cast<double>(v) * v;
      low = std::min<double>(low, v);
      high = std::max<double>(high, v);
    }
    const double mean = sum / 1e5, variance = squares / 1e5 - mean * mean;
    const bool uniform = std::string_view(op).find("Uniform") != std::string_view::npos;
    EXPECT_NEAR(mean, uniform ? 0.5 : 0, 0.01);
    EXPECT_NEAR(variance, uniform ? 1.0 / 12 : 1, 0.02);
    if (uniform) {
      EXPECT_GE(low, 0);
      EXPECT_LT(high, 1);
    }
  }
}

// Two runs of n numbers equal one run of 2 n: the counter advances by what was used.
TEST(Random, TheCounterContinuesTheStream) {
  const auto draw = [](int64_t count, uint64_t counter) {
    return run("sparkpilot::RandomUniform", {Tensor::scalar(uint64_t{3}), Tensor::scalar(counter)},
               {{"shape", List{count}}}, 1, 1)[0];
  };
  const Tensor whole = draw(20, 0), first = draw(10, 0), second = draw(10, 5);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(whole.data<float>()[i], first.data<float>()[i]);
    EXPECT_EQ(whole.data<float>()[10 + i], second.data<float>()[i]);
  }
}

TEST(Random, ShapesAndTypesThatMakeNoSenseAreRefused) {
  const Tensor key = Tensor::scalar(uint64_t{3});
  EXPECT_THROW(run("sparkpilot::RandomUniform", {key, key}, {{"shape", List{kHuge, 2}}}, 1, 1), Error);
  EXPECT_THROW(run("sparkpilot::RandomUniform", {key, key}, {{"shape", List{2}}, {"dtype", int64_t{7}}}, 1, 1), Error);
  EXPECT_THROW(run("RandomNormal", {}, {{"shape", List{-2}}}), Error);
  EXPECT_THROW(run("Multinomial", {iota(Shape{3})}), Error);
}

TEST(Refused, TheReasonIsSaid) {
  try {
    run("SequenceConstruct", {iota(Shape{3})});
    FAIL() << "was not refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("sequence values are not supported"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace sparkpilot
