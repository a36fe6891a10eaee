// Shapes: see sparkpilot/tensor.h.
#pragma once

#include "base/error.h"
#include "sparkpilot/tensor.h"
