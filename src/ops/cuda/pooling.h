// Kernels of pooling: their arguments, and the launches that they want. <type> is f32, f16 or bf16.
//   pool_<type>                 N, H, W, C in pieces of 16 bytes of channels
//   pool_any_<type>             either layout, any number of channels
//   global_pool_<type>          N, H, W, C in pieces of 16 bytes of channels
//   global_pool_any_<type>      N, H, W, C, any number of channels
//   global_pool_planes_<type>   N, C, H, W
// The largest of a window with NaN is NaN.
#pragma once

#include <cstdint>
#include <string>

#include "ops/cuda/epilogue.h"
#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {

struct PoolArguments {
  const void* x;
  void* y;
  bool channels_first = false, average = false;  // average false: the largest
  // Average: whether padding counts. What lies beyond it, in a last window of ceil_mode, never does.
  bool count_padding = false;
  int batch = 1, height = 1, width = 1, channels = 1, out_height = 1, out_width = 1;
  int kernel_height = 1, kernel_width = 1, stride_height = 1, stride_width = 1;
  int dilation_height = 1, dilation_width = 1;
  int pad_top = 0, pad_left = 0, pad_bottom = 0, pad_right = 0;
};
// Whether pool_<type> and global_pool_<type> take it: channels last, in whole pieces of 16 bytes.
bool pool_pieces_accepts(const PoolArguments& arguments, Storage storage);
// Without type: "pool", ...; the fastest that takes it.
std::string pool_kernel(const PoolArguments& arguments, Storage storage);
KernelLaunch pool_launch(const PoolArguments& arguments, Storage storage);

// The mean or the largest over all pixels of each plane: y [batch, channels]. Only the image's sizes, channels_first
// and average are read.
std::string global_pool_kernel(const PoolArguments& arguments, Storage storage);
KernelLaunch global_pool_launch(const PoolArguments& arguments, Storage storage);

}  // namespace sparkpilot::cuda
