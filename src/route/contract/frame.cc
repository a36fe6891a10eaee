#include "route/contract/frame.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "route/contract/frame_plane.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "route/contract/frame.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

// A row goes through three stages with arrays between them: coordinates (vectors of floats), loads (scalar: gathering
// bytes was not faster than single loads on any processor tried), blending (vectors of 16-bit integers).
//
// Coordinates are clamped to the plane before they are rounded, which gives the same pixels as clamping each of the
// four neighbours and keeps every conversion in range. For the last pixel of a row or column, the last but one is read
// with a fraction of 32, so that two neighbours are one 16-bit load and nothing outside the plane is read.
HWY_BEFORE_NAMESPACE();
namespace sparkpilot::drive::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
namespace {  // names are local to this file, once per target

constexpr size_t kChunk = 256;  // pixels per pass between stages: the arrays stay in the first-level cache
using F = hn::CappedTag<float, 16>;
using I = hn::RebindToSigned<F>;
using H = hn::CappedTag<int16_t, 32>;

// Pixels of one output row: x = x0, x0 + step, ... (count of them, at most kChunk), at row y.
struct Span {
  float x0, step, y;
  size_t count;
};

struct Coordinates {
  alignas(64) int32_t offset[kChunk];          // of the upper left pixel
  alignas(64) int16_t ax[kChunk], ay[kChunk];  // 0 to 32 (bilinear)
  alignas(64) uint8_t inside[kChunk];          // 255, or 0 where the border shows (only if asked for)
};

template <class V>
HWY_INLINE V clamp_coordinate(V v, V highest) {
  const F d;
  v = hn::IfThenElse(hn::Ge(v, hn::Zero(d)), v, hn::Zero(d));  // false for NaN
  return hn::Min(v, highest);
}

// All ones if the rounded coordinate is in [0, highest]; zero for NaN.
template <class V>
HWY_INLINE auto is_inside(V v, V highest) {
  const F d;
  const auto rounded = hn::Round(v);
  return hn::And(hn::Ge(rounded, hn::Zero(d)), hn::Le(rounded, highest));
}

template <bool kBilinear, bool kBorder>
HWY_INLINE void locate(const FloatWarp& m, const Plane& plane, const Span& span, Coordinates& out) {
  const F d;
  const I di;
  const hn::Rebind<int16_t, F> d16;
  const hn::Rebind<uint8_t, F> d8;
  const float y = span.y;
  const auto row_x = hn::Set(d, m[1] * y), row_y = hn::Set(d, m[4] * y), row_w = hn::Set(d, m[7] * y);
  const auto m0 = hn::Set(d, m[0]), m2 = hn::Set(d, m[2]), m3 = hn::Set(d, m[3]), m5 = hn::Set(d, m[5]);
  const auto m6 = hn::Set(d, m[6]), m8 = hn::Set(d, m[8]);
  const float unit = kBilinear ? 32 : 1;
  const auto highest_x = hn::Set(d, unit * static_cast<float>(plane.width - 1));
  const auto highest_y = hn::Set(d, unit * static_cast<float>(plane.height - 1));
  const auto last_x = hn::Set(di, plane.width - 2), last_y = hn::Set(di, plane.height - 2);
  const auto stride = hn::Set(di, plane.stride);
  const auto x0 = hn::Set(d, span.x0), step = hn::Set(d, span.step);

  for (size_t i = 0; i < span.count; i += hn::Lanes(d)) {
    const auto x = hn::Add(x0, hn::Mul(step, hn::ConvertTo(d, hn::Iota(di, static_cast<int32_t>(i)))));
    const auto w = hn::Add(hn::Add(hn::Mul(m6, x), row_w), m8);
    auto px = hn::Add(hn::Add(hn::Mul(m0, x), row_x), m2);
    auto py = hn::Add(hn::Add(hn::Mul(m3, x), row_y), m5);
    if constexpr (kBilinear) {
      const auto zero = hn::Zero(d);
      const auto scale = hn::IfThenElse(hn::Eq(w, zero), zero, hn::Div(hn::Set(d, 32.0F), w));
      px = hn::Mul(px, scale);
      py = hn::Mul(py, scale);
    } else {
      px = hn::Div(px, w);
      py = hn::Div(py, w);
    }
    if constexpr (kBorder) {
      const auto inside = hn::And(is_inside(px, highest_x), is_inside(py, highest_y));
      const auto ones = hn::VecFromMask(di, hn::RebindMask(di, inside));
      hn::Store(hn::DemoteTo(d8, hn::And(ones, hn::Set(di, 255))), d8, out.inside + i);
    }
    const auto column = hn::NearestInt(clamp_coordinate(px, highest_x));
    const auto row = hn::NearestInt(clamp_coordinate(py, highest_y));
    if constexpr (kBilinear) {
      const auto left = hn::Min(hn::ShiftRight<5>(column), last_x), top = hn::Min(hn::ShiftRight<5>(row), last_y);
      hn::Store(hn::DemoteTo(d16, hn::Sub(column, hn::ShiftLeft<5>(left))), d16, out.ax + i);
      hn::Store(hn::DemoteTo(d16, hn::Sub(row, hn::ShiftLeft<5>(top))), d16, out.ay + i);
      hn::Store(hn::Add(hn::Mul(top, stride), left), di, out.offset + i);
    } else {
      hn::Store(hn::Add(hn::Mul(row, stride), column), di, out.offset + i);
    }
  }
}

// ((p00 (32-ax) + p01 ax) (32-ay) + (p10 (32-ax) + p11 ax) ay + 512) >> 10 in 16 bits: with the row sums h0 and h1 it
// equals (h0 + 16 + floor(ay (h1 - h0) / 32)) >> 5, and the floor is the upper half of (4 (h1 - h0)) (512 ay).
HWY_INLINE void blend(const uint16_t* upper, const uint16_t* lower, const Coordinates& at, size_t count, uint8_t* out) {
  const H d;
  const hn::RebindToUnsigned<H> du;
  const hn::Rebind<uint8_t, H> d8;
  const auto across = [&](const uint16_t* pairs, auto ax) {
    const auto both = hn::Load(du, pairs);
    const auto left = hn::BitCast(d, hn::And(both, hn::Set(du, uint16_t{255})));
    const auto right = hn::BitCast(d, hn::ShiftRight<8>(both));
    return hn::Add(hn::ShiftLeft<5>(left), hn::Mul(hn::Sub(right, left), ax));
  };
  for (size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto ax = hn::Load(d, at.ax + i);
    const auto h0 = across(upper + i, ax), h1 = across(lower + i, ax);
    const auto change = hn::MulHigh(hn::ShiftLeft<2>(hn::Sub(h1, h0)), hn::ShiftLeft<9>(hn::Load(d, at.ay + i)));
    const auto sum = hn::Add(hn::Add(h0, change), hn::Set(d, int16_t{16}));
    hn::StoreU(hn::DemoteTo(d8, hn::ShiftRight<5>(sum)), d8, out + i);
  }
}

// Two neighbouring pixels as they lie in memory; the left one is the lower byte.
HWY_INLINE uint16_t load_pair(const uint8_t* at) {
  uint16_t pair;
  std::memcpy(&pair, at, sizeof pair);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  pair = static_cast<uint16_t>(pair << 8 | pair >> 8);
#endif
  return pair;
}

template <bool kBilinear>
HWY_INLINE void fetch(const Plane& plane, const Coordinates& at, size_t count, uint8_t* out) {
  if constexpr (kBilinear) {
    alignas(64) uint16_t upper[kChunk], lower[kChunk];
    const uint8_t *first = plane.data, *second = plane.data + plane.stride;
    for (size_t i = 0; i < count; ++i) {
      const int32_t offset = at.offset[i];
      upper[i] = load_pair(first + offset);
      lower[i] = load_pair(second + offset);
    }
    blend(upper, lower, at, count, out);
  } else {
    for (size_t i = 0; i < count; ++i) out[i] = plane.data[at.offset[i]];
  }
}

// Prefetches the cache lines of the plane that a later fetch reads: rows of a newly decoded picture lie in the outer
// caches, and a row is too short for the hardware prefetcher to detect the pattern.
template <bool kBilinear>
HWY_INLINE void expect(const Plane& plane, const Coordinates& at) {
  for (size_t i = 0; i < kChunk; i += 8) {
    hwy::Prefetch(plane.data + at.offset[i]);
    if constexpr (kBilinear) hwy::Prefetch(plane.data + at.offset[i] + plane.stride);
  }
}

template <bool kBilinear>
void driving_frame(const Planes& p, const FloatWarp& luma, const FloatWarp& chroma, uint8_t* out) {
  static_assert(kFrameWidth == kChunk);
  constexpr size_t kPlane = size_t{kFrameHeight} * kFrameWidth;
  Coordinates rows[2], odd;  // rows: even columns of this row and the next one; odd: odd columns of this row
  const auto luma_row = [&](int y, int odd_column, Coordinates& at) {
    locate<kBilinear, false>(luma, p.y, {static_cast<float>(odd_column), 2, static_cast<float>(y), kFrameWidth}, at);
  };
  for (int next = 0; next <= 2 * kFrameHeight; ++next) {
    if (next < 2 * kFrameHeight) {
      luma_row(next, 0, rows[next % 2]);
      expect<kBilinear>(p.y, rows[next % 2]);
    }
    if (next == 0) continue;
    const int y = next - 1;
    uint8_t* to = out + static_cast<size_t>(y % 2) * kPlane + static_cast<size_t>(y / 2) * kFrameWidth;
    fetch<kBilinear>(p.y, rows[y % 2], kFrameWidth, to);
    luma_row(y, 1, odd);
    fetch<kBilinear>(p.y, odd, kFrameWidth, to + 2 * kPlane);
  }
  for (int next = 0; next <= kFrameHeight; ++next) {
    if (next < kFrameHeight) {
      locate<kBilinear, false>(chroma, p.u, {0, 1, static_cast<float>(next), kFrameWidth}, rows[next % 2]);
      expect<kBilinear>(p.u, rows[next % 2]);
      expect<kBilinear>(p.v, rows[next % 2]);
    }
    if (next == 0) continue;
    const int y = next - 1;
    uint8_t* to = out + 4 * kPlane + static_cast<size_t>(y) * kFrameWidth;
    fetch<kBilinear>(p.u, rows[y % 2], kFrameWidth, to);
    fetch<kBilinear>(p.v, rows[y % 2], kFrameWidth, to + kPlane);
  }
}

template <bool kBilinear, bool kBorder>
void driver_frame(const Plane& plane, const FloatWarp& warp, uint8_t border, uint8_t* out) {
  const hn::Rebind<uint8_t, H> d8;
  Coordinates at;
  for (int row = 0; row < kDriverModelHeight; ++row) {
    for (size_t x = 0; x < kDriverModelWidth; x += kChunk) {
      const size_t count = HWY_MIN(kChunk, kDriverModelWidth - x);
      static_assert(kDriverModelWidth % 32 == 0);  // whole vectors are written
      uint8_t* to = out + static_cast<size_t>(row) * kDriverModelWidth + x;
      locate<kBilinear, kBorder>(warp, plane, {static_cast<float>(x), 1, static_cast<float>(row), count}, at);
      fetch<kBilinear>(plane, at, count, to);
      for (size_t i = 0; kBorder && i < count; i += hn::Lanes(d8)) {
        const auto inside = hn::MaskFromVec(hn::Load(d8, at.inside + i));
        hn::StoreU(hn::IfThenElse(inside, hn::LoadU(d8, to + i), hn::Set(d8, border)), d8, to + i);
      }
    }
  }
}

void DrivingFrame(const Planes& planes, const FloatWarp& luma, const FloatWarp& chroma, Sampling sampling,
                  uint8_t* out) {
  if (sampling == Sampling::bilinear) driving_frame<true>(planes, luma, chroma, out);
  else driving_frame<false>(planes, luma, chroma, out);
}

void PackFrame(const Planes& p, uint8_t* out) {
  const hn::CappedTag<uint8_t, 32> d;
  constexpr size_t kPlane = size_t{kFrameHeight} * kFrameWidth;
  static_assert(kFrameWidth % 32 == 0);  // whole vectors
  for (int y = 0; y < 2 * kFrameHeight; ++y) {
    const uint8_t* row = p.y.data + static_cast<ptrdiff_t>(y) * p.y.stride;
    uint8_t* to = out + static_cast<size_t>(y % 2) * kPlane + static_cast<size_t>(y / 2) * kFrameWidth;
    for (size_t x = 0; x < kFrameWidth; x += hn::Lanes(d)) {
      hn::Vec<decltype(d)> even, odd;
      hn::LoadInterleaved2(d, row + 2 * x, even, odd);
      hn::StoreU(even, d, to + x);
      hn::StoreU(odd, d, to + 2 * kPlane + x);
    }
  }
  for (int y = 0; y < kFrameHeight; ++y) {
    uint8_t* to = out + 4 * kPlane + static_cast<size_t>(y) * kFrameWidth;
    std::copy_n(p.u.data + static_cast<ptrdiff_t>(y) * p.u.stride, kFrameWidth, to);
    std::copy_n(p.v.data + static_cast<ptrdiff_t>(y) * p.v.stride, kFrameWidth, to + kPlane);
  }
}

void DriverFrame(const Plane& plane, const FloatWarp& warp, Sampling sampling, const uint8_t* border, uint8_t* out) {
  const uint8_t value = border ? *border : 0;
  if (sampling == Sampling::bilinear) {
    if (border) driver_frame<true, true>(plane, warp, value, out);
    else driver_frame<true, false>(plane, warp, value, out);
  } else {
    if (border) driver_frame<false, true>(plane, warp, value, out);
    else driver_frame<false, false>(plane, warp, value, out);
  }
}

}  // namespace
}  // namespace sparkpilot::drive::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sparkpilot::drive {

