// Values computed again where they are read late, instead of being kept: less memory for more time.
//
// The forward half of a graph is what its outputs need, all else is its backward half: what only the next values of
// states need, as gradients are. A value of the forward half that the backward half reads is kept from one to the
// other, or a copy of the nodes that compute it runs again before it is first read there. Copies have the same op,
// attributes and inputs, so they compute the same bits; random numbers are drawn by the same key and counter.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace sparkpilot {

struct Recomputation {
  // What values that nodes compute take at the step that holds the most, by the rules of a plan, without gaps between
  // them, results and scratch.
  int64_t bytes = 0;
  int nodes = 0;     // that run a second time; views are not counted
  double share = 0;  // of the work of all nodes before, by the measure with which nodes were chosen
};

// Changes the graph so that it takes at most `bytes`, with as little to compute again as is found; if that cannot be
// reached, with the fewest bytes that are found. For a graph that was lowered, in which nothing is merged afterwards,
// and whose shapes are all known; impure nodes and those with bodies run once.
//
// What is kept is chosen after Chen et al. (2016, arXiv 1604.06174): the forward half is cut into segments, all that
// crosses a cut is kept, and within segments what costs much for its bytes. Many lengths of segments and limits of that
// cost are tried against the graph's order, then the best are improved value by value.
Recomputation recompute(Graph& graph, int64_t bytes);

}  // namespace sparkpilot
