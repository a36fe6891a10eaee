// What a result on a GPU holds for.
#pragma once

#include <string>

#include "tensor/gpu.h"

namespace sparkpilot {

// "NVIDIA GB10, 12.1, CUDA 13.0, 0.1.0, 9a3c...": the GPU, the CUDA version of its driver, this program's version and
// its GPU code. Printable.
std::string gpu_key(const GpuFacts& gpu);

// One line of at most 300 printable characters.
std::string shortened(std::string text);

}  // namespace sparkpilot
