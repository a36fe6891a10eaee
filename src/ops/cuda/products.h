// Kernels of matrix products: their arguments, and the launches that they want.
#pragma once

#include <cstdint>

#include "ops/cuda/epilogue.h"
#include "ops/cuda/gemv.h"
#include "ops/cuda/launch.h"

namespace sparkpilot::cuda {}  // namespace sparkpilot::cuda
