#include "route/synth/maths.h"

#include <gtest/gtest.h>

#include <cmath>

#include "route/synth/geodesy.h"

namespace sparkpilot::drive::synth {
namespace {

TEST(SynthMaths, SinesAndAnglesAreTheUsualOnes) {
  for (int i = -4000; i <= 4000; ++i) {
    const double x = i * 0.0173;
    EXPECT_NEAR(sin_cos(x).sin, std::sin(x), 2e-15) << x;
    EXPECT_NEAR(sin_cos(x).cos, std::cos(x), 2e-15) << x;
    EXPECT_NEAR(arctan2(std::sin(x), std::cos(x)), std::atan2(std::sin(x), std::cos(x)), 2e-15) << x;
  }
  EXPECT_EQ(arctan2(0, 0), 0);
  EXPECT_NEAR(arctan2(0, -1), kPi, 1e-15);
  EXPECT_NEAR(arctan2(-1e-9, -1), -kPi, 2e-9);
}

// Exact bits, so that a machine that rounds differently fails here and not in a comparison of pictures.
TEST(SynthMaths, GivesTheSameBitsEverywhere) {
  EXPECT_EQ(sin_cos(12.345).sin, -0x1.c1ac577229b1ep-3);
  EXPECT_EQ(sin_cos(12.345).cos, 0x1.f381816d49a3ap-1);
  EXPECT_EQ(arctan2(0.3, -0.7), 0x1.5e4c36ca0118ap+1);
}

TEST(SynthMaths, RotationsAreThoseOfTheContract) {
  const Vector3 angles = {0.03, -0.4, 2.1};
  const Matrix3 ours = rotation(angles), theirs = rotation_from_euler(angles);
  for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(ours[i], theirs[i], 1e-15);
  const Vector3 back = euler(ours);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(back[i], angles[i], 1e-15);
}

TEST(SynthMaths, StepsAreSmooth) {
  for (double x = 0.01; x < 1; x += 0.01) {
    const Step step = smooth_step(x);
    EXPECT_NEAR(step.slope, (smooth_step(x + 1e-6).value - smooth_step(x - 1e-6).value) / 2e-6, 1e-7);
    EXPECT_NEAR(step.bend, (smooth_step(x + 1e-6).slope - smooth_step(x - 1e-6).slope) / 2e-6, 1e-6);
  }
}

TEST(SynthMaths, PlacesOnTheEarthGoThereAndBack) {
  // The ellipsoid itself: its axes.
  const Vector3 equator = ecef_from_geodetic({0, 0, 100});
  EXPECT_NEAR(equator[0], 6378237.0, 1e-9);
  const Vector3 pole = ecef_from_geodetic({kPi / 2, 0, 0});
  EXPECT_NEAR(pole[2], 6356752.314245, 1e-6);
  for (double latitude = -1.5; latitude < 1.5; latitude += 0.21) {
    const Geodetic place = {latitude, 1.5 - latitude, 300 * latitude};
    const Geodetic back = geodetic_from_ecef(ecef_from_geodetic(place));
    EXPECT_NEAR(back.latitude, place.latitude, 1e-14);
    EXPECT_NEAR(back.longitude, place.longitude, 1e-14);
    EXPECT_NEAR(back.altitude, place.altitude, 1e-7);
  }
}

}  // namespace
}  // namespace sparkpilot::drive::synth
