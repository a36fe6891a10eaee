// Measurements as JSON, with stable snake_case keys that carry their units.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "bench/model_bench.h"

namespace sparkpilot {

// Null for NaN and infinity, which JSON does not have.
nlohmann::ordered_json finite_or_null(double value);

// Values that were not measured are null. `profile` exists only if requested.
nlohmann::ordered_json to_json(const ModelBench& bench, const BenchOptions& options);
nlohmann::ordered_json to_json(const Profile& profile);
nlohmann::ordered_json to_json(std::span<const LaunchProfile> launches);
nlohmann::ordered_json to_json(const GpuFigures& gpu);  // without its limits' peak
nlohmann::ordered_json to_json(std::span<const KernelDecision> choices);
nlohmann::ordered_json to_json(const Ratio& ratio);
nlohmann::ordered_json to_json(const Peak& peak);  // without values that were not measured

// Times summed over all nodes of the same op and kernel, the longest first.
struct OpTime {
  std::string op, kernel;
  int nodes = 0;
  double mean_ms = 0;  // of one run
  double share = 0;    // of the run
};
std::vector<OpTime> times_by_op(const Profile& profile);

// Why earlier kernels did not accept nodes: nodes with the same reason together, the longest first.
struct DeclinedNodes {
  std::string op, kernel, declined, reason;  // `kernel` was used instead
  int nodes = 0;
  double mean_ms = 0;  // of one run
};
std::vector<DeclinedNodes> declined_kernels(const Profile& profile);

}  // namespace sparkpilot
