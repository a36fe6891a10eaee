// The part of `sparkpilot compare` that compares finished drives.
#pragma once

#include <atomic>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/command.h"
#include "compare/driving.h"

namespace sparkpilot::cli {

// Whether a path is a drive's folder or a log, not a model.
bool is_drive(const std::string& path);

// What makes a comparison a check.
struct DriveLimits {
  double max_plan_error = 0;  // of the plans' distance in 99 % of the frames, at each horizon, m; 0: none
};

// What is written.
struct DriveOutput {
  std::filesystem::path folder = {};                 // for compare.html; empty: nothing is written
  bool video = false;                                // the film, too
  std::vector<std::vector<std::string>> speed = {};  // ComparisonPage::speed
  const std::atomic<bool>* stop = nullptr;           // ends the drawing
};

// Reports the differences of the others from the first; returns the exit code.
int compare_drives(const Program& program, const std::vector<std::string>& paths, const DriveLimits& limits,
                   const DriveOutput& out);

// Rows as a table, the first of them the headings; empty for none.
std::string text_of(const std::vector<std::vector<std::string>>& rows);

// The same for drives that were read. With --json what it finds is added to `document`.
int report_drives(const Program& program, const std::vector<compare::Drive>& drives, const DriveLimits& limits,
                  const DriveOutput& out, nlohmann::ordered_json document);

}  // namespace sparkpilot::cli
