#include "route/draw/overlay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/random.h"
#include "route/draw/blend.h"
#include "route/draw/layer.h"
#include "route/draw/projection.h"
#include "route/draw/scale.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace overlay_test {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

Polyline straight(float y, float z, int count = 33) {
  Polyline line;
  for (int i = 0; i < count; ++i) {
    const float part = static_cast<float>(i) / static_cast<float>(count - 1);
    line.x.push_back(192 * part * part);
    line.y.push_back(y);
    line.z.push_back(z);
  }
  return line;
}

ModelRecord straight_ahead() {
  ModelRecord model;
  model.position = straight(0, 0);
  for (const float y : {-5.4F, -1.8F, 1.8F, 5.4F}) model.lane_lines.push_back(straight(y, 1.22F));
  model.lane_line_probs = {0.3F, 0.95F, 0.9F, 0.2F};
  model.road_edges = {straight(-7, 1.22F), straight(7, 1.22F)};
  model.road_edge_stds = {0.2F, 0.8F};
  LeadRecord lead;
  lead.prob = 0.9F;
  lead.x = {42};
  lead.y = {0.3F};
  lead.v = {18};
  model.leads = {lead, lead};
  return model;
}

constexpr Camera kCamera{1928, 1208, 2648};

OverlayFrame frame_of(const YuvImage& picture) {
  OverlayFrame frame;
  frame.intrinsics = kCamera.scaled(picture.width(), picture.height()).intrinsics();
  return frame;
}

YuvImage drawn(const OverlayFrame& frame, YuvImage picture) {
  Overlay overlay({.width = picture.width(), .height = picture.height()});
  overlay.draw(frame, picture);
  return picture;
}

int changed(const YuvImage& a, const YuvImage& b, int from_row, int to_row) {
  int count = 0;
  for (int i = from_row * a.width(); i < to_row * a.width(); ++i) count += a.view().y[i] != b.view().y[i];
  return count;
}

TEST(Projection, PutsPointsWhereAPinholeDoes) {
  const Projection projection(kCamera.intrinsics(), {});
  const auto ahead = projection.pixel({20, 1.8, 1.22});
  ASSERT_TRUE(ahead);
  EXPECT_NEAR(ahead->u, 964 + 2648 * 1.8 / 20, 1e-9);
  EXPECT_NEAR(ahead->v, 604 + 2648 * 1.22 / 20, 1e-9);
}

TEST(Projection, FollowsTheCalibration) {
  // A camera turned to the right (yaw above zero) sees the road's direction further left; one tilted up sees it lower.
  const double yaw = 0.05, pitch = 0.02;
  EXPECT_NEAR(Projection(kCamera.intrinsics(), {0, 0, yaw}).pixel({50, 0, 0})->u, 964 + 2648 * std::tan(yaw), 1e-6);
  EXPECT_NEAR(Projection(kCamera.intrinsics(), {0, pitch, 0}).pixel({50, 0, 0})->v, 604 - 2648 * std::tan(pitch), 1e-6);
}

TEST(Projection, RefusesWhatIsBehindOrNoNumber) {
  const Projection projection(kCamera.intrinsics(), {});
  EXPECT_FALSE(projection.pixel({-5, 0, 0}));
  EXPECT_FALSE(projection.pixel({0.1, 0, 0}));
  EXPECT_FALSE(projection.pixel({kNan, 0, 0}));
  EXPECT_FALSE(projection.pixel({10, kInf, 0}));
  EXPECT_FALSE(Projection(kCamera.intrinsics(), {0, kNan, 0}).pixel({10, 0, 0}));
  EXPECT_LE(projection.pixel({0.5, 1e4, 0})->u, kPixelLimit);
}

