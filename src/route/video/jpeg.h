// A single picture as JPEG, through FFmpeg's encoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "route/contract/image.h"

namespace sparkpilot::drive {

// The picture is interpreted as full-range BT.601, as JPEG requires. `quality`: the quantizer, from 2 (best) to 31
// (smallest). Fails (user) if the picture has no even, positive size or FFmpeg has no JPEG encoder. The same picture
// gives the same bytes.
std::vector<uint8_t> encode_jpeg(const YuvView& picture, int quality = 4);

}  // namespace sparkpilot::drive
