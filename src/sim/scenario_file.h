// Scenarios from tables: a course over time as CSV, which others may have written.
//
// Columns, in any order, with their headings in the first line (docs/simulation.md):
//   time_s (or t)                                                       ascending
//   speed_m_per_s (or vEgo)                                             asked for
//   curvature_per_m, or lateral_acceleration_m_per_s2 (or targetLateralAcceleration)    left positive
//   roll_rad (or roll)                                                  optional
//   lead_speed_m_per_s, lead_gap_m                                      optional: cars ahead (CourseTable)
// aEgo and steerCommand of the controls challenge are passed over, other headings are refused.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario.h"

namespace sparkpilot::sim {

// A scenario of category "file", named after the file and its contents, without bounds: it fails where it diverges. Its
// variants start aside of the middle of the lane. Fails (user) naming file, line and column: missing columns, what is
// no number, times that do not ascend, no rows, more than an hour, and values whose unit must be another one.
Scenario read_scenario(const std::filesystem::path& file);
// The scenario of a file, or those of all F.csv of a folder, by name. Fails (user) on a folder that has none.
std::vector<Scenario> read_scenarios(const std::filesystem::path& file_or_folder);
// The same from text; `name` is the file's in errors.
Scenario parse_scenario(std::string_view text, const std::string& name);

}  // namespace sparkpilot::sim
