// The arguments of CUDA kernels, for the host and for the kernels themselves. Each kernel takes one of these by value.
#pragma once

#include <cstdint>

namespace sparkpilot::cuda {

// A kernel of words.cu: one block of 64 threads, see words.inc.
struct WordArguments {
  const void* in;
  void* out;
};

}  // namespace sparkpilot::cuda
