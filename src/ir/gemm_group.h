// What sparkpilot::GemmGroup may hold: the pass that makes it, the op and its kernels keep to it.
#pragma once

namespace sparkpilot {

constexpr int kMostGroupedProducts = 16;
constexpr int kMostGroupedSteps = 3;  // in the epilogue of each product

}  // namespace sparkpilot
