// Models quantized from files: what is written, how close it is, and what is refused.
#include "bench/quantize_model.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/test_files.h"
#include "bench/calibration.h"
#include "onnx/export.h"
#include "onnx/import.h"
#include "passes/test_graph.h"
#include "stack/test_zip.h"
#include "tensor/npy.h"

namespace sparkpilot {
namespace {

using namespace testing;  // NOLINT: the helpers of the passes' tests

// An inverted bottleneck with a batch norm and a residual, pools and a head.
struct SmallNet : Net {
  SmallNet() {
    const ValueId x = input("x", {1, 3, 16, 12});
    const auto conv = [&](ValueId v, const Shape& w, int64_t group, int64_t pad) {
      return op("Conv", {v, weight(w, static_cast<uint64_t>(w[0] + w[2])), weight({w[0]}, 9)},
                {{"group", group}, {"pads", std::vector<int64_t>{pad, pad, pad, pad}}});
    };
    const ValueId stem = op("Relu", {conv(x, {8, 3, 3, 3}, 1, 1)});
    const ValueId wide = op("Clip", {conv(stem, {24, 8, 1, 1}, 1, 0), scalar(0), scalar(6)});
    const ValueId deep = op("Relu", {conv(wide, {24, 1, 3, 3}, 24, 1)});
    const ValueId narrow =
        op("BatchNormalization", {conv(deep, {8, 24, 1, 1}, 1, 0), weight({8}, 1), weight({8}, 2), weight({8}, 3),
                                  b.constant(Tensor::of<float>({8}, {1, 2, 1, 2, 1, 2, 1, 2}))});
    const ValueId sum = op("Add", {narrow, stem});
    const ValueId pooled =
        op("MaxPool", {sum}, {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"strides", std::vector<int64_t>{2, 2}}});
    const ValueId mean = op("AveragePool", {pooled}, {{"kernel_shape", std::vector<int64_t>{2, 2}}});
    const ValueId flat = op("Flatten", {mean});
    output(op("Gemm", {flat, weight({280, 5}, 4, 0.05), weight({5}, 5)}), "head");
    int i = 0;
    for (const NodeId id : graph.order()) graph.node(id).name = fmt::format("node_{}", i++);
  }
};

// Why `work` is refused, which then leaves no file.
template <typename Work>
std::string refusal_in(const TempFolder& folder, const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::user);
    EXPECT_FALSE(std::filesystem::exists(folder.file("out.onnx")));
    return error.what();
  }
  return "nothing was refused";
}

class QuantizeModel : public ::testing::Test {
 protected:
  void SetUp() override {
    SmallNet net;
    save_onnx(net.graph, folder.file("in.onnx"));
    save_npy(folder.file("samples.npy"), random_tensor({6, 3, 16, 12}, 11).view());
    save_npy(folder.file("held_out.npy"), random_tensor({4, 3, 16, 12}, 12).view());
    options.samples = {{"", folder.file("samples.npy")}};
    options.held_out = {{"x", folder.file("held_out.npy")}};
  }
  QuantizedModel run() {
    return quantize_model(folder.file("in.onnx"), folder.file("out.onnx"), options, [](std::string_view, double) {});
  }
  std::string refusal() {
    return refusal_in(folder, [this] { run(); });
  }
  TempFolder folder;
  QuantizeModelOptions options;
};