TEST(Runs, AreCutAndBroken) {
  Polyline line{.x = {0, 10, 20, 30, 40, 50}, .y = {0, 1, 2, 3, 4, 5}, .z = {0, 0, 0, 0, 0, 0, 0}};
  auto runs = runs_of(line, 1.5, 5, 45);
  ASSERT_EQ(runs.size(), 1U);
  ASSERT_EQ(runs[0].size(), 6U);
  EXPECT_EQ(runs[0].front(), (Vector3{5, 0.5, 1.5}));
  EXPECT_EQ(runs[0].back(), (Vector3{45, 4.5, 1.5}));
  line.y[2] = kNan;
  line.z.resize(5);
  runs = runs_of(line, 0, 5, 45);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].size(), 2U);
  EXPECT_EQ(runs[1].size(), 2U);
  EXPECT_TRUE(runs_of(line, 0, 100, 200).empty());
  runs = runs_of({.x = {0, 100}, .y = {0, 0}, .z = {0, 0}}, 0, 10, 20);  // both ends outside
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0], (std::vector<Vector3>{{10, 0, 0}, {20, 0, 0}}));
  EXPECT_LE(runs_of(straight(0, 0, 4096), 0, 0, 200)[0].size(), 513U);
}

TEST(Band, IsAsWideAsItShouldBe) {
  const Projection projection(kCamera.intrinsics(), {});
  const auto outline = band(projection, {{10, 0, 1.22}, {20, 0, 1.22}}, 0.9, 1);
  ASSERT_EQ(outline.size(), 4U);
  EXPECT_NEAR(outline[3].u - outline[0].u, 2648 * 1.8 / 10, 1e-6);
  const auto thin = band(projection, {{10, 0, 1.22}, {20, 0, 1.22}}, 0.0001, 1);
  EXPECT_NEAR(thin[3].u - thin[0].u, 2, 1e-6);
}

TEST(Scaler, KeepsFlatPicturesAndAverages) {
  for (const auto& [width, height] : {std::pair{96, 64}, {48, 32}, {34, 50}, {200, 150}, {2, 2}}) {
    YuvImage flat(96, 64), out(width, height);
    std::fill(flat.bytes().begin(), flat.bytes().end(), uint8_t{77});
    Scaler().scale(flat.view(), out);
    for (const uint8_t byte : out.bytes()) ASSERT_EQ(byte, 77);
  }
  YuvImage picture(4, 4), half(2, 2);
  for (int i = 0; i < 16; ++i) picture.y()[i] = static_cast<uint8_t>(10 * i);
  Scaler().scale(picture.view(), half);
  EXPECT_EQ(half.y()[0], 25);
  EXPECT_EQ(half.y()[3], 125);
  EXPECT_THROW(Scaler().scale(YuvView{}, half), Error);
}

TEST(Layer, BlendsColoursAsJpegMeansThem) {
  Layer layer(64, 64);
  layer.fill({{8, 8}, {24, 8}, {24, 24}, {8, 24}}, {1, 0, 0}, 1);
  YuvImage image(64, 64);
  const YuvImage before = image;
  layer.blend_onto(image);
  EXPECT_EQ(image.y()[16 * 64 + 16], 76);
  EXPECT_EQ(image.u()[8 * 32 + 8], 85);
  EXPECT_NEAR(image.v()[8 * 32 + 8], 255, 1);
  for (int y = 0; y < 64; ++y) {
    for (int x = 0; x < 64; ++x) {
      const bool inside = x >= 8 && x < 24 && y >= 8 && y < 24;
      ASSERT_EQ(image.y()[y * 64 + x] != 128, inside) << x << ' ' << y;
    }
  }
  layer.clear();
  YuvImage untouched = before;
  layer.blend_onto(untouched);
  EXPECT_EQ(untouched.bytes(), before.bytes());
}

