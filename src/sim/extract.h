// Stretches of a recorded drive as courses: the curvature that the car drove, its speed, the road's roll and the cars
// ahead, as `sim run --file` reads them (sim/scenario_file.h).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "route/log/car_signals.h"
#include "sim/world.h"

namespace sparkpilot::sim {

// Of what kind a stretch is: curve (a lateral acceleration of 0.6 m/s^2 or more for 2 s), lane_change (as openpilot's
// model has it), stop (from 5 m/s or more to a standstill), lead (the gap to the car ahead closes by 1 m/s or more for
// 2 s); piece: one length after the other.
std::span<const std::string_view> course_kinds();

struct ExtractOptions {
  std::vector<std::string> kinds = {"curve", "lane_change", "stop", "lead"};
  double piece_seconds = 20;  // 4 to 600
};

struct ExtractedCourse {
  std::string kind;
  double begin = 0, seconds = 0;  // begin: after the first carState
  CourseTable table;              // at 20 Hz, from 0
  struct LeadAt {
    double gap, speed;  // m, m/s
  };
  std::optional<LeadAt> lead_first, lead_last;  // the car ahead at the beginning and the end, within 100 m
  int64_t leads = 0;                            // cars ahead that the table has, one after the other
  // The most by which the gap that follows from the table's speeds is off the recorded one, m; of a course with leads.
  std::optional<double> lead_gap_error;
};

struct Extraction {
  std::vector<ExtractedCourse> courses;  // by begin
  double seconds = 0;                    // of the drive
  // Of those, what no course may hold, by the first reason of these that fits.
  double bad_seconds = 0;         // no valid carState or yaw rate, backwards, or numbers that no course may have
  double overridden_seconds = 0;  // openpilot is engaged, and the driver steers, brakes or accelerates
  double standstill_seconds = 0;
  int64_t too_short = 0;  // stretches of which less than 4 s are left
};

// Fails (user) on a kind that there is not, and on a length beyond its bounds.
Extraction extract_courses(const drive::CarSignals& signals, const ExtractOptions& options = {});

// "curve_0123.4s.csv", and its contents; columns of cars ahead only where there is one.
std::string course_file_name(const ExtractedCourse& course);
std::string course_csv(const CourseTable& table);

}  // namespace sparkpilot::sim