TEST_F(QuantizeModel, WritesStandardOnnxThatRunsInIntegers) {
  for (const auto method : {CalibrationMethod::min_max, CalibrationMethod::percentile, CalibrationMethod::entropy}) {
    options.calibration.method = method;
    const QuantizedModel model = run();
    EXPECT_EQ(model.samples, 6u);
    EXPECT_EQ(model.compared, 4u);
    EXPECT_EQ(model.nodes, 5);
    EXPECT_EQ(model.quantized, 5);
    ASSERT_EQ(model.outputs.size(), 1u);
    EXPECT_EQ(model.outputs[0].name, "head");
    EXPECT_GT(model.outputs[0].relative_l2, 0);
    EXPECT_LT(model.outputs[0].relative_l2, 0.1);
  }
  Graph graph = load_onnx(folder.file("out.onnx"));
  infer(graph);
  for (const NodeId id : graph.order()) EXPECT_EQ(graph.node(id).op->domain, "") << graph.label(id);
  EXPECT_EQ(count(graph, "Conv"), 4);
  EXPECT_EQ(count(graph, "BatchNormalization"), 0);
  run_passes(graph);
  EXPECT_EQ(count(graph, "sparkpilot::QConv"), 4);
  EXPECT_EQ(count(graph, "sparkpilot::QGemm"), 1);
  EXPECT_EQ(count(graph, "sparkpilot::QAdd"), 1);
  EXPECT_EQ(count(graph, "sparkpilot::QAveragePool"), 1);
  EXPECT_EQ(count(graph, "QuantizeLinear"), 1);  // only the input's
  EXPECT_EQ(count(graph, "DequantizeLinear"), 0);
}

TEST_F(QuantizeModel, LeavesWhatIsExcludedInFloats) {
  options.graph.exclude = {"Gemm", "node_0"};
  const QuantizedModel model = run();
  EXPECT_EQ(model.quantized, 3);
  const Graph graph = load_onnx(folder.file("out.onnx"));
  for (const NodeId id : graph.order()) {
    if (graph.node(id).name == "node_0" || is_op(graph.node(id), "Gemm")) {
      EXPECT_NE(graph.constant(graph.node(id).inputs[1]), nullptr) << graph.label(id);
    }
  }
}

TEST_F(QuantizeModel, LeavesWhatCostsMostInFloats) {
  options.held_out = {};
  options.correct_biases = false;  // the choice is made without the correction
  const double whole = run().outputs[0].relative_l2;
  options.max_error = whole * 0.7;
  const QuantizedModel model = run();
  EXPECT_LE(model.outputs[0].relative_l2, *options.max_error);
  ASSERT_FALSE(model.kept.empty());
  ASSERT_LT(model.kept.size(), 5u);
  EXPECT_EQ(model.quantized, 5 - static_cast<int64_t>(model.kept.size()));
  for (size_t i = 1; i < model.kept.size(); ++i) EXPECT_GE(model.kept[i - 1].relative_l2, model.kept[i].relative_l2);
  options.max_error = whole * 1.01;
  EXPECT_TRUE(run().kept.empty());
  std::filesystem::remove(folder.file("out.onnx"));
  options.max_error = 1e-7;
  EXPECT_NE(refusal().find("leaves no convolution"), std::string::npos);
}

TEST_F(QuantizeModel, ReadsArchivesOfArrays) {
  const std::string samples = read_file(folder.file("samples.npy"));
  const double expected = run().outputs[0].relative_l2;
  stack::write_zip(folder.file("s.npz"), {{"arr_0.npy", samples}, {"notes.txt", "no array"}});
  options.samples = {{"", folder.file("s.npz")}};
  EXPECT_EQ(run().outputs[0].relative_l2, expected);
  stack::write_zip(folder.file("two.npz"), {{"y.npy", samples}, {"x.npy", samples}});
  options.samples = {{"x", folder.file("two.npz")}};
  EXPECT_EQ(run().outputs[0].relative_l2, expected);
  std::filesystem::remove(folder.file("out.onnx"));
  options.samples = {{"", folder.file("two.npz")}};
  EXPECT_NE(refusal().find("no input \"y\""), std::string::npos);
  stack::write_zip(folder.file("none.npz"), {{"notes.txt", "no array"}});
  options.samples = {{"", folder.file("none.npz")}};
  EXPECT_NE(refusal().find("no arrays in it"), std::string::npos);
}

