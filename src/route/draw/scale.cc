#include "route/draw/scale.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"

namespace sparkpilot::drive {
namespace {

constexpr int kOne = 256;

void check(const char* what, int width, int height) {
  if (width < 2 || height < 2 || width % 2 || height % 2) {
    fail("{} of {}x{} pixels, expected positive even sizes", what, width, height);
  }
}

// Weight of input pixel i in an output pixel: the area covered, or the coefficient of the interpolation.
double share(int i, double ratio, int output) {
  const double low = output * ratio, high = low + ratio;
  if (ratio >= 1) return std::max(0.0, std::min(high, i + 1.0) - std::max(low, static_cast<double>(i)));
  return std::max(0.0, 1 - std::abs((output + 0.5) * ratio - 0.5 - i));
}

// Loops of a fixed length, which compilers vectorise.
constexpr int kLanes = 32;

void add_row(uint16_t* __restrict sums, const uint8_t* __restrict line, uint16_t weight, int count) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) sums[i + k] = static_cast<uint16_t>(sums[i + k] + weight * line[i + k]);
  }
  for (; i < count; ++i) sums[i] = static_cast<uint16_t>(sums[i] + weight * line[i]);
}

uint8_t mean(const uint8_t* above, const uint8_t* below) {
  return static_cast<uint8_t>((above[0] + above[1] + below[0] + below[1] + 2) / 4);
}

// Half the size, as most overlays have: the same result as with weights, but faster.
void halve_rows(const uint8_t* __restrict above, const uint8_t* __restrict below, uint8_t* __restrict out, int count) {
  int i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int k = 0; k < kLanes; ++k) out[i + k] = mean(above + 2 * (i + k), below + 2 * (i + k));
  }
  for (; i < count; ++i) out[i] = mean(above + 2 * i, below + 2 * i);
}

}  // namespace

void Scaler::prepare(Axis& axis, int from, int to) {
  if (axis.from == from && axis.to == to) return;
  const double ratio = static_cast<double>(from) / to;
  axis = {from, to, std::min(from, static_cast<int>(std::ceil(ratio)) + 1), {}, {}};
  std::vector<double> shares(static_cast<size_t>(axis.taps));
  for (int o = 0; o < to; ++o) {
    const double first = ratio >= 1 ? o * ratio : (o + 0.5) * ratio - 0.5;
    const int begin = std::clamp(static_cast<int>(std::floor(first)), 0, from - axis.taps);
    double sum = 0;
    for (int t = 0; t < axis.taps; ++t) sum += shares[static_cast<size_t>(t)] = share(begin + t, ratio, o);
    // The largest weight absorbs the rounding error, so that a flat picture stays unchanged.
    int left = kOne;
    const size_t at = axis.weights.size();
    for (double s : shares) {
      const int weight = static_cast<int>(std::lround(kOne * s / sum));
      axis.weights.push_back(static_cast<uint16_t>(weight));
      left -= weight;
    }
    const auto largest = std::max_element(axis.weights.begin() + static_cast<ptrdiff_t>(at), axis.weights.end());
    *largest = static_cast<uint16_t>(*largest + left);
    axis.begin.push_back(begin);
  }
}

void Scaler::resample_row(const uint16_t* sums, const Axis& x, uint8_t* out) {
  for (int o = 0; o < x.to; ++o) {
    const uint16_t* across = &x.weights[static_cast<size_t>(o) * static_cast<size_t>(x.taps)];
    const uint16_t* in = sums + x.begin[static_cast<size_t>(o)];
    uint32_t sum = kOne * kOne / 2;
    for (int t = 0; t < x.taps; ++t) sum += static_cast<uint32_t>(across[t]) * in[t];
    out[o] = static_cast<uint8_t>(sum / (kOne * kOne));
  }
}

void Scaler::plane(const uint8_t* from, int stride, const Axis& x, const Axis& y, uint8_t* to) {
  if (x.from == x.to && y.from == y.to) {
    for (int row = 0; row < y.to; ++row) {
      std::memcpy(to + static_cast<ptrdiff_t>(row) * x.to, from + static_cast<ptrdiff_t>(row) * stride,
                  static_cast<size_t>(x.to));
    }
    return;
  }
  if (x.from == 2 * x.to && y.from == 2 * y.to) {
    for (ptrdiff_t row = 0; row < y.to; ++row) {
      const uint8_t* above = from + 2 * row * stride;
      halve_rows(above, above + stride, to + row * x.to, x.to);
    }
    return;
  }
  row_.resize(static_cast<size_t>(x.from));
  for (int row = 0; row < y.to; ++row) {
    const uint16_t* down = &y.weights[static_cast<size_t>(row) * static_cast<size_t>(y.taps)];
    std::fill(row_.begin(), row_.end(), uint16_t{0});
    for (int t = 0; t < y.taps; ++t) {
      const ptrdiff_t line = y.begin[static_cast<size_t>(row)] + t;
      if (down[t] != 0) add_row(row_.data(), from + line * stride, down[t], x.from);
    }
    resample_row(row_.data(), x, to + static_cast<ptrdiff_t>(row) * x.to);
  }
}

void Scaler::scale(const YuvView& from, YuvImage& to) {
  check("a picture", from.width, from.height);
  check("an output picture", to.width(), to.height());
  prepare(x_, from.width, to.width());
  prepare(y_, from.height, to.height());
  prepare(uv_x_, from.width / 2, to.width() / 2);
  prepare(uv_y_, from.height / 2, to.height() / 2);
  plane(from.y, from.y_stride, x_, y_, to.y());
  plane(from.u, from.uv_stride, uv_x_, uv_y_, to.u());
  plane(from.v, from.uv_stride, uv_x_, uv_y_, to.v());
}

}  // namespace sparkpilot::drive
