// Whether a merged model computes what base and adapter compute side by side.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "adapters/adapter.h"

namespace sparkpilot {

// Relative L2 errors of one output in fp32, on seeded random inputs; of several samples the largest.
struct MergedOutput {
  std::string name;
  double change = 0;    // of the merged model against the base: what the adapter does
  double error = 0;     // of the merged model against the base with the adapter as nodes
  double rounding = 0;  // of the merged model against one whose merged weights were not rounded to the base's type
  // Within 1e-5, or 1.5 times what rounding the weights costs.
  bool equal() const;
};

// `base` as load_onnx() gave it, `merged` after merge_adapters() with the adapter alone. Open dimensions become 1.
std::vector<MergedOutput> check_merge(const Graph& base, const Graph& merged, const Adapter& adapter, int threads,
                                      uint64_t seed);

}  // namespace sparkpilot