HWY_EXPORT(DrivingFrame);
HWY_EXPORT(DriverFrame);
HWY_EXPORT(PackFrame);

void prepare_frame(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::span<uint8_t> out) {
  const Planes planes = checked_planes(picture, out.size(), kFrameBytes);
  // Pairs of neighbours need two columns and two rows of chroma.
  if (planes.u.width < 2 || planes.u.height < 2) return prepare_frame_reference(picture, warp, sampling, out);
  const FloatWarp luma = float_warp(warp);
  HWY_DYNAMIC_DISPATCH(DrivingFrame)(planes, luma, chroma_warp(luma, sampling), sampling, out.data());
}

void pack_frame(const YuvView& picture, std::span<uint8_t> out) {
  const Planes planes = checked_planes(picture, out.size(), kFrameBytes);
  if (planes.y.width != kModelWidth || planes.y.height != kModelHeight) {
    fail("a picture of {} x {} cannot be packed: expected {} x {}", planes.y.width, planes.y.height, kModelWidth,
         kModelHeight);
  }
  HWY_DYNAMIC_DISPATCH(PackFrame)(planes, out.data());
}

void prepare_driver_frame(const YuvView& picture, const Matrix3& warp, Sampling sampling, std::optional<uint8_t> border,
                          std::span<uint8_t> out) {
  const Planes planes = checked_planes(picture, out.size(), kDriverFrameBytes);
  HWY_DYNAMIC_DISPATCH(DriverFrame)(planes.y, float_warp(warp), sampling, border ? &*border : nullptr, out.data());
}

}  // namespace sparkpilot::drive
#endif  // HWY_ONCE
