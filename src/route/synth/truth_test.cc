// The truth agrees with the motion in the log, and with the pictures.
#include "route/synth/truth.h"

#include <gtest/gtest.h>

#include <cmath>

#include "route/contract/camera.h"
#include "route/synth/draw_list.h"
#include "route/synth/render.h"
#include "route/synth/synth.h"

namespace sparkpilot::drive::synth {
namespace {

WorldOptions options_of(uint64_t seed, RoadKind road, Light light = Light::day) {
  WorldOptions options;
  options.seed = seed, options.seconds = 20, options.road = road, options.light = light;
  return options;
}

// Dead reckoning from speed and turn rate ends where the plan does.
TEST(SynthTruth, PlanIsTheIntegralOfSpeedAndRate) {
  for (const RoadKind road : {RoadKind::highway, RoadKind::rural, RoadKind::city, RoadKind::winding}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      const World world(options_of(seed, road));
      const FrameTruth truth = frame_truth(world, 3);
      Vector3 position{};
      Matrix3 turned = rotation({0, 0, 0});
      constexpr double kStep = 0.002;
      int next = 0;
      for (int i = 0; next < kPoints; ++i) {
        const double time = i * kStep;
        if (time >= plan_time(next) - 1e-9) {
          const PlanPoint& plan = truth.plan[static_cast<size_t>(next)];
          const double late = time - plan_time(next), slack = 0.01 + 0.002 * plan_time(next) + late * plan.velocity[0];
          for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(plan.position[k], position[k], slack) << "at " << time;
          for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(plan.orientation[k], euler(turned)[k], 2e-3) << "at " << time;
          ++next;
        }
        const Pose pose = world.pose(3 + time + kStep / 2);
        turned = multiply(turned, rotation(kStep * pose.rate));
        position = position + multiply(turned, Vector3{kStep * pose.speed, 0, 0});
      }
    }
  }
}

// Half of the time a winding road asks for more than 1 m/s2 to the side, and never for much more than its bends may.
TEST(SynthTruth, AWindingRoadBends) {
  double most = 0;
  int strong = 0, all = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const World world(options_of(seed, RoadKind::winding));
    for (int i = 0; i < 40; ++i) {
      const Pose pose = world.pose(0.5 * i);
      const double lateral = std::fabs(pose.curvature) * pose.speed * pose.speed;
      most = std::max(most, lateral), strong += lateral > 1, ++all;
    }
  }
  EXPECT_GT(strong, 0.4 * all);
  EXPECT_LT(most, 3.5);
}

TEST(SynthTruth, SpeedAndAccelerationAgree) {
  const World world(options_of(5, RoadKind::city));
  double speed = world.pose(0).speed;
  for (int i = 0; i < 2000; ++i) speed += 0.01 * world.pose(i * 0.01 + 0.005).acceleration;
  EXPECT_NEAR(speed, world.pose(20).speed, 0.1);
}

// The pixel at which the camera sees a point of the calibrated frame, using the log's calibration.
Point2 pixel(const World& world, const Camera& camera, const Vector3& calibrated) {
  const Matrix3 view =
      multiply(multiply(camera.intrinsics(), view_from_device()), rotation_from_euler(world.calibration()));
  const Vector3 at = multiply(view, calibrated);
  return {static_cast<float>(at[0] / at[2]), static_cast<float>(at[1] / at[2])};
}

// The centre of the bright pixels near a place on a row, weighted by how much they exceed the darkest.
double painted_middle(const YuvImage& picture, int row, double around, int reach) {
  const uint8_t* line = picture.bytes().data() + static_cast<size_t>(row) * static_cast<size_t>(picture.width());
  const int from = std::max(0, static_cast<int>(around) - reach),
            to = std::min(picture.width() - 1, static_cast<int>(around) + reach);
  double darkest = 255, sum = 0, weight = 0;
  for (int x = from; x <= to; ++x) darkest = std::min<double>(darkest, line[x]);
  for (int x = from; x <= to; ++x) {
    const double over = std::max(0.0, line[x] - darkest - 40);
    sum += over * x, weight += over;
  }
  return weight > 0 ? sum / weight : -1;
}

// Solid lines are painted where the truth says, on hills, in bends and with a calibration.
TEST(SynthTruth, PaintedLinesLieWhereTheTruthSays) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    WorldOptions options = options_of(seed, RoadKind::highway);
    options.traffic = false, options.wet = false;
    const World world(options);
    const Renderer renderer(world);
    const DeviceCameras cameras = *device_cameras("mici", "os04c10");
    for (const Camera& camera : {cameras.road, cameras.wide}) {
      YuvImage picture;
      const double time = 2.35 + static_cast<double>(seed);
      renderer.draw(time, camera, picture);
      const Pose pose = world.pose(time);
      const LaneLine line = world.road().boundary(world.road().lanes() - 1, true, 0);
      const Polyline truth = line_from(world, pose, line.offset);
      for (int i = 5; i < 20; ++i) {  // 4.7 to 75 m
        const Vector3 at = truth[static_cast<size_t>(i)];
        const Point2 middle = pixel(world, camera, at);
        const Point2 left = pixel(world, camera, {at[0], at[1] - kLineHalfWidth, at[2]});
        const double width = 2 * (middle.x - left.x);
        if (width < 2 || middle.x < 20 || middle.x > camera.width - 20.0 || middle.y < 0 ||
            middle.y > camera.height - 1.0)
          continue;
        const int row = static_cast<int>(std::lround(middle.y));
        // The row's centre is up to half a row from the point: move along the line's slant.
        const Vector3 next = truth[static_cast<size_t>(i) + 1];
        const Point2 there = pixel(world, camera, next);
        const double slant = (there.x - middle.x) / (there.y - middle.y);
        const double expected = middle.x + (row - middle.y) * slant;
        const double found = painted_middle(picture, row, expected, static_cast<int>(width) + 4);
        ASSERT_GE(found, 0) << "seed " << seed << " x " << at[0];
        EXPECT_NEAR(found, expected, 1.5) << "seed " << seed << " x " << at[0] << " row " << row;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 60);
}