TEST_F(QuantizeModel, RefusesWithTheReason) {
  options.graph.exclude = {"node_99"};
  EXPECT_NE(refusal().find("no node and no op is named \"node_99\""), std::string::npos);
  options.graph.exclude = {"Conv", "Gemm"};
  EXPECT_NE(refusal().find("to quantize"), std::string::npos);
  options.graph.exclude = {};
  options.samples = {{"y", folder.file("samples.npy")}};
  EXPECT_NE(refusal().find("no input \"y\"; there are: x"), std::string::npos);
  save_npy(folder.file("odd.npy"), random_tensor({6, 3, 16, 11}, 11).view());
  options.samples = {{"x", folder.file("odd.npy")}};
  EXPECT_NE(refusal().find("odd.npy: shape [6,3,16,11]"), std::string::npos);
  Tensor broken = random_tensor({1, 3, 16, 12}, 1);
  broken.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  save_npy(folder.file("nan.npy"), broken.view());
  options.samples = {{"x", folder.file("nan.npy")}};
  EXPECT_NE(refusal().find("nan.npy: sample 0 of input \"x\" holds NaN or infinity"), std::string::npos) << refusal();
  options.samples = {{"x", folder.file("samples.npy")}};
  options.held_out = options.samples;
  options.held_out[0].second = folder.file("nan.npy");
  EXPECT_NE(refusal().find("nan.npy: sample 0 of input \"x\""), std::string::npos) << refusal();
  save_npy(folder.file("grey.npy"), Tensor::zeros(DType::f32, Shape{9, 3, 16, 12}).view());
  options.held_out[0].second = folder.file("grey.npy");
  EXPECT_NE(refusal().find("every input is the same number everywhere in all of 9 samples"), std::string::npos)
      << refusal();
  options.held_out = {};
  run();
  std::filesystem::rename(folder.file("out.onnx"), folder.file("in.onnx"));
  EXPECT_NE(refusal().find("quantized already"), std::string::npos);
}

// A chain of products without biases, and its samples.
class QuantizeProducts : public ::testing::Test {
 protected:
  static Tensor weights(int64_t rows, int64_t columns, uint64_t seed) {
    return random_tensor(Shape{rows, columns}, seed, DType::f32, 0.3);
  }
  void save(const Tensor& first, const Tensor& second) {
    Net n;
    ValueId x = n.op("Relu", {n.op("MatMul", {n.input("x", {1, 24}), n.b.constant(first)})});
    x = n.op("Relu", {n.op("MatMul", {x, n.b.constant(second)})});
    n.output(n.op("MatMul", {x, n.weight({16, 4}, 3)}));
    int i = 0;
    for (const NodeId id : n.graph.order()) n.graph.node(id).name = fmt::format("node_{}", i++);
    save_onnx(n.graph, folder.file("in.onnx"));
  }
  void SetUp() override {
    save(weights(24, 32, 1), weights(32, 16, 2));
    save_npy(folder.file("x.npy"), random_tensor({12, 24}, 11).view());
    options.samples = {{"x", folder.file("x.npy")}};
  }
  StoredModel store() {
    return store_model(folder.file("in.onnx"), folder.file("out.onnx"), options, [](std::string_view, double) {});
  }
  std::string refusal() {
    return refusal_in(folder, [this] { store(); });
  }
  TempFolder folder;
  StoreModelOptions options;
};

TEST_F(QuantizeProducts, ToInt8WithoutABias) {
  QuantizeModelOptions int8;
  int8.samples = options.samples;
  const QuantizedModel model =
      quantize_model(folder.file("in.onnx"), folder.file("out.onnx"), int8, [](std::string_view, double) {});
  EXPECT_EQ(model.quantized, 3);
  EXPECT_LT(model.outputs[0].relative_l2, 0.05);
  Graph graph = load_onnx(folder.file("out.onnx"));
  infer(graph);
  run_passes(graph);
  EXPECT_EQ(count(graph, "sparkpilot::QGemm"), 3);
}

