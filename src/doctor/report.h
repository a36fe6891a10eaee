// A diagnosis in words.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/doctor.h"
#include "doctor/verify.h"

namespace sparkpilot {

// What the machine is, in a few lines: "NVIDIA DGX Spark, 20 cores (10 Cortex-X925, 10 Cortex-A725), 119.7 GiB".
std::vector<std::string> describe(const Machine& machine);

struct ReportOptions {
  bool all = false;  // also the checks that found no fault
  int columns = 0;   // prose is wrapped to fit, commands never are; 0: no wrapping
  // How words are emphasised: an impact's name, a heading. By default plain.
  std::function<std::string(std::string_view text, std::string_view style)> paint =
      [](std::string_view text, std::string_view) { return std::string(text); };
};
std::string report_text(const Diagnosis& diagnosis, const ReportOptions& options);
// One line per GPU; if none was reached, one that says that nothing was verified, and why.
std::string verification_text(const Verifications& verified);

nlohmann::json report_json(const Diagnosis& diagnosis);
// `outcome`: "right", "wrong" or "nothing_verified".
nlohmann::json verification_json(const Verifications& verified);

// docs/doctor.md, from the table of checks.
std::string checks_markdown();

}  // namespace sparkpilot
