// Measurements as JSON, with stable snake_case keys that carry their units.
#pragma once

#include <nlohmann/json.hpp>

#include "bench/model_bench.h"

namespace sparkpilot {

// What was not measured is null. `profile` is there only where it was asked for.
nlohmann::ordered_json to_json(const ModelBench& bench, const std::string& precision);
nlohmann::ordered_json to_json(const Profile& profile);
nlohmann::ordered_json to_json(const Peak& peak);  // without what was not measured

// A node of a profile summed over all nodes of the same op and kernel, the longest first.
struct OpTime {
  std::string op, kernel;
  int nodes = 0;
  double mean_ms = 0;  // of one run
  double share = 0;    // of the run
};
std::vector<OpTime> times_by_op(const Profile& profile);

// Why kernels that come first did not take nodes: the nodes with the same answer together, the longest first.
struct DeclinedNodes {
  std::string op, kernel, declined, reason;  // `kernel` took them in its stead
  int nodes = 0;
  double mean_ms = 0;  // of one run
};
std::vector<DeclinedNodes> declined_kernels(const Profile& profile);

}  // namespace sparkpilot
