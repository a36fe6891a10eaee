#include "onnx/older_forms.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/random.h"
#include "ir/infer.h"
#include "ir/interpret.h"
#include "ir/op.h"
#include "onnx/export.h"
#include "onnx/import.h"

namespace sparkpilot {
namespace older_forms_test {

namespace fs = std::filesystem;

class OlderForms : public ::testing::Test {
 protected:
  ~OlderForms() override { fs::remove(path_); }
  const fs::path path_ = fs::temp_directory_path() / fmt::format("sparkpilot_older_{}.onnx", ::getpid());

  // A graph as after the passes: nodes in their newest form, the file's opset.
  static Graph graph_of(const std::function<std::vector<ValueId>(Builder&, ValueId)>& make, int own) {
    Graph g;
    Builder b(g, "newest");
    const ValueId x = g.add_input("x", DType::f32, Shape{2, 6, 1, 4});
    int count = 0;
    for (const ValueId y : make(b, x)) g.add_output(y, fmt::format("y{}", count++));
    g.opsets[""] = own;
    return g;
  }
};

struct Case {
  const char* name;
  int opset;
  std::function<std::vector<ValueId>(Builder&, ValueId)> make;
};
using Values = std::vector<ValueId>;
Attributes text(const char* key, const char* value) { return {{key, std::string(value)}}; }

const Case kCases[] = {
    {"ReduceMean", 17,
     [](Builder& b, ValueId x) {
       return Values{b.add("ReduceMean", {x, b.ints({1, -1})})};
     }},
    {"ReduceSum", 12,
     [](Builder& b, ValueId x) {
       return Values{b.add("ReduceSum", {x, b.ints({1})}, {{"keepdims", int64_t{0}}})};
     }},
    {"ReduceMax of all", 11, [](Builder& b, ValueId x) { return Values{b.add("ReduceMax", {x})}; }},
    {"ReduceMin of nothing", 11,
     [](Builder& b, ValueId x) {
       return Values{b.add("ReduceMin", {x}, {{"noop_with_empty_axes", int64_t{1}}})};
     }},
    {"Squeeze", 12,
     [](Builder& b, ValueId x) {
       return Values{b.add("Squeeze", {x, b.ints({2})})};
     }},
    {"Squeeze of all", 12, [](Builder& b, ValueId x) { return Values{b.add("Squeeze", {x})}; }},
    {"Unsqueeze", 12,
     [](Builder& b, ValueId x) {
       return Values{b.add("Unsqueeze", {x, b.ints({0, 3})})};
     }},
    {"Split", 12,
     [](Builder& b, ValueId x) {
       return b.add_many("Split", {x, b.ints({1, 5})}, {{"axis", int64_t{1}}}, 2);
     }},
    {"Split evenly", 17,
     [](Builder& b, ValueId x) {
       return b.add_many("Split", {x}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}}, 3);
     }},
    {"Split evenly before opset 13", 12,
     [](Builder& b, ValueId x) {
       return b.add_many("Split", {x}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{3}}}, 3);
     }},
    {"Softmax", 12, [](Builder& b, ValueId x) { return Values{b.add("Softmax", {x})}; }},
    {"LogSoftmax", 11,
     [](Builder& b, ValueId x) {
       return Values{b.add("LogSoftmax", {b.add("Flatten", {x})}, {{"axis", int64_t{1}}})};
     }},
    {"Clip", 10,
     [](Builder& b, ValueId x) {
       return Values{b.add("Clip", {x, {}, b.scalar(DType::f32, 0.5)})};
     }},
    {"Pad", 10,
     [](Builder& b, ValueId x) {
       return Values{b.add("Pad", {x, b.ints({0, 1, 0, 2, 0, 0, 3, 0}), b.scalar(DType::f32, 7)})};
     }},
    {"Slice", 9,
     [](Builder& b, ValueId x) {
       return Values{b.add("Slice", {x, b.ints({1, -3}), b.ints({5, -1}), b.ints({1, 3}), b.ints({1, 1})})};
     }},
    {"TopK", 9,
     [](Builder& b, ValueId x) {
       return b.add_many("TopK", {x, b.ints({3})}, {}, 2);
     }},
    {"Resize", 10,
     [](Builder& b, ValueId x) {
       const ValueId scales = b.constant(Tensor::of<float>({4}, {1, 1, 3, 2}));
       Attributes attrs = text("coordinate_transformation_mode", "asymmetric");
       attrs.set("nearest_mode", std::string("floor"));
       return Values{b.add("Resize", {x, {}, scales}, attrs)};
     }},
    {"Resize that shrinks", 10,
     [](Builder& b, ValueId x) {
       Attributes attrs = text("coordinate_transformation_mode", "asymmetric");
       attrs.set("nearest_mode", std::string("ceil"));
       return Values{b.add("Resize", {x, {}, b.constant(Tensor::of<float>({4}, {1, 0.6f, 1, 0.75f}))}, attrs)};
     }},
    {"Resize as Upsample", 8,
     [](Builder& b, ValueId x) {
       Attributes attrs = text("coordinate_transformation_mode", "asymmetric");
       attrs.set("mode", std::string("linear"));
       return Values{b.add("Resize", {x, {}, b.constant(Tensor::of<float>({4}, {1, 1, 3, 2}))}, attrs)};
     }},
    {"Reshape", 13,
     [](Builder& b, ValueId x) {
       return Values{b.add("Reshape", {x, b.ints({3, -1})}, {{"allowzero", int64_t{1}}})};
     }},
    {"Gelu", 14, [](Builder& b, ValueId x) { return Values{b.add("Gelu", {x}, text("approximate", "tanh"))}; }},
    {"Gelu with erf", 19, [](Builder& b, ValueId x) { return Values{b.add("Gelu", {x})}; }},
    {"HardSwish", 13, [](Builder& b, ValueId x) { return Values{b.add("HardSwish", {x})}; }},
    {"Mish", 17, [](Builder& b, ValueId x) { return Values{b.add("Mish", {x})}; }},
    {"Swish", 23,
     [](Builder& b, ValueId x) {
       return Values{b.add("Swish", {x}, {{"alpha", 1.5f}})};
     }},
    {"LayerNormalization", 14,
     [](Builder& b, ValueId x) {
       const ValueId scale = b.constant(Tensor::of<float>({4}, {1, 2, -1, 0.5})), bias = b.scalar(DType::f32, 0.25);
       return b.add_many("LayerNormalization", {x, scale, bias}, {{"axis", int64_t{1}}}, 3);
     }},
    {"RMSNormalization", 22,
     [](Builder& b, ValueId x) {
       const ValueId scale = b.constant(Tensor::of<float>({4}, {1, 2, -1, 0.5}));
       return Values{b.add("RMSNormalization", {x, scale}, {{"epsilon", 0.01f}})};
     }},
};

