#include "route/log/plan_error.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "route/log/test_path.h"
#include "route/synth/synth.h"
#include "route/test_files.h"

namespace sparkpilot::drive {
namespace {

DrivenPath helix_path(double seconds) { return DrivenPath::from_location(helix_location(seconds)); }

TEST(PlanError, OfAPerfectPlanIsNothing) {
  const DrivenPath path = helix_path(20);
  for (const double seconds : {0.0, 3.0, 7.0125}) {
    for (const double horizon : kHorizonSeconds) {
      const auto error = plan_error(helix_plan(1, seconds), path, horizon);
      ASSERT_TRUE(error);
      EXPECT_LT(error->distance(), 0.01) << horizon;
      EXPECT_NEAR(error->heading_deg, 0, 0.01);
    }
  }
}

TEST(PlanError, SignsAreAlongAndToTheRight) {
  const DrivenPath path = helix_path(20);
  ModelRecord plan = helix_plan(1, 3);
  for (float& y : plan.position.y) y += 0.5f;
  for (float& x : plan.position.x) x -= 0.25f;
  for (float& yaw : plan.orientation.z) yaw += static_cast<float>(2 * M_PI + 0.1);
  const auto error = plan_error(plan, path, 4);
  ASSERT_TRUE(error);
  EXPECT_NEAR(error->across, 0.5, 0.01);
  EXPECT_NEAR(error->along, -0.25, 0.01);
  EXPECT_NEAR(error->heading_deg, 0.1 * 180 / M_PI, 0.01);
}

TEST(PlanError, PlansThatCannotBeReadHaveNone) {
  const DrivenPath path = helix_path(20);
  const auto error = [&](auto change) {
    ModelRecord plan = helix_plan(1, 3);
    change(plan);
    return plan_error(plan, path, 2);
  };
  EXPECT_TRUE(error([](ModelRecord&) {}));
  EXPECT_FALSE(error([](ModelRecord& plan) { plan = {}; }));
  EXPECT_FALSE(error([](ModelRecord& plan) { plan.position.x.pop_back(); }));
  EXPECT_FALSE(error([](ModelRecord& plan) { plan.orientation.t.clear(); }));
  EXPECT_FALSE(error([](ModelRecord& plan) { plan.position.t[3] = 0; }));
  EXPECT_FALSE(error([](ModelRecord& plan) { plan.position.t[0] = std::numeric_limits<float>::quiet_NaN(); }));
  EXPECT_FALSE(error([](ModelRecord& plan) { plan.position.y[14] = std::numeric_limits<float>::quiet_NaN(); }));
  EXPECT_FALSE(error([](ModelRecord& plan) { plan.timestamp_eof = helix_time(19); }));
  EXPECT_FALSE(plan_error(helix_plan(1, 3), path, 10.5));
  EXPECT_FALSE(plan_error(helix_plan(1, 3), path, -1));
}

TEST(PlanError, FramesAreLinedUpByTheirNumbers) {
  std::vector<FrameResult> frames(5);
  std::vector<ModelRecord> ours, recorded;
  Timeline timeline;
  for (uint32_t i = 0; i < 5; ++i) {
    frames[i].frame_id = 100 + i;
    timeline.road.push_back({100 + i, i, 0, helix_time(i)});
    if (i != 1) ours.push_back(helix_plan(100 + i, i));
    if (i == 2) recorded.push_back(helix_plan(100 + i, i));
  }
  std::swap(ours.front(), ours.back());
  ours[1].timestamp_eof = 0;  // the index has the time
  for (float& y : recorded[0].position.y) y -= 1;
  frames[4].driven_curvature = 7;
  frames[3].first = true;
  add_plan_errors(frames, ours, recorded, timeline, {});
  EXPECT_FALSE(frames[0].errors[0]);
  EXPECT_FALSE(frames[0].driven_curvature);

  add_plan_errors(frames, ours, recorded, timeline, helix_path(9));
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(frames[i].errors[3].has_value(), i == 0 || i == 2) << i;  // six seconds ahead
    EXPECT_EQ(frames[i].recorded_errors[0].has_value(), i == 2);
    ASSERT_TRUE(frames[i].driven_curvature);
    EXPECT_NEAR(*frames[i].driven_curvature, 1 / kHelixRadius, 3e-5);
  }
  const auto mine = summarize_errors(frames, false), theirs = summarize_errors(frames, true);
  EXPECT_EQ(mine[0].count, 3);
  EXPECT_EQ(mine[3].count, 2);
  EXPECT_LT(*mine[0].distance_p90, 0.01);
  EXPECT_EQ(theirs[1].count, 1);
  EXPECT_EQ(theirs[1].horizon, 2);
  EXPECT_NEAR(*theirs[1].across_mean, -1, 0.01);
  EXPECT_NEAR(*theirs[1].across_abs_mean, 1, 0.01);
  EXPECT_FALSE(summarize_errors({}, false)[0].distance_mean);
}

TEST(PlanError, AStandingCarHasNoCurvature) {
  Timeline timeline;
  timeline.road.push_back({1, 0, 0, helix_time(1)});
  std::vector<DrivenPath::Pose> poses;
  for (int i = 0; i < 40; ++i) poses.push_back({helix_time(i / 20.0), {}, quaternion_from_euler({0, 0, 1e-3 * i})});
  std::vector<FrameResult> frames(1);
  frames[0].frame_id = 1;
  add_plan_errors(frames, {}, {}, timeline, DrivenPath(poses, ""));
  EXPECT_FALSE(frames[0].driven_curvature);
}

TEST(PlanError, DemoRoute) {
  const auto log = asset("route_demo/qlog.bz2");
  if (log.empty()) GTEST_SKIP() << "the demo route is not here";
  const Timeline timeline = read_timeline(log);
  const auto path = DrivenPath::from(timeline);
  ASSERT_TRUE(path);
  EXPECT_EQ(path->source(), "liveLocationKalman");
  EXPECT_EQ(path->poses().size(), 228u);  // 4 Hz; the speeds are valid even before the device has a fix
  std::vector<FrameResult> frames(timeline.models.size());
  for (size_t i = 0; i < frames.size(); ++i) frames[i].frame_id = timeline.models[i].frame_id;
  add_plan_errors(frames, {}, timeline.models, timeline, path);
  const auto errors = summarize_errors(frames, true);
  const int64_t counts[] = {28, 28, 27, 26};
  const double across[] = {0.15, 0.2, 0.4, 1.0}, distance[] = {1.2, 1.6, 2.6, 3.8};
  for (size_t h = 0; h < kHorizons; ++h) {
    EXPECT_EQ(errors[h].count, counts[h]);
    EXPECT_LT(*errors[h].across_abs_mean, across[h]);
    EXPECT_LT(*errors[h].distance_mean, distance[h]);
    EXPECT_LT(*errors[h].heading_abs_mean_deg, 1);
  }
}

// The logs' writer shares no code with this reader; their modelV2 is the truth.
TEST(PlanError, ASyntheticRoutePlansWhatIsDriven) {
  const TempFolder folder;
  SynthOptions options;
  options.seed = 4;  // a city, with bends
  options.seconds = 12;
  options.road_video = options.wide = options.qcamera = false;
  const SynthRoute route = synth_route(folder.path(), options);
  const Timeline timeline = read_timeline(route.segments[0].folder / "rlog.zst");
  std::vector<FrameResult> frames(timeline.models.size());
  for (size_t i = 0; i < frames.size(); ++i) frames[i].frame_id = timeline.models[i].frame_id;
  for (const auto& path :
       {DrivenPath::from_pose(timeline.pose, timeline.calibration), DrivenPath::from_location(timeline.location)}) {
    add_plan_errors(frames, {}, timeline.models, timeline, path);
    const auto errors = summarize_errors(frames, true);
    // The poses are logged 50 ms after the moment that they describe, which causes most of these errors.
    const double distance[] = {0.04, 0.1, 0.2, 0.4};
    for (size_t h = 0; h < kHorizons; ++h) {
      EXPECT_GT(errors[h].count, 110) << path.source();
      EXPECT_LT(*errors[h].distance_mean, distance[h]) << path.source();
      EXPECT_LT(*errors[h].heading_abs_mean_deg, 0.5) << path.source();
    }
  }
}

}  // namespace
}  // namespace sparkpilot::drive
