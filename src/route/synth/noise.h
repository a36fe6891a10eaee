// A square of periodic noise, averaged in advance over every power of two of texels along each axis: what a pixel sees
// of rough ground, at any angle.
#pragma once

#include <cstdint>
#include <vector>

namespace sparkpilot::drive::synth {

class Noise {
 public:
  static constexpr int kLevels = 9, kSize = 1 << (kLevels - 1);  // 256 texels a side

  // `rough` is the weight of the finest grain relative to the coarser ones, 0 to 1.
  Noise(uint32_t seed, float rough);

  // The level whose texels are as long as `texels` finest ones.
  static int level(float texels) {
    int level = 0;
    while (level + 1 < kLevels && texels > 1.5F) texels *= 0.5F, ++level;
    return level;
  }
  // Between -1 and 1, bilinear, at (x, y) in finest texels, averaged to the levels along x and y.
  float at(float x, float y, int level_x, int level_y) const {
    const Level& map = levels_[level_x][level_y];
    const float fx = x * map.scale_x, fy = y * map.scale_y;
    const int ix = static_cast<int>(fx) - (fx < 0), iy = static_cast<int>(fy) - (fy < 0);
    const float u = fx - static_cast<float>(ix), v = fy - static_cast<float>(iy);
    const int x0 = ix & map.mask_x, x1 = (ix + 1) & map.mask_x;
    const int8_t* row0 = map.texels + ((iy & map.mask_y) << map.shift);
    const int8_t* row1 = map.texels + (((iy + 1) & map.mask_y) << map.shift);
    const float top = static_cast<float>(row0[x0]) + u * static_cast<float>(row0[x1] - row0[x0]);
    const float bottom = static_cast<float>(row1[x0]) + u * static_cast<float>(row1[x1] - row1[x0]);
    return (top + v * (bottom - top)) * (1.0F / 127);
  }

 private:
  struct Level {
    const int8_t* texels;
    float scale_x, scale_y;
    int mask_x, mask_y, shift;
  };
  std::vector<int8_t> texels_;
  Level levels_[kLevels][kLevels];
};

}  // namespace sparkpilot::drive::synth
