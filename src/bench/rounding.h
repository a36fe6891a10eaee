// What rounding alone does to what a network computes, found by computing it with rounding errors added.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/graph.h"

namespace sparkpilot {

// How large the added errors are, relative to the value: `single` for values of 32 bits and more, `half` and `brain`
// for f16 and bf16.
struct RoundingErrors {
  double single = 0x1p-20, half = 0x1p-9, brain = 0x1p-6;  // sixteen, four and four roundings of their types
};

// The graph's outputs by the plain kernels, with every float that comes in, or that a node computes, multiplied by 1 +
// e, e random and at most the size given. Whole numbers stay: they are counts, masks and clipped values, which are
// exact. Norms are taken apart, so that the error of a mean meets the values that it is subtracted from. Bodies of If,
// Loop and Scan are computed without errors. The errors depend on the seed only; states begin as the graph has them.
std::vector<Tensor> run_with_errors(const Graph& graph, std::span<const Tensor> inputs, const RoundingErrors& errors,
                                    uint64_t seed);

// How far results are from those of the reference, as a share of the reference's L2 norm.
struct Distance {
  double relative_l2 = 0;  // infinite where one side has NaN or an infinity and the other has not the same
  double rounding = 0;     // the largest relative L2 distance of the runs with errors
  bool explained = false;  // whether rounding does as much
};

// The distance of `got` from `expected`, and whether errors like those of `disturbed`, the same output with errors
// added, explain it: whether it is at most four times what they do. Elements that are finite in one of those runs and
// not, or not the same NaN or infinity, in another depend on rounding, and are left out then. Where types or shapes
// differ nothing explains it.
Distance distance_of(const Tensor& got, const Tensor& expected, std::span<const Tensor> disturbed);

}  // namespace sparkpilot
