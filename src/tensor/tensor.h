// Tensors (sparkpilot/tensor.h) with what kernels need besides: dispatch over element types.
#pragma once

#include "sparkpilot/tensor.h"
#include "tensor/dtype.h"
