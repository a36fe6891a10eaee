// The table of figures that a simulated world is judged by.
#pragma once

#include <span>
#include <string_view>

namespace sparkpilot::sim {

struct Metric {
  std::string_view name, unit;
  bool less_is_better;
  std::string_view meaning;
};

// Every figure that a run can have; a run names its own (RunInfo::metrics).
std::span<const Metric> all_metrics();
// Null if the name is unknown.
const Metric* find_metric(std::string_view name);

}  // namespace sparkpilot::sim
