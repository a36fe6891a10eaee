// The planes of a picture, and the checks that prepare_frame and its reference share.
#pragma once

#include <cstddef>

#include "route/contract/image.h"

namespace sparkpilot::drive {

struct Plane {
  const uint8_t* data;
  int width, height, stride;
};

// The three planes of a picture; fails (user) for a picture that prepare_frame does not allow, and if the output has
// `bytes` bytes instead of `expected`.
struct Planes {
  Plane y, u, v;
};
Planes checked_planes(const YuvView& picture, size_t bytes, size_t expected);

}  // namespace sparkpilot::drive