TEST(Layer, BlendsEveryColumnAlike) {
  // Rows of all widths, so that every pixel is once part of a vector and once of the remainder.
  constexpr size_t kCount = 70;
  Random random(7);
  std::array<uint32_t, 2 * kCount> pixels{};
  for (uint32_t& pixel : pixels) {
    const auto alpha = static_cast<uint32_t>(random.bits() % 4 == 0 ? 0 : random.bits() % 256);
    pixel = alpha << 24;
    for (const int shift : {0, 8, 16}) pixel |= static_cast<uint32_t>(random.bits() % (alpha + 1)) << shift;
  }
  std::array<uint8_t, 3 * kCount> before{};
  for (uint8_t& byte : before) byte = static_cast<uint8_t>(random.bits());
  const auto blended = [&](size_t width) {
    auto out = before;
    for (size_t x = 0; x < kCount; x += width) {
      uint8_t* y = out.data() + x;
      uint8_t* u = out.data() + 2 * kCount + x / 2;
      blend_rows(&pixels[x], &pixels[kCount + x], std::min(width, kCount - x), {y, y + kCount, u, u + kCount / 2});
    }
    return out;
  };
  const auto whole = blended(kCount);
  for (size_t width = 2; width < kCount; width += 2) ASSERT_EQ(blended(width), whole) << width;
  for (size_t x = 0; x < kCount; ++x) {
    const size_t other = x ^ 1;
    double r = 0, b = 0, luma = 0, alpha = 0;  // sums over the four pixels that share a sample
    for (const size_t at : {x, other, kCount + x, kCount + other}) {
      const auto channel = [&](int shift) { return (pixels[at] >> shift & 255) / 4.0; };
      alpha += channel(24), r += channel(16), b += channel(0);
      luma += 0.299 * channel(16) + 0.587 * channel(8) + 0.114 * channel(0);
    }
    const auto near = [&](size_t at, double drawn, double of, double grey) {
      const double expected = grey + (before[at] - grey) * (1 - of / 255) + drawn;
      EXPECT_NEAR(whole[at], std::clamp(expected, 0.0, 255.0), 1.01) << at;
    };
    const auto argb = [&](int shift) { return pixels[x] >> shift & 255; };
    near(x, 0.299 * argb(16) + 0.587 * argb(8) + 0.114 * argb(0), argb(24), 0);
    near(2 * kCount + x / 2, (b - luma) / 1.772, alpha, 128);
    near(2 * kCount + kCount / 2 + x / 2, (r - luma) / 1.402, alpha, 128);
  }
}

TEST(Overlay, DrawsThePathOnTheRoad) {
  const YuvImage picture(482, 302);
  const ModelRecord model = straight_ahead();
  OverlayFrame frame = frame_of(picture);
  frame.ours = &model;
  Overlay overlay({.width = 482, .height = 302, .bird_eye = false});
  YuvImage out = picture;
  overlay.draw(frame, out);
  // 20 m ahead: below the middle by f h / x, as wide as 1.8 m.
  const double f = 2648.0 / 4;
  const int row = static_cast<int>(151 + f * 1.22 / 20), half = static_cast<int>(f * 0.9 / 20);
  const auto blue = [&](int x) { return out.view().u[row / 2 * 241 + x / 2] > 132; };
  EXPECT_TRUE(blue(241));
  EXPECT_TRUE(blue(241 - half + 4));
  EXPECT_TRUE(blue(241 + half - 4));
  EXPECT_FALSE(blue(241 - half - 8));
  EXPECT_FALSE(blue(241 + half + 8));
  EXPECT_EQ(changed(out, picture, 0, 110), 0) << "nothing above the horizon but the lead and its text";
}

TEST(Overlay, LeavesThePictureAloneWithoutAModel) {
  const YuvImage picture(482, 302);
  const YuvImage out = drawn(frame_of(picture), picture);
  EXPECT_EQ(changed(out, picture, 0, 270), 0);
  EXPECT_GT(changed(out, picture, 280, 302), 0) << "the legend";
}

// Panels for which a small picture has no room are left out, the rest stays.
TEST(Overlay, LeavesOutWhatDoesNotFit) {
  const ModelRecord model = straight_ahead();
  for (const auto& [width, height, roomy] :
       {std::tuple{482, 302, true}, {420, 264, true}, {320, 200, false}, {360, 226, false}, {330, 400, false}}) {
    const YuvImage picture(width, height);
    OverlayFrame frame = frame_of(picture);
    frame.ours = &model;
    YuvImage with = picture, without = picture;
    Overlay({.width = width, .height = height}).draw(frame, with);
    Overlay({.width = width, .height = height, .bird_eye = false}).draw(frame, without);
    EXPECT_EQ(with.bytes() != without.bytes(), roomy) << width;
  }
  const YuvImage narrow(190, 202);
  const YuvImage bare = drawn(frame_of(narrow), YuvImage(190, 202));
  OverlayFrame frame = frame_of(narrow);
  frame.frame_id = 123456;
  frame.route_time = 20.05;
  EXPECT_EQ(drawn(frame, YuvImage(190, 202)).bytes(), bare.bytes()) << "beside the legend there is room for neither";
  EXPECT_NE(drawn(frame, YuvImage(320, 202)).bytes(), drawn(frame_of(narrow), YuvImage(320, 202)).bytes());
}

