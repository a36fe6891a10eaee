// The planes of a picture, and the checks that prepare_frame and its reference share.
#pragma once

#include <cstddef>

#include "route/contract/image.h"

namespace sparkpilot::drive {

struct Plane {
  const uint8_t* data;
  int width, height, stride;
};

// The three planes of a picture that the contract allows; fails (user) for another, and for `bytes` of output where
// `expected` are needed.
struct Planes {
  Plane y, u, v;
};
Planes checked_planes(const YuvView& picture, size_t bytes, size_t expected);

}  // namespace sparkpilot::drive
