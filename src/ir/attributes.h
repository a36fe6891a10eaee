// Attributes of nodes: see sparkpilot/graph.h.
#pragma once

#include <functional>

#include "sparkpilot/graph.h"
#include "tensor/tensor.h"

namespace sparkpilot {

// Gives `change` a copy of each body (If, Loop, Scan); where it returns true the copy takes the body's place.
void rewrite_bodies(Attributes& attrs, const std::function<bool(Graph&)>& change);

}  // namespace sparkpilot