TEST_F(QuantizeProducts, WeightsThatAreNotFiniteAreNamedAndTheErrorIsInfinite) {
  Tensor bad = weights(24, 32, 1), worse = weights(32, 16, 2);
  bad.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();
  worse.data<float>()[5] = std::numeric_limits<float>::infinity();
  save(bad, weights(32, 16, 2));
  const StoredModel model = store();
  EXPECT_EQ(model.not_finite, "\"node_0\"");
  EXPECT_EQ(model.outputs[0].relative_l2, std::numeric_limits<double>::infinity());
  EXPECT_EQ(model.outputs[0].worst, std::numeric_limits<double>::infinity());
  std::filesystem::remove(folder.file("out.onnx"));
  options.target_error = 0.5;
  EXPECT_NE(refusal().find("outputs hold NaN on these samples"), std::string::npos) << refusal();
  options.target_error = {};
  save(bad, worse);
  EXPECT_NE(refusal().find("to store; those of \"node_0\", \"node_2\" hold NaN or infinity"), std::string::npos)
      << refusal();
}

TEST_F(QuantizeProducts, RefuseWhatIsInFewBitsAlreadyAndSamplesThatTellNothing) {
  store();
  std::filesystem::rename(folder.file("out.onnx"), folder.file("in.onnx"));
  EXPECT_NE(refusal().find("the model is quantized already (node \"node_0\")"), std::string::npos) << refusal();
  CalibrateModelOptions calibrating;
  calibrating.samples = options.samples;
  try {
    calibrate_model(folder.file("in.onnx"), folder.file("out.json"), calibrating, [](std::string_view, double) {});
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("quantized already"), std::string::npos) << error.what();
  }
  SetUp();
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    Tensor broken = random_tensor({12, 24}, 11);
    broken.data<float>()[5 * 24 + 3] = value;
    save_npy(folder.file("broken.npy"), broken.view());
    options.samples = {{"x", folder.file("broken.npy")}};
    EXPECT_NE(refusal().find("broken.npy: sample 5 of input \"x\" holds NaN or infinity"), std::string::npos)
        << refusal();
  }
  save_npy(folder.file("zeros.npy"), Tensor::zeros(DType::f32, Shape{12, 24}).view());
  options.samples = {{"x", folder.file("zeros.npy")}};
  EXPECT_NE(refusal().find("every input is the same number everywhere in all of 12 samples"), std::string::npos);
  options.samples = {{"x", folder.file("x.npy")}};
  options.held_out = {{"x", folder.file("zeros.npy")}};
  EXPECT_NE(refusal().find("every input is the same number everywhere in all of 12 samples"), std::string::npos);
}

// Convolutions with a GELU between them, written out; its last factor, 0.5, is folded into the weights behind it in a
// file, and not in a session, which recognises the GELU first.
class QuantizeCalibrated : public ::testing::Test {
 protected:
  void SetUp() override {
    Net n;
    ValueId x = n.op("Conv", {n.input("x", {1, 6, 5, 7}), n.weight({12, 6, 1, 1}, 1, 0.4), n.weight({12}, 2, 0.1)});
    const ValueId erf = n.op("Erf", {n.op("Div", {x, n.scalar(1.4142135)})});
    x = n.op("Mul", {n.op("Mul", {x, n.op("Add", {erf, n.scalar(1)})}), n.scalar(0.5)});
    x = n.op("Relu", {n.op("Conv", {x, n.weight({8, 12, 3, 3}, 3, 0.1)})});
    x = n.op("Relu", {n.op("MatMul", {n.op("Flatten", {x}), n.weight({8 * 3 * 5, 16}, 4, 0.1)})});
    n.output(n.op("MatMul", {x, n.weight({16, 4}, 5)}));
    n.graph.opsets[""] = 17;
    save_onnx(n.graph, folder.file("in.onnx"));
    save_npy(folder.file("x.npy"), random_tensor({12, 6, 5, 7}, 11).view());
    CalibrateModelOptions calibrating;
    calibrating.threads = options.threads = 1;
    calibrating.samples = {{"x", folder.file("x.npy")}};
    calibrate_model(folder.file("in.onnx"), folder.file("c.json"), calibrating, [](std::string_view, double) {});
    options.samples = calibrating.samples;
    options.largest = calibrated(folder.file("c.json"), folder.file("in.onnx"));
  }
  StoredModel store() {
    return store_model(folder.file("in.onnx"), folder.file("out.onnx"), options, [](std::string_view, double) {});
  }
  Tensor result(const std::string& file, const PassOptions& passes) const {
    const std::vector<Tensor> inputs{random_tensor({1, 6, 5, 7}, 12)};
    return interpret(optimised(load_onnx(folder.file(file)), passes), inputs)[0];
  }
  TempFolder folder;
  StoreModelOptions options;
};

