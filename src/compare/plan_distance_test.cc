#include "compare/plan_distance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "onnx/export.h"
#include "onnx/metadata.h"
#include "route/test_files.h"
#include "sparkpilot/builder.h"
#include "sparkpilot/error.h"

namespace sparkpilot::compare {
namespace plan_distance_test {

constexpr int kPlan = 2 * drive::kPoints * drive::kPlanWidth, kOther = 7;

// A file whose output, twice its input, has a plan behind some other head.
std::filesystem::path doubling(const TempFolder& folder, const OutputSlices& slices) {
  Graph graph;
  const ValueId x = graph.add_input("x", DType::f32, Shape{1, kOther + kPlan});
  Builder b(graph);
  graph.add_output(b.add("Add", {x, x}), "outputs");
  if (!slices.empty()) graph.metadata["output_slices"] = write_output_slices(slices);
  std::filesystem::path path = folder / "doubling.onnx";
  save_onnx(graph, path);
  return path;
}

// Drives straight on at `x` m/s, sideways at `y` m/s.
void set_plan(Session& session, float x, float y) {
  const auto input = session.input<float>("x");
  std::fill(input.begin(), input.end(), 100.0F);  // deviations and the other head: of no effect
  for (int i = 0; i < drive::kPoints; ++i) {
    const auto t = static_cast<float>(drive::plan_time(i));
    float* const point = &input[static_cast<size_t>(kOther + i * drive::kPlanWidth)];
    std::fill_n(point, drive::kPlanWidth, 1.0F);
    point[0] = x * t / 2;
    point[1] = y * t / 2;
  }
  session.run();
}

TEST(PlanDistance, IsThatOfTheFurthestHorizonInMetres) {
  const TempFolder folder;
  const auto file = doubling(folder, {{"road", {0, kOther, {}}}, {"plan", {kOther, kOther + kPlan, {}}}});
  const PlanDistance distance(file);
  Session a(load_onnx(file), {.threads = 1}), b(load_onnx(file), {.threads = 1});
  set_plan(a, 20, 0);
  set_plan(b, 20, 0);
  EXPECT_EQ(distance(a, b), 0);
  set_plan(a, 23, 4);  // 5 m/s apart, for 6 s
  EXPECT_NEAR(distance(a, b), 30, 1e-4);
  // At 1 s, between two points, and at no other horizon.
  set_plan(a, 20, 0);
  for (const int i : {10, 11}) {  // 0.98 s and 1.18 s
    a.input<float>("x")[static_cast<size_t>(kOther + i * drive::kPlanWidth + 1)] += 1;
  }
  a.run();
  EXPECT_NEAR(distance(a, b), 2, 1e-5);
  set_plan(a, std::numeric_limits<float>::quiet_NaN(), 0);
  EXPECT_EQ(distance(a, b), std::numeric_limits<double>::infinity());
}

TEST(PlanDistance, ANetworkWithoutAPlanIsRefused) {
  const TempFolder folder;
  for (const OutputSlices& slices : {OutputSlices{}, OutputSlices{{"road", {0, kOther, {}}}}}) {
    const auto file = doubling(folder, slices);
    try {
      const PlanDistance distance(file);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::user);
      EXPECT_NE(std::string(error.what()).find(file.string() + ": it has no plan"), std::string::npos) << error.what();
    }
  }
}

}  // namespace plan_distance_test
}  // namespace sparkpilot::compare
