// The part of `sparkpilot compare` that compares finished drives.
#pragma once

#include <atomic>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "compare/page.h"

namespace sparkpilot::cli {

// Whether a path is a drive's folder or a log, not a model.
bool is_drive(const std::string& path);

inline constexpr const char* kComparisonPage = "compare.html";

// What makes a comparison a check.
struct DriveLimits {
  std::optional<double> max_plan_error = {};     // of the plans' distance in 99 % of the frames, at each horizon, m
  std::optional<drive::Tolerances> fields = {};  // of every field of the messages; empty: they are not compared
};

// What is written.
struct DriveOutput {
  std::filesystem::path folder = {};  // for compare.html; empty: nothing is written
  bool video = false;                 // the film, too
  std::vector<std::string> notes = {};
  std::vector<std::vector<std::string>> speed = {};  // ComparisonPage::speed
  const std::atomic<bool>* stop = nullptr;           // ends the drawing; the page is written without it
};

// Reports the differences of the others from the first; returns the exit code.
int compare_drives(const Program& program, const std::vector<std::string>& paths, const DriveLimits& limits,
                   const DriveOutput& out);

// Whether two drives' routes, each "dongle|log", the log alone, or empty if unknown, may be the same.
bool same_route(const std::string& a, const std::string& b);

// Flags that compare every field of the messages.
struct FieldFlags {
  bool fields = false;
  std::string tolerances;
  double scale = 1;
};
void add_tolerance_flags(Command command, FieldFlags& flags);
// Empty if none is given. Fails (user) naming the flag or the file.
std::optional<drive::Tolerances> tolerances_of(const FieldFlags& flags);

// Rows as a table, the first of them the headings; empty for none.
std::string text_of(const std::vector<std::vector<std::string>>& rows);

// The comparison of drives that were read, the first of which is what the others are compared with. The page holds
// pointers to them. Fails (user) if they are of different routes.
compare::ComparisonPage compare_read(const std::vector<compare::Drive>& drives, const DriveLimits& limits);
nlohmann::ordered_json to_json(const compare::ComparisonPage& page);
void print_comparison(const compare::ComparisonPage& page);
// Draws what is to be drawn and writes kComparisonPage.
void write_page(const Program& program, compare::ComparisonPage& page, const DriveOutput& out);

// All of these, with --json in one document with `more`; returns the exit code.
int report_drives(const Program& program, const std::vector<compare::Drive>& drives, const DriveLimits& limits,
                  const DriveOutput& out, nlohmann::ordered_json more);

}  // namespace sparkpilot::cli
