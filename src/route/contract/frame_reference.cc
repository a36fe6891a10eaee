#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>

#include "base/error.h"
#include "route/contract/frame.h"
#include "route/contract/frame_plane.h"

namespace sparkpilot::drive {
namespace {

void check_plane(const Plane& plane, const char* name) {
  if (plane.data == nullptr) fail("the picture has no {} plane", name);
  if (plane.stride < plane.width)
    fail("rows of {} are {} bytes apart, expected at least {}", name, plane.stride, plane.width);
  // Offsets into a plane are 32-bit integers.
  if (int64_t{plane.stride} * plane.height > INT32_MAX)
    fail("the {} plane has {} rows of {} bytes, more than 2^31", name, plane.height, plane.stride);
}

// A rounded coordinate, and whether it is a number at all (not NaN).
struct Rounded {
  int value;
  bool number;
};

Rounded round_to_int(float v) {
  if (std::isnan(v)) return {0, false};
  // The largest coordinate that matters is 32 * 32768; a value beyond the limit is outside just as one at the limit.
  constexpr float kLimit = 1 << 24;
  return {static_cast<int>(std::nearbyint(std::clamp(v, -kLimit, kLimit))), true};
}

int pixel(const Plane& plane, int x, int y) {
  return plane.data[std::clamp(y, 0, plane.height - 1) * plane.stride + std::clamp(x, 0, plane.width - 1)];
}

uint8_t sample(const Plane& plane, const FloatWarp& m, Sampling sampling, std::optional<uint8_t> border, int column,
               int row) {
  const float x = static_cast<float>(column), y = static_cast<float>(row);
  const float px = m[0] * x + m[1] * y + m[2];
  const float py = m[3] * x + m[4] * y + m[5];
  const float w = m[6] * x + m[7] * y + m[8];

  const bool bilinear = sampling == Sampling::bilinear;
  const float scale = w != 0 ? 32 / w : 0;
  const Rounded at_x = round_to_int(bilinear ? px * scale : px / w),
                at_y = round_to_int(bilinear ? py * scale : py / w);
  const int unit = bilinear ? 32 : 1;
  if (border) {
    const bool inside = at_x.number && at_y.number && at_x.value >= 0 && at_x.value <= unit * (plane.width - 1) &&
                        at_y.value >= 0 && at_y.value <= unit * (plane.height - 1);
    if (!inside) return *border;
  }
  if (!bilinear) return static_cast<uint8_t>(pixel(plane, at_x.value, at_y.value));

  // Rounded down, for negative coordinates too.
  const int left = at_x.value >> 5, top = at_y.value >> 5, ax = at_x.value & 31, ay = at_y.value & 31;
  const int sum = pixel(plane, left, top) * (32 - ax) * (32 - ay) + pixel(plane, left + 1, top) * ax * (32 - ay) +
                  pixel(plane, left, top + 1) * (32 - ax) * ay + pixel(plane, left + 1, top + 1) * ax * ay;
  return static_cast<uint8_t>((sum + 512) >> 10);
}

}  // namespace

Planes checked_planes(const YuvView& p, size_t bytes, size_t expected) {
  if (bytes != expected) fail("the frame has room for {} bytes, expected {}", bytes, expected);
  if (p.width <= 0 || p.height <= 0 || p.width % 2 != 0 || p.height % 2 != 0 || p.width > 32768 || p.height > 32768)
    fail("the picture is {} x {}, expected even sizes from 2 to 32768", p.width, p.height);
  const Planes planes = {{p.y, p.width, p.height, p.y_stride},
                         {p.u, p.width / 2, p.height / 2, p.uv_stride},
                         {p.v, p.width / 2, p.height / 2, p.uv_stride}};
  check_plane(planes.y, "Y");
  check_plane(planes.u, "U");
  check_plane(planes.v, "V");
  return planes;
}

FloatWarp float_warp(const Matrix3& warp) {
  FloatWarp out;
  std::transform(warp.begin(), warp.end(), out.begin(), [](double v) { return static_cast<float>(v); });
  return out;
}

FloatWarp chroma_warp(const FloatWarp& luma, Sampling sampling) {
  if (sampling == Sampling::nearest) {
    constexpr FloatWarp kScale = {1, 1, 0.5f, 1, 1, 0.5f, 2, 2, 1};
    FloatWarp out;
    std::transform(luma.begin(), luma.end(), kScale.begin(), out.begin(), std::multiplies<>());
    return out;
  }
  const auto multiply = [](const FloatWarp& a, const FloatWarp& b) {
    FloatWarp c{};
    for (size_t i = 0; i < 3; ++i) {
      for (size_t j = 0; j < 3; ++j) {
        for (size_t k = 0; k < 3; ++k) c[3 * i + j] += a[3 * i + k] * b[3 * k + j];
      }
    }
    return c;
  };
  return multiply({0.5f, 0, -0.25f, 0, 0.5f, -0.25f, 0, 0, 1}, multiply(luma, {2, 0, 0.5f, 0, 2, 0.5f, 0, 0, 1}));
}

void prepare_frame_reference(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::span<uint8_t> out) {
  const Planes planes = checked_planes(picture, out.size(), kFrameBytes);
  const FloatWarp luma = float_warp(warp), chroma = chroma_warp(luma, sampling);
  uint8_t* to = out.data();
  for (int channel = 0; channel < kFrameChannels; ++channel) {
    for (int y = 0; y < kFrameHeight; ++y) {
      for (int x = 0; x < kFrameWidth; ++x) {
        if (channel < 4) *to++ = sample(planes.y, luma, sampling, {}, 2 * x + channel / 2, 2 * y + channel % 2);
        else *to++ = sample(channel == 4 ? planes.u : planes.v, chroma, sampling, {}, x, y);
      }
    }
  }
}

void prepare_driver_frame_reference(const YuvView& picture, const Matrix3& warp, Sampling sampling,
                                    std::optional<uint8_t> border, std::span<uint8_t> out) {
  const Planes planes = checked_planes(picture, out.size(), kDriverFrameBytes);
  const FloatWarp luma = float_warp(warp);
  uint8_t* to = out.data();
  for (int y = 0; y < kDriverModelHeight; ++y) {
    for (int x = 0; x < kDriverModelWidth; ++x) *to++ = sample(planes.y, luma, sampling, border, x, y);
  }
}

}  // namespace sparkpilot::drive
