#include "route/contract/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/fnv.h"
#include "base/random.h"
#include "route/contract/test_targets.h"
#include "sparkpilot/error.h"

namespace sparkpilot::drive {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr Sampling kBoth[] = {Sampling::bilinear, Sampling::nearest};

// A picture whose planes are separate allocations of exactly the length in the contract, so that an address sanitizer
// detects each byte read outside.
class Picture {
 public:
  using Fill = std::function<uint8_t(int plane, size_t at)>;
  Picture(int width, int height, const Fill& fill, int luma_padding = 0, int chroma_padding = 0) {
    view_ = {width, height, nullptr, nullptr, nullptr, width + luma_padding, width / 2 + chroma_padding};
    for (int plane = 0; plane < 3; ++plane) {
      const size_t bytes = plane == 0 ? static_cast<size_t>(view_.y_stride) * static_cast<size_t>(height)
                                      : static_cast<size_t>(view_.uv_stride) * static_cast<size_t>(height / 2);
      planes_[plane] = std::make_unique<uint8_t[]>(bytes);
      for (size_t i = 0; i < bytes; ++i) planes_[plane][i] = fill(plane, i);
    }
    view_.y = planes_[0].get();
    view_.u = planes_[1].get();
    view_.v = planes_[2].get();
  }
  const YuvView& view() const { return view_; }

