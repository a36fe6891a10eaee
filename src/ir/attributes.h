// Attributes of nodes: see sparkpilot/graph.h.
#pragma once

#include "sparkpilot/graph.h"
#include "tensor/tensor.h"