TEST_F(QuantizeCalibrated, WritesActivationsInE4m3OfOpset19AsASessionRoundsThem) {
  EXPECT_EQ(options.largest.size(), 4u);  // of the image, the GELU with and without its last factor, the product's rows
  const StoredModel model = store();
  EXPECT_EQ(model.opset, 19);
  for (const SmallLayer& layer : model.layers) EXPECT_EQ(layer.rounds_input, layer.format == WeightFormat::fp8);
  const Graph file = load_onnx(folder.file("out.onnx"));
  EXPECT_EQ(count(file, "QuantizeLinear"), 3);
  EXPECT_EQ(count(file, "DequantizeLinear"), 6);
  const Tensor got = result("out.onnx", {});
  const PassOptions fp8{.precision = Precision::fp8, .largest = options.largest}, weights{.precision = Precision::fp8};
  // Sums and GELUs that differ in their last bits may round to other codes.
  EXPECT_LT(distance(got, result("in.onnx", fp8)), 5e-3);
  EXPECT_GT(distance(got, result("in.onnx", weights)), 1e-2);
  EXPECT_LT(distance(got, result("in.onnx", {.precision = Precision::fp32})), 0.2);
}

// A GPU multiplies the file's codes as it does those of a session.
TEST_F(QuantizeCalibrated, TheFilesCodesAreMultiplied) {
  store();
  const Graph gpu = optimised(load_onnx(folder.file("out.onnx")), {}, {.device = Device::cuda});
  EXPECT_EQ(count(gpu, "QuantizeLinear"), 3);
  EXPECT_EQ(count(gpu, "DequantizeLinear"), 0);
  EXPECT_EQ(count(gpu, "sparkpilot::ScaledConv"), 2);
  EXPECT_EQ(count(gpu, "sparkpilot::ScaledGemm"), 1);
  for (const NodeId id : gpu.order()) {
    const Node& node = gpu.node(id);
    if (node.op->name.starts_with("Scaled")) {
      EXPECT_EQ(gpu.value(node.inputs[0]).dtype, DType::f8e4m3fn);
    }
  }
}

TEST_F(QuantizeCalibrated, ATargetCountsRoundedActivations) {
  options.target_error = 10;  // of twelve samples whose errors differ by a factor of ten
  const double rounded = *store().error;
  options.largest = {};
  EXPECT_GT(rounded, *store().error);
}

TEST(LikelyWorst, GrowsWithHowErrorsVary) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> same(9, 0.02), few{0.01, 0.02, 0.05}, none(9, 0.0);
  EXPECT_NEAR(likely_worst(same).error, 0.02, 1e-12);
  EXPECT_NEAR(likely_worst(few).error, 0.055, 1e-12);
  EXPECT_EQ(likely_worst(none).error, 0);
  std::vector<double> varied;
  for (int i = 0; i < 20; ++i) varied.push_back(0.02 * (i % 2 == 0 ? 2 : 0.5));
  // Logarithms with a deviation of log(2) * sqrt(20 / 19), 4.318 of them above their mean.
  EXPECT_NEAR(likely_worst(varied).error, 0.02 * std::exp(4.318 * std::log(2) * std::sqrt(20.0 / 19)), 0.03);
  varied[3] = 0;  // as if it were 0.01
  EXPECT_LT(likely_worst(varied).error, 0.5);
  varied[3] = inf;
  EXPECT_EQ(likely_worst(varied).error, inf);
}

