// Tensors (sparkpilot/tensor.h), and dispatch over element types for kernels.
#pragma once

#include "sparkpilot/tensor.h"
#include "tensor/dtype.h"
