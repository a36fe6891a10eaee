// The report of a run: summary.json for programs, summary.html for people.
#pragma once

#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "drive/drive.h"
#include "route/log/model_record.h"
#include "route/log/plan_error.h"

namespace sparkpilot::drive {

// The run compared with another one, as a line and as JSON.
struct ReferenceReport {
  std::string name;  // of the other one
  bool same = true;  // within all tolerances
  std::string verdict;
  std::string page;                                          // file next to the summary with the whole comparison
  std::shared_ptr<const nlohmann::ordered_json> comparison;  // for summary.json
};

struct DriveReport {
  std::string route, out;
  std::string device, machine, version;
  std::optional<std::string> precision = {};  // of the models, if any
  DriveResult result;                         // all processes' segments, by number
  int processes = 1;
  bool realtime = false;
  std::vector<std::string> notes;  // of the route
  std::optional<ReferenceReport> reference = {};
};

// The plan against the driven path over all frames, at each horizon.
std::array<PlanErrorSummary, kHorizons> fit_of(const std::vector<SegmentResult>& segments, bool recorded);

struct DriveTotals {
  int64_t frames = 0, dropped = 0, late = 0, recorded_models = 0, recorded_drawn = 0;
  double segment_seconds = 0, frames_per_second = 0;  // of the pipelines, summed over all processes
  StageTimes stages;
  bool complete = true;
};
DriveTotals totals_of(const DriveResult& result);

// Sets where each network ran to what the segments say, and returns where all of them did: "cuda:0", or "cuda:0, cpu"
// where networks or segments differ; "cpu" without any. A network stays as it is if no segment was driven with it.
std::string settle_devices(DriveResult& result);

// Milliseconds of the networks, one value per frame.
std::vector<double> latencies(const std::vector<SegmentResult>& segments);

nlohmann::ordered_json summary_json(const DriveReport& report);
std::string summary_html(const DriveReport& report);

// Writes both into the run's folder.
void write_report(const DriveReport& report);

// The segments of a run (DriveResult::run) from its folders' segment.json, whichever processes drove them.
std::vector<SegmentResult> collect_segments(const Route& route, const std::filesystem::path& out,
                                            const std::string& run);

// Leaves out of another run's records those that `ours` lacks since a run with these options is not asked for them:
// frames before the route's first one, and those behind the limit. Reads the logs of the route if there are such.
void leave_out_unasked(const Route& route, const DriveOptions& options, std::span<const ModelRecord> ours,
                       std::vector<ModelRecord>& reference);

}  // namespace sparkpilot::drive