TEST_F(OlderForms, SayTheSame) {
  Random random(3);
  Tensor x = Tensor::zeros(DType::f32, {2, 6, 1, 4});
  for (float& value : x.data<float>()) value = random.uniform();
  const std::vector<Tensor> inputs{x};
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    const Graph graph = graph_of(one.make, one.opset);
    ASSERT_EQ(save_onnx(graph, path_), one.opset);
    const Graph back = load_onnx(path_);
    EXPECT_EQ(back.opsets.at(""), one.opset);
    const std::vector<Tensor> expected = interpret(graph, inputs), got = interpret(back, inputs);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].shape(), expected[i].shape());
      for (int64_t j = 0; j < got[i].elements(); ++j) {
        EXPECT_NEAR(load_element(got[i].dtype(), got[i].raw(), j),
                    load_element(expected[i].dtype(), expected[i].raw(), j), 1e-6);
      }
    }
  }
}

// Attributes that ops got later: their defaults are not written.
TEST_F(OlderForms, LaterDefaultsAreLeftOut) {
  const auto written = [&](const char* op, const Attributes& attrs, int opset) {
    Graph g;
    const ValueId x = g.add_input("x", DType::f32, Shape{2, 6, 4, 4});
    const bool reshape = std::string_view(op) == "Reshape";
    Builder b(g, "node");
    const ValueId shape = reshape ? b.ints({2, 6, 16}) : ValueId{};
    std::vector<ValueId> inputs{x};
    if (reshape) inputs.push_back(shape);
    g.add_output(b.add(op, inputs, attrs), "y");
    g.opsets[""] = opset;
    EXPECT_EQ(save_onnx(g, path_, {.opset = opset}), opset);
    const Graph back = load_onnx(path_);
    for (const NodeId id : back.order()) {
      if (back.node(id).op->name == op) return back.node(id).attrs.size();
    }
    return size_t{99};
  };
  const std::vector<int64_t> kernel{2, 2}, ones{1, 1};
  const Attributes pool{{"kernel_shape", kernel}, {"ceil_mode", int64_t{0}}, {"dilations", ones}};
  EXPECT_EQ(written("MaxPool", pool, 9), 1u);
  EXPECT_EQ(written("MaxPool", pool, 10), 3u);
  EXPECT_EQ(written("AveragePool", pool, 18), 2u);
  EXPECT_EQ(written("Reshape", {{"allowzero", int64_t{0}}}, 13), 0u);
  EXPECT_EQ(written("Reshape", {{"allowzero", int64_t{0}}}, 14), 1u);
  EXPECT_EQ(written("Shape", {{"start", int64_t{0}}}, 14), 0u);
}

