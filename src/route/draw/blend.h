// Blends drawn pixels over a picture. Included only by layer.cc.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sparkpilot::drive {

// Two rows of a picture and the row of chroma between them.
struct YuvRows {
  uint8_t *above, *below, *u, *v;
};

// `above`, `below`: `count` pixels each, an even number, in Cairo's ARGB32 (colours hold their alpha). A pixel of zeros
// does not change the picture. The same bytes on every processor.
void blend_rows(const uint32_t* above, const uint32_t* below, size_t count, const YuvRows& out);

}  // namespace sparkpilot::drive
