#include "sim/world.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "sim/world-inl.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

// Every figure against plain sums over a made-up drive.
TEST(World, FiguresAreThoseOfTheirDefinitions) {
  constexpr int kSteps = 5000, kWarmUp = 100;
  Metrics<float> x{};
  x.alive = 1;
  Road<float> road{};
  double error = 0, error_max = 0, jerk = 0, saturated = 0, offset = 0, speed = 0, last = 0;
  Random random(3);
  for (int i = 0; i < kSteps; ++i) {
    Motion<float> m{};
    m.speed = static_cast<float>(random.uniform(5, 30));
    m.offset = static_cast<float>(random.uniform(-2, 2));
    road.curvature = static_cast<float>(random.uniform(-0.01, 0.01));
    const auto yaw_rate = static_cast<float>(random.uniform(-0.2, 0.2)),
               target = static_cast<float>(random.uniform(5, 30));
    const bool at_limit = i % 7 == 0;
    measure(static_cast<float>(i), i >= kWarmUp, at_limit, road, yaw_rate, target, m, 0.0f, x);
    const double v = m.speed, a = yaw_rate * v;
    if (i >= kWarmUp) {
      error += std::pow(a - road.curvature * v * v, 2);
      error_max = std::max(error_max, std::fabs(a - road.curvature * v * v));
      jerk += std::pow((a - last) / kStep, 2);
      saturated += at_limit;
      offset = std::max(offset, std::fabs(static_cast<double>(m.offset)));
      speed += std::pow(target - v, 2);
    }
    last = a;
  }
  EXPECT_EQ(x.steps, kSteps - kWarmUp);
  EXPECT_NEAR(static_cast<double>(x.error) / error, 1, 1e-6);  // what compensated sums are for
  EXPECT_NEAR(static_cast<double>(x.jerk) / jerk, 1, 1e-6);
  EXPECT_NEAR(static_cast<double>(x.speed) / speed, 1, 1e-6);
  EXPECT_NEAR(static_cast<double>(x.error_max) / error_max, 1, 1e-6);
  EXPECT_EQ(x.saturated, saturated);
  EXPECT_NEAR(x.offset_max, offset, 1e-6);
}

}  // namespace
}  // namespace sparkpilot::sim
