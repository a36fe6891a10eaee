#include "train/dataset_augment.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "route/contract/frame.h"

namespace sparkpilot::train {
namespace {

using drive::kFrameBytes, drive::kFrameHeight, drive::kFrameWidth;

// Smooth, so that a warp by part of a pixel is nearly exact.
double level(double x, double y) { return 120 + 60 * std::sin(x / 23) + 40 * std::cos(y / 17); }

std::vector<uint8_t> smooth_frame() {
  std::vector<uint8_t> frame(kFrameBytes);
  for (int plane = 0; plane < 6; ++plane) {
    for (int y = 0; y < kFrameHeight; ++y) {
      for (int x = 0; x < kFrameWidth; ++x) {
        const double column = 2 * x + (plane < 4 ? plane / 2 : 0.5), row = 2 * y + (plane < 4 ? plane % 2 : 0.5);
        frame[static_cast<size_t>((plane * kFrameHeight + y) * kFrameWidth + x)] =
            static_cast<uint8_t>(std::lround(level(column, row)));
      }
    }
  }
  return frame;
}

TEST(Augment, NoChangeChangesNothing) {
  std::vector<uint8_t> frame = smooth_frame();
  drive::YuvImage scratch;
  change_frame({}, false, frame, scratch);
  EXPECT_EQ(frame, smooth_frame());
  const PictureChange none = draw_change({}, 3, 7);
  EXPECT_EQ(none.turn, drive::Vector3{});
  EXPECT_EQ(none.gain, 1);
  EXPECT_EQ(none.offset, 0);
}

// A device that looks further right sees what was there further left in the picture: by its angle times the focal
// length, luma and chroma alike.
TEST(Augment, AYawMovesThePicture) {
  for (const bool big : {false, true}) {
    const double focal = big ? 455 : 910, angle = 0.004;
    std::vector<uint8_t> frame = smooth_frame();
    drive::YuvImage scratch;
    change_frame({.turn = {0, 0, angle}}, big, frame, scratch);
    double worst = 0;
    for (const int plane : {0, 1, 2, 3, 4, 5}) {
      for (int y = 8; y < kFrameHeight - 8; ++y) {
        for (int x = 100; x < 156; ++x) {
          const double column = 2 * x + (plane < 4 ? plane / 2 : 0.5), row = 2 * y + (plane < 4 ? plane % 2 : 0.5);
          const double got = frame[static_cast<size_t>((plane * kFrameHeight + y) * kFrameWidth + x)];
          worst = std::max(worst, std::fabs(got - level(column + focal * angle, row)));
        }
      }
    }
    EXPECT_LT(worst, 2.5) << big;
  }
}

TEST(Augment, BrightnessLeavesBlackAndColours) {
  std::vector<uint8_t> frame = smooth_frame();
  frame[0] = 16;
  drive::YuvImage scratch;
  change_frame({.gain = 1.5}, false, frame, scratch);
  EXPECT_EQ(frame[0], 16);
  const std::vector<uint8_t> before = smooth_frame();
  for (const size_t i : {size_t{5}, size_t{40'000}, size_t{131'071}})
    EXPECT_EQ(frame[i], std::lround(std::min(255.0, 16 + 1.5 * (before[i] - 16))));
  EXPECT_TRUE(std::equal(frame.begin() + 131'072, frame.end(), before.begin() + 131'072));
}

TEST(Augment, DrawsBySeedEpochAndSample) {
  const AugmentOptions options{.warp_degrees = 0.5, .brightness = 0.1, .seed = 3};
  const auto turn = [&](int64_t epoch, int64_t sample) { return draw_change(options, epoch, sample).turn; };
  EXPECT_EQ(turn(1, 2), turn(1, 2));
  EXPECT_NE(turn(1, 2), turn(2, 1));
  EXPECT_NE(turn(1, 2), turn(1, 3));
  EXPECT_NE(turn(1, 2), draw_change({.warp_degrees = 0.5, .seed = 4}, 1, 2).turn);
  double sum = 0, squares = 0;
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    const double yaw = turn(0, i)[2] * 180 / 3.14159265;
    sum += yaw, squares += yaw * yaw;
    ASSERT_LE(std::fabs(yaw), 1.5 + 1e-6);
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(std::sqrt(squares / kDraws), 0.5, 0.03);
}

}  // namespace
}  // namespace sparkpilot::train
