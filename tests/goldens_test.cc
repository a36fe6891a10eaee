// Real networks compared with ONNX Runtime's results: relative L2 error under 1e-5, with the interpreter's plain
// references and with the runtime.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/test_assets.h"
#include "ir/interpret.h"
#include "onnx/import.h"
#include "ops/check.h"
#include "runtime/session.h"
#include "tensor/npy.h"

namespace sparkpilot {
namespace goldens_test {

namespace fs = std::filesystem;
constexpr double kTolerance = 1e-5;

struct Golden {
  fs::path model;
  std::vector<std::string> input_names, output_names;
  std::vector<Tensor> inputs, outputs;
};

Golden load_golden(const fs::path& folder) {
  const auto meta = nlohmann::json::parse(read_file(folder / "meta.json"));
  Golden golden{assets_folder() / meta.at("model").get<std::string>(),
                meta.at("inputs").get<std::vector<std::string>>(),
                meta.at("outputs").get<std::vector<std::string>>(),
                {},
                {}};
  for (size_t i = 0; i < golden.input_names.size(); ++i) {
    golden.inputs.push_back(load_npy(folder / fmt::format("in_{}.npy", i)));
  }
  for (size_t i = 0; i < golden.output_names.size(); ++i) {
    golden.outputs.push_back(load_npy(folder / fmt::format("out_{}.npy", i)));
  }
  return golden;
}

class Goldens : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const fs::path folder = assets_folder() / "golden_ort" / GetParam();
    if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
    golden_ = load_golden(folder);
  }
  Golden golden_;
};

TEST_P(Goldens, ByTheInterpretersReferences) {
  const Graph graph = load_onnx(golden_.model);
  std::vector<Tensor> inputs(graph.inputs().size());
  ASSERT_EQ(inputs.size(), golden_.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (graph.value(graph.inputs()[i]).name == golden_.input_names[k]) inputs[i] = golden_.inputs[k];
    }
    ASSERT_TRUE(inputs[i].present());
  }
  const std::vector<Tensor> outputs = interpret(graph, inputs, nullptr, "reference");
  ASSERT_EQ(outputs.size(), golden_.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    ASSERT_EQ(graph.outputs()[i].name, golden_.output_names[i]);
    ASSERT_EQ(outputs[i].shape(), golden_.outputs[i].shape());
    EXPECT_LT(relative_l2(outputs[i], golden_.outputs[i]), kTolerance) << golden_.output_names[i];
  }
}

TEST_P(Goldens, ByTheRuntime) {
  Session session(load_onnx(golden_.model));
  for (size_t i = 0; i < golden_.inputs.size(); ++i) {
    session.set_input(golden_.input_names[i], golden_.inputs[i].view());
  }
  session.run();
  for (size_t i = 0; i < golden_.outputs.size(); ++i) {
    const ConstView view = session.output(golden_.output_names[i]);
    ASSERT_EQ(view.shape, golden_.outputs[i].shape());
    Tensor output(view.dtype, view.shape);
    std::copy_n(static_cast<const std::byte*>(view.data), view.bytes(), static_cast<std::byte*>(output.raw()));
    EXPECT_LT(relative_l2(output, golden_.outputs[i]), kTolerance) << golden_.output_names[i];
  }
}

// Only the last position, of a large batch that repeats the golden's samples: unneeded positions are not computed, and
// the batch is split into slices.
TEST(TinyPhysics, LastPositionOfALargeBatch) {
  const fs::path folder = assets_folder() / "golden_ort" / "tinyphysics_b4";
  if (!fs::exists(folder)) GTEST_SKIP() << folder << " is not there";
  const Golden golden = load_golden(folder);
  constexpr int64_t kBatch = 201;
  Session session(load_onnx(golden.model), {.outputs = {"output[:, -1, :]"}});
  for (size_t i = 0; i < golden.inputs.size(); ++i) {
    const Tensor& four = golden.inputs[i];
    const Tensor many(four.dtype(), four.shape().with(0, kBatch));
    const int64_t sample = four.bytes() / 4;
    for (int64_t b = 0; b < kBatch; ++b) {
      std::copy_n(static_cast<const std::byte*>(four.raw()) + b % 4 * sample, sample,
                  static_cast<std::byte*>(many.raw()) + b * sample);
    }
    session.set_input(golden.input_names[i], many.view());
  }
  session.run();
  const ConstView output = session.output("output");
  const int64_t width = golden.outputs[0].shape()[2], rows = golden.outputs[0].shape()[1];
  ASSERT_EQ(output.shape, (Shape{kBatch, width}));
  Tensor got(DType::f32, Shape{width}), expected(DType::f32, Shape{width});
  for (int64_t b = 0; b < kBatch; ++b) {
    std::copy_n(output.as<float>() + b * width, width, got.data<float>().data());
    std::copy_n(golden.outputs[0].data<float>().data() + (b % 4 * rows + rows - 1) * width, width,
                expected.data<float>().data());
    ASSERT_LT(relative_l2(got, expected), kTolerance) << "sample " << b;
  }
}

INSTANTIATE_TEST_SUITE_P(OnnxRuntime, Goldens,
                         ::testing::Values("FastestDet", "dmonitoring_model_2021-06",
                                           "dmonitoring_model_v0.8.9_2021-08", "embedding_model", "hey_comma",
                                           "tinyphysics_b1", "tinyphysics_b4", "ultraface_version-RFB-320_128",
                                           "ultraface_version-slim-320"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace_if(
                               name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
                           return name;
                         });

}  // namespace goldens_test
}  // namespace sparkpilot
