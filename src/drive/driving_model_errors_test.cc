// What find_models() accepts, and the driving model's errors for files that it cannot run.
#include <gtest/gtest.h>

#include "drive/driving_model.h"
#include "onnx/export.h"
#include "onnx/metadata.h"
#include "onnx/zoo.h"
#include "route/test_files.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace driving_model_errors_test {
namespace fs = std::filesystem;

fs::path built(const TempFolder& folder, const std::string& name) {
  fs::path path = folder / (name + ".onnx");
  if (!fs::exists(path)) save_onnx(build_zoo_model(name), path);
  return path;
}

void expect_refused(const ModelFiles& files, const fs::path& named, const std::string& because) {
  try {
    const DrivingModel model(files, {.threads = 1});
    ADD_FAILURE() << "not refused: " << named;
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.kind(), ErrorKind::user) << text;
    EXPECT_NE(text.find(named.string()), std::string::npos) << text;
    EXPECT_NE(text.find(because), std::string::npos) << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  }
}

TEST(DrivingModel, NetworksInTheWrongPlaceAreRefused) {
  const TempFolder folder;
  const fs::path vision = built(folder, "tiny_driving_vision"), policy = built(folder, "tiny_driving_policy"),
                 merged = built(folder, "tiny_driving_supercombo"), driver = built(folder, "tiny_dmonitoring_model");
  const std::string expected = "expected the inputs of openpilot's driving models: img and big_img";
  expect_refused({.supercombo = driver}, driver, "it takes no pictures of two cameras");
  expect_refused({.supercombo = driver}, driver, "input_img (1,1382400), calib (1,3); " + expected);
  expect_refused({.supercombo = vision}, vision, "features_buffer, desire or traffic_convention is missing");
  expect_refused({.vision = policy, .policy = vision}, policy, "given as vision, it takes no pictures");
  expect_refused({.vision = merged, .policy = policy}, merged, "given as vision, it is a merged network");
  expect_refused({.vision = vision, .policy = vision}, vision, "given as policy, it takes pictures");
  expect_refused({.vision = vision, .policy = merged}, merged, "given as policy, it takes pictures");
  expect_refused({.vision = vision, .policy = driver}, driver, "features_buffer, desire or traffic_convention");
  expect_refused({.vision = vision, .policy = folder / "no.onnx"}, folder / "no.onnx", "");
}

// tiny_driving_policy with other slices, or without any.
fs::path with_slices(const TempFolder& folder, const OutputSlices& slices) {
  Graph graph = build_zoo_model("tiny_driving_policy");
  if (slices.empty()) graph.metadata.erase("output_slices");
  else graph.metadata["output_slices"] = write_output_slices(slices);
  fs::path path = folder / "changed.onnx";
  save_onnx(graph, path);
  return path;
}

TEST(DrivingModel, OutputsThatNobodyCanReadAreRefused) {
  const TempFolder folder;
  const fs::path vision = built(folder, "tiny_driving_vision");
  const auto refused = [&](const OutputSlices& slices, const std::string& because) {
    const fs::path policy = with_slices(folder, slices);
    expect_refused({.vision = vision, .policy = policy}, policy, because);
  };
  refused({}, "not a driving model: it has no output_slices in its metadata");
  refused({{"plan", {0, 990, {}}}, {"desire_state", {995, 1003, {}}}},
          "head \"desire_state\" is not inside the output");
  refused({{"plan", {0, 988, {}}}, {"desire_state", {990, 998, {}}}},
          "head \"plan\" has 988 values, expected 990 or 4955");
  refused({{"desire_state", {990, 998, {}}}}, "output_slices has no head \"plan\"");
}

// A policy that computes nothing, with inputs of the given shapes.
fs::path with_inputs(const TempFolder& folder, const std::vector<std::pair<std::string, Shape>>& inputs) {
  Graph graph;
  graph.opsets[""] = 14;
  for (const auto& [name, shape] : inputs) {
    const ValueId input = graph.add_input(name, DType::f32, shape);
    graph.add_output(input, name + "_out");
  }
  graph.metadata["output_slices"] = write_output_slices({{"nothing", {0, 1, {}}}});
  fs::path path = folder / "shapes.onnx";
  save_onnx(graph, path);
  return path;
}

TEST(DrivingModel, ShapesOfNoEraAreRefused) {
  const TempFolder folder;
  const fs::path vision = built(folder, "tiny_driving_vision");
  const auto refused = [&](Shape features, Shape desire, Shape curvatures, const std::string& because) {
    const fs::path policy = with_inputs(folder, {{"traffic_convention", Shape{1, 2}},
                                                 {"features_buffer", features},
                                                 {"desire", desire},
                                                 {"prev_desired_curv", curvatures}});
    expect_refused({.vision = vision, .policy = policy}, policy, because);
  };
  refused({1, 25, 512}, {1, 30, 8}, {1, 25, 1}, "desire has 30 rows, expected 100 or 25");
  refused({1, 25, 512}, {200}, {1, 25, 1}, "desire has -1 rows");
  refused({1, 25, 512}, {1, 25, 7}, {1, 25, 1}, "desire is not rows of 8");
  refused({1, 24, 512}, {1, 25, 8}, {1, 25, 1}, "features_buffer is not 25 rows of 512");
  refused({1, 25, 128}, {1, 25, 8}, {1, 25, 1}, "features_buffer is not 25 rows of 512");
  refused({1, 25, 512}, {1, 25, 8}, {25}, "prev_desired_curv is not 25 rows of 1");
  refused({1, 25, 512}, {1, 25, 8}, {1, 300, 1}, "prev_desired_curv is not 25 rows of 1");
}

TEST(FindModels, OpenpilotsNames) {
  const TempFolder folder;
  const auto put = [&](const std::string& name) { write_text(folder / (name + ".onnx"), "x"); };
  const auto at = [&](const std::string& name) { return folder / (name + ".onnx"); };
  const auto none = [&] {
    try {
      find_models(folder.path());
      ADD_FAILURE() << "found something";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find(folder.path().string() + ": holds neither driving_vision.onnx"), 0u);
    }
  };
  none();
  put("driving_vision");
  none();  // half of a model
  put("tiny_supercombo");
  EXPECT_EQ(find_models(folder.path()).supercombo, at("tiny_supercombo"));
  put("supercombo"), put("tiny_dmonitoring_model");
  ModelFiles found = find_models(folder.path());
  EXPECT_EQ(found.supercombo, at("supercombo"));
  EXPECT_EQ(found.driver_monitoring, fs::path());  // full size and tiny ones are not mixed
  EXPECT_EQ(found.note, "also there and not taken: " + at("driving_vision").string());
  put("driving_supercombo"), put("dmonitoring_model");
  found = find_models(folder.path());
  EXPECT_EQ(found.supercombo, at("driving_supercombo"));
  EXPECT_EQ(found.driver_monitoring, at("dmonitoring_model"));
  put("driving_policy");
  found = find_models(folder.path());
  EXPECT_EQ(found.vision, at("driving_vision"));
  EXPECT_EQ(found.policy, at("driving_policy"));
  EXPECT_EQ(found.supercombo, fs::path());
  EXPECT_EQ(found.note,
            "also there and not taken: " + at("driving_supercombo").string() + ", " + at("supercombo").string());
  EXPECT_THROW(find_models(folder / "nowhere"), Error);
}

}  // namespace driving_model_errors_test
}  // namespace sparkpilot::drive
