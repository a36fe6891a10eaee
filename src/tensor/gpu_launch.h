// How a kernel is launched: blocks, threads, dynamic shared memory.
#pragma once

#include <cstddef>

namespace sparkpilot {

struct GpuLaunch {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned threads = 128;  // of a block, whole warps
  size_t shared_bytes = 0;
};

}  // namespace sparkpilot
