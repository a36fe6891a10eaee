// Samples and summaries as JSON, CSV and text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "monitor/summary.h"

namespace sparkpilot::monitor {

// `time` is of the wall clock, such as "2026-03-01T12:00:00.250Z". Keys carry their unit; what is not known is null.
nlohmann::ordered_json to_json(const Sample& sample, const std::string& time);
nlohmann::ordered_json to_json(const Summary& summary);

// One row a sample. The columns are those of the first sample; what comes later has none, what goes leaves its empty.
class Csv {
 public:
  explicit Csv(const Sample& first);
  std::string heading() const;  // ends in a newline, as do rows
  std::string row(const Sample& sample, const std::string& time) const;

 private:
  std::vector<std::string> columns_;
};

// For people: every quantity under its device's name, what is not known as n/a, and the first `processes` of them.
std::string to_text(const Sample& sample, size_t processes);

}  // namespace sparkpilot::monitor
