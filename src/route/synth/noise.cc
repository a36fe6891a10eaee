#include "route/synth/noise.h"

#include <algorithm>
#include <cstddef>

#include "route/synth/maths.h"

namespace sparkpilot::drive::synth {
namespace {

constexpr int kSize = Noise::kSize;

float lattice(uint32_t seed, int octave, int x, int y) {
  const int cells = kSize >> octave;
  const uint32_t word = hash(static_cast<uint32_t>(x & (cells - 1)), static_cast<uint32_t>(y & (cells - 1)),
                             seed * 16 + static_cast<uint32_t>(octave));
  return static_cast<float>(word >> 8) * (2.0F / 16777216) - 1;
}

// Value noise whose cells are 2^octave texels wide.
float smooth(uint32_t seed, int octave, int x, int y) {
  if (octave == 0) return lattice(seed, 0, x, y);
  const int cell = 1 << octave;
  const float u = static_cast<float>(x & (cell - 1)) / static_cast<float>(cell);
  const float v = static_cast<float>(y & (cell - 1)) / static_cast<float>(cell);
  const float su = u * u * (3 - 2 * u), sv = v * v * (3 - 2 * v);
  const int cx = x >> octave, cy = y >> octave;
  const float top = lattice(seed, octave, cx, cy) * (1 - su) + lattice(seed, octave, cx + 1, cy) * su;
  const float bottom = lattice(seed, octave, cx, cy + 1) * (1 - su) + lattice(seed, octave, cx + 1, cy + 1) * su;
  return top * (1 - sv) + bottom * sv;
}

}  // namespace

Noise::Noise(uint32_t seed, float rough) {
  // Sides of 256, 128, ... 1, and one more: the sum of all pairs.
  texels_.resize(static_cast<size_t>(2 * kSize - 1 + kLevels) * (2 * kSize - 1 + kLevels) + sizeof(int32_t));
  std::vector<std::vector<float>> across(kLevels);
  std::vector<float> base(static_cast<size_t>(kSize) * kSize);
  for (int y = 0; y < kSize; ++y) {
    for (int x = 0; x < kSize; ++x) {
      float sum = 0, weight = 1;
      for (int octave = 6; octave >= 0; --octave, weight *= 0.4F + 0.6F * rough)
        sum += weight * smooth(seed, octave, x, y);
      base[static_cast<size_t>(y) * kSize + static_cast<size_t>(x)] = clamped(sum * (1 - 0.6F * rough), -1.0F, 1.0F);
    }
  }
  int8_t* at = texels_.data();
  for (int lx = 0; lx < kLevels; ++lx) {
    const auto width = static_cast<size_t>(kSize >> lx);
    std::vector<float> rows = base;
    for (int ly = 0; ly < kLevels; ++ly) {
      const auto height = static_cast<size_t>(kSize >> ly);
      levels_[lx][ly] = {at,
                         1.0F / static_cast<float>(1 << lx),
                         1.0F / static_cast<float>(1 << ly),
                         static_cast<int>(width) - 1,
                         static_cast<int>(height) - 1,
                         static_cast<int>(width) + 1};
      for (size_t y = 0; y <= height; ++y) {
        for (size_t x = 0; x <= width; ++x) *at++ = static_cast<int8_t>(rows[y % height * width + x % width] * 127);
      }
      for (size_t y = 0; y + 1 < height; y += 2) {
        for (size_t x = 0; x < width; ++x) {
          rows[y / 2 * width + x] = 0.5F * (rows[y * width + x] + rows[(y + 1) * width + x]);
        }
      }
    }
    for (size_t i = 0; i + 1 < width * kSize; i += 2) base[i / 2] = 0.5F * (base[i] + base[i + 1]);
  }
}

}  // namespace sparkpilot::drive::synth