// The car ahead is painted at the lead's true position.
TEST(SynthTruth, TheLeadIsWhereItsTruthIs) {
  int compared = 0;
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    const World world(options_of(seed, RoadKind::rural));
    const FrameTruth truth = frame_truth(world, 4);
    const LeadTruth& lead = truth.leads[0];
    if (lead.car < 0 || lead.x[0] > 70) continue;
    const Camera camera = device_cameras("mici", "os04c10")->road;
    YuvImage picture;
    Renderer(world).draw(4, camera, picture);
    const CarLook look = world.traffic().look(lead.car);
    const CarMotion motion = world.traffic().car(lead.car, 4);
    const Vector3 foot = seen_from(truth.pose, world.road().place(motion.s, motion.d));
    EXPECT_NEAR(foot[0], lead.x[0], 1e-9);
    EXPECT_NEAR(foot[1], lead.y[0], 1e-9);
    // Its lid has about the car's own colour.
    const Point2 lid = pixel(world, camera, {foot[0], foot[1], foot[2] - 0.5 * look.height});
    const auto at = static_cast<size_t>(std::lround(lid.y)) * static_cast<size_t>(picture.width()) +
                    static_cast<size_t>(std::lround(lid.x));
    ASSERT_LT(at, static_cast<size_t>(picture.width()) * static_cast<size_t>(picture.height()));
    EXPECT_NEAR(picture.bytes()[at], look.y, 0.35 * look.y + 12) << "seed " << seed;
    ++compared;
  }
  EXPECT_GT(compared, 3);
}

TEST(SynthTruth, LanesLieOnTheirSides) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    for (const bool keep_left : {false, true}) {
      WorldOptions options = options_of(seed, RoadKind::highway);
      options.keep_left = keep_left;
      const World world(options);
      for (double time = 0; time < 20; time += 1.7) {
        const FrameTruth truth = frame_truth(world, time);
        double last = -1e9;
        for (const Polyline& line : truth.lane_lines) {
          EXPECT_GT(line[0][1], last);
          EXPECT_NEAR(line[0][2], kDeviceHeight, 0.01);
          last = line[0][1];
        }
        EXPECT_LT(truth.lane_lines[1][0][1], 0.2);
        EXPECT_GT(truth.lane_lines[2][0][1], -0.2);
        EXPECT_LT(truth.road_edges[0][0][1], truth.lane_lines[1][0][1]);
        EXPECT_GT(truth.road_edges[1][0][1], truth.lane_lines[2][0][1]);
      }
    }
  }
}

TEST(SynthTruth, LaneChangesGoWhereTheySay) {
  int seen = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    WorldOptions options = options_of(seed, RoadKind::highway);
    options.seconds = 60;
    const World world(options);
    for (const LaneChange& change : world.traffic().lane_changes()) {
      if (change.ends > 60) continue;
      ++seen;
      EXPECT_EQ(world.traffic().ego_lane(change.decided), change.from);
      EXPECT_EQ(world.traffic().ego_lane(change.ends), change.to);
      const FrameTruth truth = frame_truth(world, 0.5 * (change.begins + change.ends));
      EXPECT_EQ(truth.change, ChangeState::starting);
      EXPECT_EQ(truth.change_direction, change.to > change.from ? 1 : -1);
      const double aside = world.traffic().ego(change.ends).d - world.traffic().ego(change.begins).d;
      EXPECT_NEAR(aside, truth.change_direction * world.road().lane_width(), 0.7);
    }
  }
  EXPECT_GT(seen, 2);
}

// No cars collide, and our own car accelerates as comfortably as a person would.
TEST(SynthTruth, TrafficKeepsItsDistance) {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    WorldOptions options = options_of(seed, seed % 2 == 0 ? RoadKind::highway : RoadKind::city);
    options.seconds = 60;
    const World world(options);
    const Traffic& traffic = world.traffic();
    for (double time = 0; time < 60; time += 0.25) {
      const Pose pose = world.pose(time);
      EXPECT_LT(std::fabs(pose.acceleration), 4.01) << "seed " << seed << " at " << time;
      EXPECT_LT(std::fabs(pose.speed * pose.rate[2]), 3) << "seed " << seed << " at " << time;
      for (int car = 0; car < traffic.cars(); ++car) {
        const CarMotion motion = traffic.car(car, time);
        if (std::fabs(motion.d - pose.d) > 1.9) continue;
        const double ahead = motion.s - (pose.s + 2.2), behind = pose.s - 2.5 - (motion.s + traffic.look(car).length);
        EXPECT_GT(std::max(ahead, behind), 1.5) << "seed " << seed << " at " << time;
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot::drive::synth