// Six of a kind say little more than one of them: samples in two groups that differ leave more room than single ones.
TEST(LikelyWorst, CountsWhatIsIndependent) {
  std::vector<double> errors;
  Random random(3);
  for (int i = 0; i < 36; ++i) errors.push_back((i / 6 % 2 == 0 ? 0.01 : 0.03) * std::exp(0.1 * random.normal()));
  const std::vector<size_t> groups(6, 6), shuffled(36, 1);
  EXPECT_NEAR(likely_worst(errors).error, likely_worst(errors, shuffled).error, 1e-9);
  EXPECT_GT(likely_worst(errors, groups).error, 2 * likely_worst(errors).error);
  // Groups that do not differ change little.
  for (double& error : errors) error = 0.02 * std::exp(0.5 * random.normal());
  EXPECT_NEAR(likely_worst(errors, groups).error, likely_worst(errors).error, 0.25 * likely_worst(errors).error);
}

TEST_F(QuantizeProducts, EachFileIsAGroup) {
  save_npy(folder.file("small.npy"),
           [] {
             Tensor t = random_tensor({12, 24}, 5);
             for (float& v : t.data<float>()) v = std::abs(v);
             return t;
           }()
               .view());
  options.samples = {{"x", folder.file("x.npy")}, {"x", folder.file("small.npy")}};
  options.budget = 2500;
  const double grouped = store().likely_worst.independent;
  EXPECT_LT(grouped, 24);
  Tensor both(DType::f32, {24, 24});
  const Tensor first = load_npy(folder.file("x.npy")), second = load_npy(folder.file("small.npy"));
  std::ranges::copy(first.data<float>(), both.data<float>().begin());
  std::ranges::copy(second.data<float>(), both.data<float>().begin() + first.elements());
  save_npy(folder.file("both.npy"), both.view());
  options.samples = {{"x", folder.file("both.npy")}};
  EXPECT_EQ(store().likely_worst.independent, 24);
}

// What is chosen keeps the target on these samples, and on others.
TEST_F(QuantizeProducts, ATargetIsMeantForOtherSamples) {
  const auto samples = [&](uint64_t seed) {
    const std::string file = folder.file(fmt::format("{}.npy", seed));
    save_npy(file, random_tensor({20, 24}, seed).view());
    return std::vector<std::pair<std::string, std::string>>{{"x", file}};
  };
  options.samples = samples(1);
  options.held_out = samples(2);
  options.precision = Precision::fp4;
  for (const double target : {0.25, 0.5, 1.0}) {
    options.target_error = target;
    const StoredModel model = store();
    EXPECT_LE(*model.error, target);
    EXPECT_LE(model.likely_worst.error, target);
    EXPECT_LE(model.outputs[0].worst, target);
    EXPECT_GT(model.likely_worst.error, *model.error);
  }
}

TEST(Calibration, CutsWhatLiesFarOutside) {
  Histogram h;
  h.low = -100;
  h.high = 100;
  const Tensor values = random_tensor({100000}, 3);
  h.add(values.data<float>());
  const float far[] = {-100, 100};
  h.add(far);
  const ValueRange percentile = percentile_range(h, 99.9);
  EXPECT_NEAR(percentile.low, -3.3, 0.2);
  EXPECT_NEAR(percentile.high, 3.3, 0.2);
  const ValueRange entropy = entropy_range(h);
  EXPECT_LT(entropy.high, 60);
  EXPECT_GE(entropy.high, 50);  // the lowest threshold tried is half the range
  // After a Relu zero remains the lower end.
  Histogram positive;
  positive.high = 8;
  for (float& v : values.data<float>()) v = std::abs(v);
  positive.add(values.data<float>());
  EXPECT_EQ(percentile_range(positive, 99).low, 0);
  EXPECT_NEAR(percentile_range(positive, 99).high, 2.6, 0.2);
}

}  // namespace
}  // namespace sparkpilot
