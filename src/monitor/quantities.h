// Every number of a sample by name and unit: the one list from which CSV, JSON, summaries and metrics are made.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "monitor/sample.h"

namespace sparkpilot::monitor {

enum class Unit { percent, megahertz, watts, joules, celsius, bytes, bytes_per_second, count };

struct Quantity {
  std::string_view group;  // "gpu", "cpu", "memory" ...
  std::string instance;    // "0", "nvme0n1"; empty if a machine has only one. Letters, digits, - _ . :
  std::string_view name;   // "utilization"
  Unit unit = Unit::count;
  std::string_view help;
  std::optional<double> value;
  bool fixed = false;  // a size or a limit: it does not change with the work

  std::string key() const;     // "utilization_percent"
  std::string column() const;  // "gpu.0.utilization_percent"
};

// In a stable order: the lists of two samples of one machine differ only if a device was added or removed.
std::vector<Quantity> quantities(const Sample& sample);

// "_percent", "_mhz", "_w" ...; empty for a count.
std::string_view unit_suffix(Unit unit);
// "43 %", "2411 MHz", "11.2 GiB", "1.31 MB/s"; "n/a".
std::string human(Unit unit, std::optional<double> value);

}  // namespace sparkpilot::monitor