// The longest run of nearly white pixels in a row of the legend: longer than a letter's stroke is wide, it is a line's
// sample.
int longest_white(const YuvImage& image) {
  int longest = 0;
  for (int row = 578; row < 604; ++row) {
    for (int x = 0, length = 0; x < image.width(); ++x) {
      length = image.view().y[row * image.width() + x] > 210 ? length + 1 : 0;
      longest = std::max(longest, length);
    }
  }
  return longest;
}

TEST(Overlay, TheLegendNamesTheWhiteLaneLines) {
  const ModelRecord model = straight_ahead();
  OverlayFrame frame = frame_of(YuvImage(964, 604));
  frame.ours = &model;
  EXPECT_GE(longest_white(drawn(frame, YuvImage(964, 604))), 14);
  // The recorded model's are drawn in its own colour.
  frame.recorded = std::exchange(frame.ours, nullptr);
  YuvImage recorded(964, 604);
  Overlay({.width = 964, .height = 604, .ours = ""}).draw(frame, recorded);
  EXPECT_LT(longest_white(recorded), 14);
}

TEST(Overlay, TheMapsScaleLiesOnNoLine) {
  OverlayFrame frame = frame_of(YuvImage(964, 604));
  ModelRecord bare, full;  // `full` has every line that the map can show
  bare.position = full.position = straight(0, 0);
  const auto strip_differs = [](const YuvImage& a, const YuvImage& b) {
    int count = 0;
    for (int row = 283; row < 296; ++row) {
      for (int x = 784; x < 952; ++x) count += a.view().y[row * 964 + x] != b.view().y[row * 964 + x];
    }
    return count;
  };
  const YuvImage empty = drawn(frame, YuvImage(964, 604));
  frame.ours = &bare;
  const YuvImage scale = drawn(frame, YuvImage(964, 604));
  EXPECT_GT(strip_differs(scale, empty), 100) << "there is no scale";
  frame.ours = &full;
  for (float y = -9; y < 9; y += 0.5F) {
    full.lane_lines.assign(4, straight(y, 1.22F));
    full.lane_line_probs.assign(4, 1);
    full.road_edges.assign(2, straight(y + 0.25F, 1.22F));
    full.road_edge_stds.assign(2, 0);
    ASSERT_EQ(strip_differs(drawn(frame, YuvImage(964, 604)), scale), 0) << "a line at " << y << " m";
  }
}

TEST(Overlay, ShowsTurnSignalsAndWhatComesNext) {
  const YuvImage picture(964, 604);
  const YuvImage none = drawn(frame_of(picture), YuvImage(964, 604));
  const auto green = [&](const YuvImage& image, int x) {  // in the rows of the speed
    return image.view().v[39 / 2 * 482 + x / 2] < 90 && image.view().y[39 * 964 + x] > 120;
  };
  OverlayFrame frame = frame_of(picture);
  frame.left_blinker = true;
  YuvImage image = drawn(frame, YuvImage(964, 604));
  EXPECT_TRUE(green(image, 24));
  EXPECT_FALSE(green(image, 122));
  frame.right_blinker = true;
  EXPECT_TRUE(green(drawn(frame, YuvImage(964, 604)), 122));
  // Every line makes the panel longer; values below a probability of one half get no line.
  ModelRecord model;
  model.desire_state = {0.5F, 0, 0, 0.49F, 0, 0, 0, 0};
  frame.recorded = &model;
  Overlay overlay({.width = 964, .height = 604, .bird_eye = false});
  const auto panel = [&] {
    image = picture;
    overlay.draw(frame, image);
    int last = 0;
    for (int row = 0; row < 300; ++row) last = changed(image, none, row, row + 1) > 0 ? row : last;
    return last;
  };
  const int plain = panel();
  EXPECT_NEAR(plain, 86, 1);
  model.desire_state[3] = 0.51F;
  const int desire = panel();
  EXPECT_GT(desire, plain + 10);
  frame.lane_change_state = 2;
  EXPECT_EQ(panel(), desire) << "to neither side";
  frame.lane_change_direction = 1;
  EXPECT_GT(panel(), desire + 10);
  frame.lane_change_state = 77;
  EXPECT_EQ(panel(), desire) << "a state that nobody knows";
}

