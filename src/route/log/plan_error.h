// Does the model fit the drive? Compares a plan with the path that the car then drove.
//
// The driver's path is not ground truth: a plan may differ from it and be right (another speed, another lane). Means
// over many frames characterise a model and its calibration; a single frame shows where to look.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "route/frame_result.h"
#include "route/log/driven_path.h"
#include "route/log/model_record.h"

namespace sparkpilot::drive {

// `values` at `at`, on the cubic through their points; empty outside `t` or if the lists cannot be used (unequal
// lengths, times that do not rise, NaN nearby).
std::optional<double> interpolate(const std::vector<float>& t, const std::vector<float>& values, double at);

// The plan's position and heading `horizon` seconds after `time` (ns: the end of the plan's frame), minus those of the
// car. Empty if the plan does not reach that far (its lists of unequal lengths, times that do not rise, NaN) or the
// path does not.
std::optional<PlanError> plan_error(const ModelRecord& plan, uint64_t time, const DrivenPath& path, double horizon);
// The same at the plan's own timestamp_eof.
std::optional<PlanError> plan_error(const ModelRecord& plan, const DrivenPath& path, double horizon);

// Fills errors, recorded_errors and driven_curvature (yaw rate over speed, above 1 m/s) of `frames`, aligned with the
// records by frame_id. A record without timestamp_eof takes the time of the log's index. Values that cannot be
// determined are not changed, nor are the errors of a drive's first frames.
void add_plan_errors(std::vector<FrameResult>& frames, std::span<const ModelRecord> ours,
                     std::span<const ModelRecord> recorded, const Timeline& timeline,
                     const std::optional<DrivenPath>& path);

// A column of errors at one horizon.
struct PlanErrorSummary {
  double horizon = 0;  // s
  int64_t count = 0;   // frames; the numbers below are absent if it is 0
  std::optional<double> distance_mean = {}, distance_median = {}, distance_p90 = {};  // m
  std::optional<double> along_mean = {}, across_mean = {};                            // m, with their signs
  std::optional<double> across_abs_mean = {}, heading_abs_mean_deg = {};
};

std::array<PlanErrorSummary, kHorizons> summarize_errors(std::span<const FrameResult> frames, bool recorded);

}  // namespace sparkpilot::drive