// Before opset 11 axes were counted from the front.
TEST_F(OlderForms, AxesAreCountedFromTheFront) {
  Graph g;
  Builder b(g, "node");
  const ValueId x = g.add_input("x", DType::f32, Shape{2, 6, 4});
  g.add_output(b.add("Flatten", {x}, {{"axis", int64_t{-2}}}), "flat");
  g.add_output(b.add("Unsqueeze", {x, b.ints({0, -1})}), "more");
  g.add_output(b.add("Concat", {x, x}, {{"axis", int64_t{-1}}}), "both");
  g.add_output(b.add("OneHot",
                     {b.add("Cast", {x}, {{"to", onnx_code(DType::i64)}}), b.ints({3}),
                      b.constant(Tensor::of<float>(Shape{2}, {0, 1}))},
                     {{"axis", int64_t{-1}}}),
               "hot");
  g.opsets[""] = 13;
  infer(g);
  EXPECT_EQ(save_onnx(g, path_, {.opset = 10}), 10);
  const Graph back = load_onnx(path_);
  std::map<std::string, Attribute> axes;
  for (const NodeId id : back.order()) {
    for (const char* key : {"axis", "axes"}) {
      if (const Attribute* found = back.node(id).attrs.find(key)) axes[std::string(back.node(id).op->name)] = *found;
    }
  }
  EXPECT_EQ(std::get<int64_t>(axes.at("Flatten")), 1);
  EXPECT_EQ(std::get<std::vector<int64_t>>(axes.at("Unsqueeze")), (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(std::get<int64_t>(axes.at("Concat")), 2);
  EXPECT_EQ(std::get<int64_t>(axes.at("OneHot")), -1);  // which took it before
}

// The expected values of ONNX's case test_resize_downsample_nearest of that opset, and of ONNX Runtime.
TEST(ResizeOfOpset10, RoundsUpWhereItShrinks) {
  const auto resized = [](std::vector<float> scales) {
    Graph g;
    Builder b(g, "node", 10);
    const ValueId x = b.constant(Tensor::of<float>(Shape{1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}));
    const ValueId known = b.constant(Tensor::of<float>(Shape{4}, scales));
    const ValueId computed = b.add("Mul", {known, b.constant(Tensor::of<float>(Shape{1}, {1}))});
    for (const ValueId by : {known, computed}) g.add_output(b.add("Resize", {x, by}, text("mode", "nearest")), "y");
    g.opsets[""] = 10;
    const std::vector<Tensor> y = interpret(g, {});
    EXPECT_TRUE(std::ranges::equal(y[0].data<float>(), y[1].data<float>()));
    return std::vector<float>(y[0].data<float>().begin(), y[0].data<float>().end());
  };
  EXPECT_EQ(resized({1, 1, 0.6f, 0.6f}), (std::vector<float>{1, 3}));
  EXPECT_EQ(resized({1, 1, 2, 0.6f}), (std::vector<float>{1, 3, 1, 3, 5, 7, 5, 7}));
  EXPECT_EQ(resized({1, 1, 1, 1.5f}), (std::vector<float>{1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8}));
}

// What later opsets took away is written in the form that took its place.
TEST_F(OlderForms, WhatWasRemovedIsNotWritten) {
  const auto written = [&](int own, int opset, const std::function<Values(Builder&, ValueId)>& make) {
    Graph g;
    Builder b(g, "node", own);
    const ValueId x = g.add_input("x", DType::f32, Shape{2, 6, 4, 4});
    int count = 0;
    for (const ValueId y : make(b, x)) g.add_output(y, fmt::format("y{}", count++));
    g.opsets[""] = own;
    infer(g);
    EXPECT_EQ(save_onnx(g, path_, {.opset = opset}), opset);
    const Graph back = load_onnx(path_);
    std::string text;
    for (const NodeId id : back.order()) {
      text += std::string(back.node(id).op->name);
      for (const auto& [key, value] : back.node(id).attrs) text += " " + key;
      text += ";";
    }
    return text;
  };
  const auto split = [](Builder& b, ValueId x) { return b.add_many("Split", {x}, {{"axis", int64_t{1}}}, 2); };
  EXPECT_EQ(written(13, 17, split), "Split axis;");
  EXPECT_EQ(written(13, 19, split), "Split axis num_outputs;");
  const auto norm = [](Builder& b, ValueId x) {
    const ValueId row = b.constant(Tensor::of<float>(Shape{6}, {1, 1, 1, 1, 1, 1}));
    return Values{b.add("BatchNormalization", {x, row, row, row, row}, {{"spatial", int64_t{1}}})};
  };
  EXPECT_EQ(written(7, 13, norm).find("spatial"), std::string::npos);
  const auto larger = [](Builder& b, ValueId x) {
    return Values{
        b.add("Upsample", {x, b.constant(Tensor::of<float>(Shape{4}, {1, 1, 2, 2}))}, text("mode", "nearest"))};
  };
  EXPECT_NE(written(9, 9, larger).find("Upsample"), std::string::npos);
  EXPECT_EQ(written(9, 13, larger).find("Upsample"), std::string::npos);
  EXPECT_NE(written(9, 13, larger).find("Resize"), std::string::npos);
  const auto broadcast = [](Builder& b, ValueId x) {
    return Values{b.add("Max", {x, b.constant(Tensor::of<float>(Shape{4}, {1, 2, 3, 4}))})};
  };
  EXPECT_THROW(written(13, 7, broadcast), Error);
}

const Case kRefused[] = {
    {"Resize that shrinks and rounds down", 10,
     [](Builder& b, ValueId x) {
       Attributes attrs = text("coordinate_transformation_mode", "asymmetric");
       attrs.set("nearest_mode", std::string("floor"));
       return Values{b.add("Resize", {x, {}, b.constant(Tensor::of<float>({4}, {1, 0.6f, 1, 1}))}, attrs)};
     }},
    {"Resize that shrinks, as Upsample", 9,
     [](Builder& b, ValueId x) {
       Attributes attrs = text("coordinate_transformation_mode", "asymmetric");
       attrs.set("mode", std::string("linear"));
       return Values{b.add("Resize", {x, {}, b.constant(Tensor::of<float>({4}, {1, 0.6f, 1, 1}))}, attrs)};
     }},
    {"Softmax of the middle", 12,
     [](Builder& b, ValueId x) {
       return Values{b.add("Softmax", {x}, {{"axis", int64_t{1}}})};
     }},
    {"Split with a rest", 17,
     [](Builder& b, ValueId x) {
       return b.add_many("Split", {x}, {{"axis", int64_t{1}}, {"num_outputs", int64_t{4}}}, 4);
     }},
    {"Slice with a step", 9,
     [](Builder& b, ValueId x) {
       return Values{b.add("Slice", {x, b.ints({0}), b.ints({6}), b.ints({1}), b.ints({2})})};
     }},
    {"Reshape to nothing", 13,
     [](Builder& b, ValueId x) {
       const ValueId none = b.add("Slice", {x, b.ints({0}), b.ints({0})});
       return Values{b.add("Reshape", {none, b.ints({0, 5})}, {{"allowzero", int64_t{1}}})};
     }},
    {"MaxPool with a rounded size", 9,
     [](Builder& b, ValueId x) {
       return Values{b.add("MaxPool", {x}, {{"kernel_shape", std::vector<int64_t>{1, 3}}, {"ceil_mode", int64_t{1}}})};
     }},
    {"Weights in 8 bits", 18,
     [](Builder& b, ValueId x) {
       const ValueId codes = b.constant(Tensor::zeros(DType::f8e4m3fn, Shape{4, 3}));
       return Values{b.add("MatMul", {x, b.add("DequantizeLinear", {codes, b.scalar(DType::f32, 0.5)})})};
     }},
    {"A scale for each channel", 12,
     [](Builder& b, ValueId x) {
       const ValueId codes = b.constant(Tensor::zeros(DType::i8, Shape{4, 3}));
       const ValueId scales = b.constant(Tensor::of<float>(Shape{3}, {1, 2, 3}));
       return Values{b.add("MatMul", {x, b.add("DequantizeLinear", {codes, scales})})};
     }},
    {"A sum of bytes", 13,
     [](Builder& b, ValueId x) {
       const ValueId bytes = b.add("Cast", {x}, {{"to", int64_t{2}}});
       return Values{b.add("Add", {bytes, bytes})};
     }},
    {"ReduceMax of bytes", 11,
     [](Builder& b, ValueId x) {
       return Values{b.add("ReduceMax", {b.add("Cast", {x}, {{"to", int64_t{2}}}), b.ints({1})})};
     }},
    {"ReduceMax of bools", 18,
     [](Builder& b, ValueId x) {
       return Values{b.add("ReduceMax", {b.add("Greater", {x, b.scalar(DType::f32, 0)}), b.ints({1})})};
     }},
    {"TopK of integers", 10,
     [](Builder& b, ValueId x) {
       return b.add_many("TopK", {b.add("Cast", {x}, {{"to", int64_t{7}}}), b.ints({2})}, {}, 2);
     }},
    {"Softmax in bf16", 12,
     [](Builder& b, ValueId x) {
       return Values{b.add("Softmax", {b.add("Cast", {x}, {{"to", int64_t{16}}})})};
     }},
    {"Pad in bf16", 10,
     [](Builder& b, ValueId x) {
       const ValueId pads = b.ints({0, 0, 0, 0, 0, 0, 0, 1});
       return Values{b.add("Pad", {b.add("Cast", {x}, {{"to", int64_t{16}}}), pads})};
     }},
    {"Convolution in bf16", 21,
     [](Builder& b, ValueId x) {
       const ValueId w = b.constant(Tensor::zeros(DType::bf16, Shape{2, 6, 1, 1}));
       return Values{b.add("Conv", {b.add("Cast", {x}, {{"to", int64_t{16}}}), w})};
     }},
    {"Pad of some axes", 17,
     [](Builder& b, ValueId x) {
       return Values{b.add("Pad", {x, b.ints({0, 1}), ValueId{}, b.ints({3})})};
     }},
    {"Gemm without a bias", 10,
     [](Builder& b, ValueId x) {
       const ValueId rows = b.add("Reshape", {x, b.ints({12, 4})});
       return Values{b.add("Gemm", {rows, b.constant(Tensor::zeros(DType::f32, Shape{4, 3}))})};
     }},
    {"ScatterND by the largest", 17,
     [](Builder& b, ValueId x) {
       const ValueId at = b.constant(Tensor::of<int64_t>(Shape{1, 1}, {0}));
       const ValueId one = b.constant(Tensor::zeros(DType::f32, Shape{1, 6, 1, 4}));
       return Values{b.add("ScatterND", {x, at, one}, text("reduction", "max"))};
     }},
    {"Clip with a bound that the run computes", 10,
     [](Builder& b, ValueId x) {
       return Values{b.add("Clip", {x, b.add("ReduceMin", {x}, {{"keepdims", int64_t{0}}})})};
     }},
};

TEST_F(OlderForms, WhatHasNoneIsWrittenInANewerOpset) {
  for (const Case& one : kRefused) {
    SCOPED_TRACE(one.name);
    const Graph graph = graph_of(one.make, one.opset);
    EXPECT_THROW(save_onnx(graph, path_, {.opset = one.opset}), Error);
    EXPECT_GT(save_onnx(graph, path_), one.opset);
    EXPECT_EQ(load_onnx(path_).outputs().size(), graph.outputs().size());
  }
}

}  // namespace older_forms_test
}  // namespace sparkpilot
