// The effect of rounding on a network's results, measured by adding rounding errors.
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

// The graph's outputs by the plain kernels, with every float that is an input, or that a node computes, multiplied by 1
// + e, e random and at most the given size. Whole numbers are not changed: they are counts, masks and clipped values,
// which are exact. Norms are split into simpler ops, so that a mean gets an error before it is subtracted. Bodies of
// If, Loop and Scan are computed without errors. The errors depend on the seed only; states begin with their initial
// contents.
std::vector<Tensor> run_with_errors(const Graph& graph, std::span<const Tensor> inputs, const RoundingErrors& errors,
                                    uint64_t seed);

// The distance of results from the reference, as a share of the reference's L2 norm.
struct Distance {
  double relative_l2 = 0;  // infinite if one side has NaN or an infinity and the other not the same
  double rounding = 0;     // the largest relative L2 distance of the runs with errors
  bool explained = false;  // whether rounding explains it
};

// The distance of `got` from `expected`, and whether errors like those of `disturbed`, the same output with errors
// added, explain it: whether it is at most four times their effect. Elements that are finite in one of those runs but
// not in another, or differ in NaN or infinity, depend on rounding and are left out. If types or shapes differ, nothing
// explains it.
Distance distance_of(const Tensor& got, const Tensor& expected, std::span<const Tensor> disturbed);

}  // namespace sparkpilot
