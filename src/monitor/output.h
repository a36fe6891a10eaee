// Samples and summaries as JSON, CSV and text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "monitor/summary.h"

namespace sparkpilot::monitor {

// `time` is of the wall clock, such as "2026-03-01T12:00:00.250Z". Keys carry their unit; unknown values are null.
nlohmann::ordered_json to_json(const Sample& sample, const std::string& time);
nlohmann::ordered_json to_json(const Summary& summary);

// One row per sample. The columns are those of the first sample; devices added later have none, those of removed
// devices stay empty.
class Csv {
 public:
  explicit Csv(const Sample& first);
  std::string heading() const;  // ends in a newline, as do rows
  std::string row(const Sample& sample, const std::string& time) const;

 private:
  std::vector<std::string> columns_;
};

// For people: every quantity under its device's name, n/a if unknown, and the first `processes` processes.
std::string to_text(const Sample& sample, size_t processes);

}  // namespace sparkpilot::monitor
