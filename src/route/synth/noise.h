// A square of periodic noise, averaged in advance over every power of two of texels along each axis: what a pixel sees
// of rough ground, at any angle.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace sparkpilot::drive::synth {

class Noise {
 public:
  static constexpr int kLevels = 9, kSize = 1 << (kLevels - 1);  // 256 texels a side

  // `rough` is the weight of the finest grain relative to the coarser ones, 0 to 1.
  Noise(uint32_t seed, float rough);
  Noise(const Noise&) = delete;
  Noise& operator=(const Noise&) = delete;

  // The level whose texels are as long as `texels` finest ones: of 1.5 times a power of two the exponent, rounded up.
  static int level(float texels) {
    const auto rounded = static_cast<int>((std::bit_cast<uint32_t>(std::fabs(texels)) + 0x3fffff) >> 23) - 127;
    return rounded < 0 ? 0 : rounded < kLevels ? rounded : kLevels - 1;
  }
  // Between -1 and 1, bilinear, at (x, y) in finest texels, averaged to the levels along x and y.
  float at(float x, float y, int level_x, int level_y) const {
    const Level& map = levels_[level_x][level_y];
    const float fx = x * map.scale_x, fy = y * map.scale_y;
    const float whole_x = std::floor(fx), whole_y = std::floor(fy), u = fx - whole_x, v = fy - whole_y;
    const int ix = static_cast<int>(whole_x), iy = static_cast<int>(whole_y);
    const int8_t* row0 = map.texels + ((iy & map.mask_y) * map.stride + (ix & map.mask_x));
    const int8_t* row1 = row0 + map.stride;
    const float top = static_cast<float>(row0[0]) + u * static_cast<float>(row0[1] - row0[0]);
    const float bottom = static_cast<float>(row1[0]) + u * static_cast<float>(row1[1] - row1[0]);
    return (top + v * (bottom - top)) * (1.0F / 127);
  }

  // Its first column and its first row are there again behind the last ones, so that a texel's neighbours are always
  // next to it; four bytes may be read at each texel.
  struct Level {
    const int8_t* texels;
    float scale_x, scale_y;
    int mask_x, mask_y, stride;
  };
  const Level& map(int level_x, int level_y) const { return levels_[level_x][level_y]; }

 private:
  std::vector<int8_t> texels_;
  Level levels_[kLevels][kLevels];
};

}  // namespace sparkpilot::drive::synth
