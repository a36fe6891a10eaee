// A row of an ellipse with a soft, rough edge.
#pragma once

#include <cstdint>

#include "route/synth/noise.h"

namespace sparkpilot::drive::synth {

struct BlobRow {
  uint8_t* samples = nullptr;  // of one plane, from the row's beginning
  uint8_t* second = nullptr;   // of another plane, of the same places; or none
  int from = 0, to = 0;        // the samples [from, to)
  float scale = 1, shift = 0;  // sample i lies at i * scale + shift
  float middle = 0, by_x = 1;  // of the ellipse: its middle, and one by its half axis
  float above = 0;             // 1 - v^2 for the row's height v in half axes
  float colour = 0, other = 0, alpha = 1;
  // Noise moves the edge and is added to `samples`' colour, `rough` times. Without a map there is none.
  const Noise::Level* map = nullptr;
  float texel = 1, noise_x = 0, noise_y = 0, soft = 1, rough = 0;
};

// The same bits on every processor.
void paint_blob_row(const BlobRow& row);

}  // namespace sparkpilot::drive::synth
