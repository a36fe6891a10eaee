// Rows of ellipses and noise by vectors, against plain code, on each instruction set.
#include "route/synth/blob.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "route/contract/test_targets.h"

namespace sparkpilot::drive::synth {
namespace {

uint8_t mixed(uint8_t under, float over, float weight) {
  const float was = static_cast<float>(under), now = was + weight * (over - was) + 0.5F;
  return static_cast<uint8_t>(std::fmin(std::fmax(now, 0.0F), 255.0F));
}

// As BlobRow says, sample by sample.
void paint_plainly(const BlobRow& row, const Noise& noise, int level) {
  for (int i = row.from; i < row.to; ++i) {
    const float dx = static_cast<float>(i) * row.scale + row.shift - row.middle, u = dx * row.by_x;
    float edge = row.above - u * u, cover = edge, colour = row.colour;
    if (row.map) {
      const float grain = noise.at(dx * row.texel + row.noise_x, row.noise_y, level, level);
      edge += 0.9F * grain;
      cover = 0.5F + edge * row.soft;
      colour += row.rough * grain;
    }
    const float weight = std::fmin(std::fmax(cover, 0.0F), 1.0F) * row.alpha;
    row.samples[i] = mixed(row.samples[i], colour, weight);
    if (row.second) row.second[i] = mixed(row.second[i], row.other, weight);
  }
}

TEST(SynthBlob, RowsAreThoseOfPlainCode) {
  const Noise noise(7, 0.85F);
  constexpr int kWidth = 80;
  for_each_target([&] {
    for (int from = 0; from < 20; ++from) {
      for (int count = 0; count < 40; count += 3) {
        for (const bool rough : {false, true}) {
          std::vector<uint8_t> first(kWidth), second(kWidth, 99);
          for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<uint8_t>(37 * i);
          std::vector<uint8_t> expected[2] = {first, second};
          BlobRow row;
          row.from = from, row.to = from + count, row.scale = rough ? 2 : 1, row.shift = rough ? 0.5F : 0;
          row.middle = 31.3F, row.by_x = 1 / 25.0F, row.above = 0.8F;
          row.colour = 201.7F, row.other = 140.2F, row.alpha = 0.9F;
          const int level = from % 3;
          if (rough) {
            row.map = &noise.map(level, level);
            row.texel = 2.7F, row.noise_x = 11, row.noise_y = -8, row.soft = 3.1F, row.rough = 34;
          }
          row.samples = expected[0].data(), row.second = count % 2 ? expected[1].data() : nullptr;
          paint_plainly(row, noise, level);
          row.samples = first.data(), row.second = count % 2 ? second.data() : nullptr;
          paint_blob_row(row);
          ASSERT_EQ(first, expected[0]) << from << " " << count << " " << rough;
          ASSERT_EQ(second, expected[1]) << from << " " << count << " " << rough;
        }
      }
    }
  });
}

}  // namespace
}  // namespace sparkpilot::drive::synth