TEST(Overlay, IsTheSameEveryTime) {
  const YuvImage picture(526, 330);
  ModelRecord ours = straight_ahead(), recorded = straight_ahead();
  for (float& y : recorded.position.y) y += 0.5F;
  OverlayFrame frame = frame_of(picture);
  frame.ours = &ours;
  frame.recorded = &recorded;
  frame.v_ego = 23;
  frame.steering_deg = -3.2;
  frame.frame_id = 401;
  frame.route_time = 20.05;
  frame.alert = "Take control \xff immediately";
  Overlay overlay({.width = 526, .height = 330});
  YuvImage first = picture, second = picture;
  overlay.draw(frame, first);
  OverlayFrame other = frame_of(picture);
  overlay.draw(other, second);
  EXPECT_NE(first.bytes(), second.bytes());
  second = picture;
  overlay.draw(frame, second);
  EXPECT_EQ(first.bytes(), second.bytes());
  EXPECT_EQ(first.bytes(), drawn(frame, picture).bytes());
}

TEST(Overlay, HoldsAgainstHostileRecords) {
  const YuvImage picture(482, 302);
  std::vector<ModelRecord> records(1);
  records[0].lane_lines.resize(4096);
  records[0].leads.resize(4096);
  for (const float odd : {kNan, kInf, -kInf, 3e38F, -3e38F, -1e3F, 0.0F, 1e-40F}) {
    ModelRecord every = straight_ahead(), some = straight_ahead();
    for (Polyline* line : {&every.position, &every.lane_lines[1], every.road_edges.data()}) {
      line->x.assign(4096, odd);
      line->y.assign(4000, odd);
      line->z.assign(4090, odd);
    }
    every.leads[0].x = every.leads[0].y = every.leads[0].v = {odd};
    every.leads[0].prob = std::isnan(odd) ? 1 : odd;
    every.lane_line_probs = {odd, odd};
    every.road_edge_stds = {odd};
    for (size_t i = 0; i < 33; i += 3) some.position.y[i] = some.lane_lines[2].z[i] = some.road_edges[1].x[i] = odd;
    records.push_back(every);
    records.push_back(some);
  }
  Overlay overlay({.width = 482, .height = 302});
  YuvImage out = picture;
  for (const ModelRecord& record : records) {
    for (const double angle : {0.0, 1.5, 3.1, static_cast<double>(kNan), 1e300}) {
      OverlayFrame frame = frame_of(picture);
      frame.rpy = {angle, angle, angle};
      frame.height = std::isnan(angle) ? angle : 1.22;
      frame.ours = frame.recorded = &record;
      frame.v_ego = frame.steering_deg = frame.route_time = angle;
      frame.frame_id = std::numeric_limits<int64_t>::min();
      frame.alert = std::string(100000, '\xc3');
      EXPECT_NO_THROW(overlay.draw(frame, out));
    }
  }
  OverlayFrame last = frame_of(picture);
  out = picture;
  overlay.draw(last, out);
  EXPECT_EQ(changed(out, picture, 0, 270), 0) << "nothing stays from earlier frames";
}

TEST(Overlay, RefusesSizesThatCannotBe) {
  for (const auto& [width, height] : {std::pair{0, 0}, {101, 100}, {62, 100}, {10000, 100}, {-2, 100}}) {
    EXPECT_THROW(Overlay({.width = width, .height = height}), Error);
  }
  Overlay overlay({.width = 64, .height = 64});
  YuvImage out(64, 66);
  EXPECT_THROW(overlay.draw({}, out), Error);
}

}  // namespace overlay_test
}  // namespace sparkpilot::drive