 private:
  std::unique_ptr<uint8_t[]> planes_[3];
  YuvView view_;
};

// The pattern of tests/reference/frame_numpy.py.
uint8_t pattern(int plane, size_t at) {
  return static_cast<uint8_t>((static_cast<uint32_t>(at) + 1 + static_cast<uint32_t>(plane)) * 2654435761U >> 24);
}

uint64_t fnv1a(std::span<const uint8_t> bytes) {
  Fnv hash;
  hash.bytes(bytes.data(), bytes.size());
  return hash.value();
}

using Frame = std::vector<uint8_t>;

Frame prepare(const YuvView& view, const Matrix3& warp, Sampling sampling, bool reference) {
  Frame out(kFrameBytes);
  (reference ? prepare_frame_reference : prepare_frame)(view, warp, sampling, out);
  return out;
}

Frame prepare_driver(const YuvView& view, const Matrix3& warp, Sampling sampling, std::optional<uint8_t> border,
                     bool reference) {
  Frame out(kDriverFrameBytes);
  (reference ? prepare_driver_frame_reference : prepare_driver_frame)(view, warp, sampling, border, out);
  return out;
}

void expect_same(const Frame& got, const Frame& expected) {
  const auto [a, b] = std::mismatch(got.begin(), got.end(), expected.begin());
  if (a != got.end()) ADD_FAILURE() << "byte " << a - got.begin() << " is " << int{*a} << ", expected " << int{*b};
}

// --- The reference compared with NumPy: the constants are printed by tests/reference/frame_numpy.py.
struct NumPyCase {
  int width, height;
  Matrix3 warp;
  Sampling sampling;
  uint64_t hash;
  std::array<int, 5> bytes;  // at 0, 50000, 100000, 150000, 190000
};

const Matrix3 kRoad = {2.875, -0.0625, 220.3, 0.09375, 2.8125, 465.7, 0.00003, -0.00002, 1.01};
const Matrix3 kHorizonInside = {1.5, 0.75, -300.5, -0.5, 1.25, 90.25, 0.001, -0.008, 1.03125};
const NumPyCase kNumPy[] = {
    {1928, 1208, kRoad, Sampling::bilinear, 0xf67e2558880a964f, {207, 48, 126, 105, 79}},
    {1928, 1208, kRoad, Sampling::nearest, 0x2f92b12660c8a89d, {230, 23, 186, 156, 66}},
    {526, 330, kHorizonInside, Sampling::bilinear, 0x9a71acc25ac19c9e, {33, 62, 63, 126, 38}},
    {526, 330, kHorizonInside, Sampling::nearest, 0x1ed56d2992388eb4, {44, 18, 45, 56, 181}},
};

TEST(Frame, ReferenceIsNumPys) {
  for (const NumPyCase& c : kNumPy) {
    const Frame out = prepare(Picture(c.width, c.height, pattern).view(), c.warp, c.sampling, true);
    constexpr size_t kAt[] = {0, 50000, 100000, 150000, 190000};
    for (size_t i = 0; i < 5; ++i) EXPECT_EQ(out[kAt[i]], c.bytes[i]);
    EXPECT_EQ(fnv1a(out), c.hash) << c.width << " " << static_cast<int>(c.sampling);
  }
}

TEST(Frame, DriverReferenceIsNumPys) {
  const Picture picture(1344, 760, pattern);
  const Matrix3 warp = dm_warp_matrix(device_cameras("mici", "os04c10")->driver.intrinsics());
  const auto hash = [&](Sampling sampling, std::optional<uint8_t> border) {
    return fnv1a(prepare_driver(picture.view(), warp, sampling, border, true));
  };
  EXPECT_EQ(hash(Sampling::bilinear, {}), 0x4cc881d03ab740ac);
  EXPECT_EQ(hash(Sampling::bilinear, kDriverBorder), 0x44834658733d24bc);
  EXPECT_EQ(hash(Sampling::nearest, {}), 0x2129d60ec0a4da8f);
  EXPECT_EQ(hash(Sampling::nearest, kDriverBorder), 0xd734b4317f5f18b7);
}

// --- Properties of the result that do not depend on the arithmetic.
TEST(Frame, PacksTheModelsChannels) {
  // Each pixel's value encodes its position, modulo 256.
  const auto fill = [](int plane, size_t at) {
    const size_t width = plane == 0 ? 512 : 256;
    return static_cast<uint8_t>(at % width + 3 * (at / width) + static_cast<size_t>(100 * plane));
  };
  const Picture picture(512, 256, fill);
  for (const Sampling sampling : kBoth) {
    const Frame out = prepare(picture.view(), {1, 0, 0, 0, 1, 0, 0, 0, 1}, sampling, false);
    for (const auto& place : {std::pair{0, 0}, {255, 127}, {17, 90}}) {
      const int x = place.first, y = place.second;
      const auto channel = [&](int c) { return int{out.data()[(c * 128 + y) * 256 + x]}; };
      for (int c = 0; c < 4; ++c) EXPECT_EQ(channel(c), (2 * x + c / 2 + 3 * (2 * y + c % 2)) % 256) << c;
      for (int c = 4; c < 6; ++c) EXPECT_EQ(channel(c), (x + 3 * y + 100 * (c - 3)) % 256) << c;
    }
  }
}

TEST(Frame, PacksAPictureAsItIs) {
  const Picture picture(512, 256, pattern, 7, 3);
  const Frame expected = prepare(picture.view(), {1, 0, 0, 0, 1, 0, 0, 0, 1}, Sampling::nearest, true);
  for_each_target([&] {
    Frame out(kFrameBytes);
    pack_frame(picture.view(), out);
    EXPECT_EQ(out, expected);
  });
  Frame out(kFrameBytes);
  EXPECT_THROW(pack_frame(Picture(514, 256, pattern).view(), out), Error);
}

TEST(Frame, RoundsHalfwayToEvenOrUp) {
  constexpr size_t kThirdChannel = size_t{2} * kFrameHeight * kFrameWidth;
  const Picture ramp(512, 256, [](int, size_t at) { return static_cast<uint8_t>(at); });
  // Half a pixel to the right: nearest takes the even column, bilinear rounds halves up.
  const Matrix3 half = {1, 0, 0.5, 0, 1, 0, 0, 0, 1};
  const Frame near = prepare(ramp.view(), half, Sampling::nearest, false);
  EXPECT_EQ(near[0], 0);              // 0.5
  EXPECT_EQ(near[kThirdChannel], 2);  // 1.5
  const Frame linear = prepare(ramp.view(), half, Sampling::bilinear, false);
  EXPECT_EQ(linear[0], 1);              // between 0 and 1
  EXPECT_EQ(linear[kThirdChannel], 2);  // between 1 and 2
}

TEST(Frame, BorderShowsOutsideOnly) {
  const Picture picture(1928, 1208, [](int, size_t) { return uint8_t{200}; });
  // The left half lies outside; column 720 is at 0 exactly, column 719 at -1.
  const Matrix3 shifted = {1, 0, -720, 0, 1, 0, 0, 0, 1};
  for (const Sampling sampling : kBoth) {
    const Frame out = prepare_driver(picture.view(), shifted, sampling, uint8_t{16}, false);
    EXPECT_EQ(std::count(out.begin(), out.end(), 16), 720 * 960);
    EXPECT_EQ(out[719], 16);
    EXPECT_EQ(out[720], 200);
    const Frame edge = prepare_driver(picture.view(), shifted, sampling, {}, false);
    EXPECT_EQ(std::count(edge.begin(), edge.end(), 200), 1440 * 960);
    const Frame nowhere = prepare_driver(picture.view(), {kNaN, 0, 0, 0, 1, 0, 0, 0, 1}, sampling, uint8_t{16}, false);
    EXPECT_EQ(std::count(nowhere.begin(), nowhere.end(), 16), 1440 * 960);
  }
}

TEST(Frame, RefusesWhatItCannotRead) {
  const Picture picture(64, 32, pattern);
  Frame out(kFrameBytes);
  const auto expect_refused = [&](const std::function<void(YuvView&)>& change, const std::string& message) {
    YuvView view = picture.view();
    change(view);
    try {
      prepare_frame(view, kRoad, Sampling::nearest, out);
      ADD_FAILURE() << "not refused: " << message;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
    }
  };
  expect_refused([](YuvView& v) { v.width = 63; }, "63 x 32");
  expect_refused([](YuvView& v) { v.height = 0; }, "64 x 0");
  expect_refused([](YuvView& v) { v.width = v.y_stride = 32770; }, "32770 x 32");
  expect_refused([](YuvView& v) { v.y_stride = 63; }, "63 bytes apart, expected at least 64");
  expect_refused([](YuvView& v) { v.uv_stride = -32; }, "rows of U");
  expect_refused([](YuvView& v) { v.y_stride = 1 << 30; }, "more than 2^31");
  expect_refused([](YuvView& v) { v.v = nullptr; }, "no V plane");
  out.resize(100);
  expect_refused([](YuvView&) {}, "room for 100 bytes, expected 196608");
}

// --- Every instruction set compared with the reference. About half of these warps look like a calibration; the others
// do not come from any camera.
Matrix3 random_warp(Random& random, int width, int height) {
  const auto around_zero = [&](double size) { return (2 * random.uniform() - 1) * size; };
  if (random.bits() % 2 == 0) {
    const Vector3 rpy = {around_zero(0.2), around_zero(0.3), around_zero(0.4)};
    const double focal_length = width * (0.3 + 1.5 * random.uniform());
    return warp_matrix(rpy, Camera{width, height, focal_length}.intrinsics(), random.bits() % 2 == 0);
  }
  Matrix3 m;
  for (double& v : m) v = around_zero(1) * std::exp2(around_zero(12));
  constexpr double kOdd[] = {0, -0.0, 1, 0.5, kInf, -kInf, kNaN, 1e38, -1e38, 1e300, 1e-45, 0x1p23, 0x1p31, -0x1p31};
  for (uint32_t i = random.bits() % 4; i > 0; --i) m[random.bits() % 9] = kOdd[random.bits() % std::size(kOdd)];
  if (random.bits() % 4 == 0) {  // w is zero at some pixel, or everywhere
    m[6] = random.bits() % 2 == 0 ? 1 : 0;
    m[7] = 0;
    m[8] = -static_cast<double>(random.bits() % 3);
  }
  return m;
}

void compare(int width, int height, int rounds, uint64_t seed) {
  SCOPED_TRACE(std::to_string(width) + " x " + std::to_string(height));
  Random random(seed);
  for (int round = 0; round < rounds; ++round) {
    const int luma_padding = round % 3 == 0 ? 0 : static_cast<int>(random.bits() % 70), chroma_padding = round % 5;
    // Neighbours that differ as much as possible, so that every weight matters.
    const bool extremes = round % 2 == 0;
    const Picture picture(
        width, height,
        [&](int plane, size_t at) {
          const uint8_t v = pattern(plane, at);
          return extremes ? static_cast<uint8_t>(v % 2 == 0 ? 0 : 255) : v;
        },
        luma_padding, chroma_padding);
    const Matrix3 warp = random_warp(random, width, height);
    for (const Sampling sampling : kBoth) {
      SCOPED_TRACE("round " + std::to_string(round) + ", sampling " + std::to_string(static_cast<int>(sampling)));
      const Frame expected = prepare(picture.view(), warp, sampling, true);
      for_each_target([&] { expect_same(prepare(picture.view(), warp, sampling, false), expected); });
    }
  }
}

TEST(Frame, EveryTargetIsTheReferenceOnTinyPictures) {
  for (const auto& [width, height] : {std::pair{2, 2}, {2, 64}, {64, 2}, {4, 4}, {4, 6}, {6, 4}, {64, 32}})
    compare(width, height, 5, 100 * static_cast<uint64_t>(width) + static_cast<uint64_t>(height));
}

TEST(Frame, EveryTargetIsTheReferenceOnCameraPictures) {
  compare(526, 330, 12, 1);
  compare(1344, 760, 4, 2);
  compare(1928, 1208, 4, 3);
}

TEST(Frame, EveryTargetIsTheReferenceForDrivers) {
  Random random(4);
  for (const auto& [width, height] : {std::pair{2, 2}, {2, 8}, {6, 4}, {1344, 760}, {1928, 1208}}) {
    const Picture picture(width, height, pattern, width % 7, 1);
    for (int round = 0; round < 2; ++round) {
      const Matrix3 warp = round == 0 ? dm_warp_matrix(Camera{width, height, width * 0.3}.intrinsics())
                                      : random_warp(random, width, height);
      for (const Sampling sampling : kBoth) {
        for (const auto border : {std::optional<uint8_t>(), std::optional<uint8_t>(16)}) {
          // Each way with one of the two warps: how a warp is read and what lies outside do not depend on each other.
          if ((sampling == kBoth[0]) == (border.has_value() != (round == 0))) continue;
          const Frame expected = prepare_driver(picture.view(), warp, sampling, border, true);
          for_each_target(
              [&] { expect_same(prepare_driver(picture.view(), warp, sampling, border, false), expected); });
        }
      }
    }
  }
}

}  // namespace
}  // namespace sparkpilot::drive
