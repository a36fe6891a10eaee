// The graph (sparkpilot/graph.h), for code that dispatches over its element types.
#pragma once

#include "sparkpilot/graph.h"
#include "tensor/tensor.h"
