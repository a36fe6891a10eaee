// What each family's launch functions return.
#pragma once

#include "tensor/gpu_launch.h"

namespace sparkpilot::cuda {

using KernelLaunch = GpuLaunch;

}  // namespace sparkpilot::cuda
