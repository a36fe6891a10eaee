// Finds the first node whose result differs, between two runs of models whose values have the same names.
//
// The nodes are searched in the order of the first model's file. After a node, the values that later nodes still read
// are compared; if none of them differs the fault comes later, if one does it is here or before. So each step needs one
// run of both, which keeps those values only. A difference that later nodes undo entirely is not found.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compare/variant.h"
#include "ir/graph.h"
#include "tensor/difference.h"

namespace sparkpilot::compare {

// One side: runs the model on a sample and returns the outputs, and of the values in `keep` those that it has, by name.
using Values = std::map<std::string, Tensor, std::less<>>;
struct Side {
  std::set<std::string, std::less<>> names;  // of the values that it can keep
  std::function<Values(const std::set<std::string, std::less<>>& keep, size_t sample)> run;
};

// Sessions of the variant on these samples, which must outlive it.
Side side_of(const Variant& variant, const Samples& samples);

struct BisectOptions {
  // The limit of a value's relative L2; NaN or infinity on one side only is beyond any. Empty: 1e-4, or a quarter of
  // the outputs' own difference if that is less.
  std::optional<double> max_relative_l2 = {};
  // A value with no element that differs by more than this counts as the same, whatever its relative L2: for engines
  // that compute, say, the sigmoid of -35 as 0 or as 1e-8.
  double rounding = 0;
  size_t samples = 1;                                    // searched on the first one for which an output differs
  std::function<void(int run, int runs)> progress = {};  // `runs` is the largest possible number
};

struct Fault {
  std::string value;               // the first that differs
  std::vector<std::string> nodes;  // of the file: the one that computes it, and those fused with it
  Difference difference;
  // The two shapes, ours first, where they are not the same; nothing else is compared then.
  std::optional<std::pair<Shape, Shape>> shapes = {};
  std::optional<std::string> before = {};  // the last value before it that was compared; empty for the first
};

struct Bisection {
  std::optional<Fault> fault;  // none: no output differs by more than the limit
  double max_relative_l2 = 0;  // the limit
  // Of both sides: one for each sample up to `sample`, then at most log2(values), rounded up. More if a value that a
  // side named is not there when it runs, as with shapes that depend on data.
  int runs = 0;
  size_t sample = 0;  // the one with the fault
  size_t values = 0;  // that were searched
};

// `file`: the first model's graph, as its file has it, with the outputs that are computed. Fails (user) if no output is
// in both, in the same shape.
Bisection bisect(const Graph& file, const Side& got, const Side& expected, const BisectOptions& options = {});

}  // namespace sparkpilot::compare
