// Two models' outputs on the same frames, in a driver's terms: metres, centimetres, decisions.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "route/log/model_record.h"
#include "route/log/plan_error.h"
#include "route/log/route.h"

namespace sparkpilot::compare {

// A quantity whose difference is taken frame by frame.
struct Term {
  std::string name, unit;      // "plan at 6 s", "m"
  int64_t frames = 0;          // in which both have it; the numbers below are absent if it is 0
  int64_t only_reference = 0;  // in which only the reference has it: ours is missing, broken or not a number
  std::optional<double> mean = {}, p99 = {}, max = {};  // of the absolute difference
  uint32_t worst_frame = 0;                             // frame id of the largest
};

// A decision, and the frames in which the two decide differently.
struct Decision {
  std::string name;    // "lead"
  int64_t frames = 0;  // in which both decide
  std::vector<uint32_t> flips = {};
};

// One frame that both have.
struct FrameTerms {
  uint32_t frame_id = 0;
  std::vector<std::optional<double>> values;  // of `terms`, in their order
  bool flipped = false;                       // any decision
};

struct DrivingTerms {
  int64_t frames = 0, only_ours = 0, only_reference = 0;
  std::vector<Term> terms;
  std::vector<Decision> decisions;
  std::vector<FrameTerms> by_frame;  // by frame id
};

// Aligned by frame id; of several messages of a frame the last counts.
//   plan at 1, 2, 4, 6 s     distance between the plans' positions (x, y), m
//   lane lines               mean over the points up to 30 m ahead of |difference of y|, cm; left and right line, where
//                            the reference gives it a probability of at least 0.5
//   curvature, acceleration  of the action, 1/m and m/s2
//   lead distance, speed     of the first lead, now, where both give it at least 0.5, m and m/s
//   desire                   the likeliest desire state; lead, engaged: a probability of at least 0.5; stop: shouldStop
DrivingTerms driving_terms(std::span<const drive::ModelRecord> ours, std::span<const drive::ModelRecord> reference);

// The frames whose plans are furthest apart, at the latest time to which both reach, the worst first: at most `count`,
// of different seconds.
std::vector<FrameTerms> worst_moments(const DrivingTerms& terms, size_t count);

// A finished drive, or a log.
struct Drive {
  std::string name;                               // as it was given
  std::string route;                              // empty for a log
  std::vector<std::filesystem::path> recordings;  // folders of the segments that were driven, as far as known
  std::vector<drive::ModelRecord> models;
  std::vector<drive::DriverRecord> drivers = {};
  std::vector<drive::FrameResult> frames = {};  // of its segment.json files
};

// Each drive's plan against the path that was driven, at each horizon over the frames in which all drives have an error
// there that have one in any.
using AgainstDrive = std::array<drive::PlanErrorSummary, drive::kHorizons>;
std::vector<AgainstDrive> against_drive(std::span<const Drive* const> drives);

// Which segments of a drive's folder are read.
struct Only {
  std::string run = {};                 // those of this run (SegmentResult::run); empty: of any
  const drive::Route* route = nullptr;  // those with numbers of its segments, if the folder has any; null: all
};

// Segments that could not be driven are passed over: a log there is an earlier run's. `note` gets a line for each
// damaged log, and one if segments are of different runs. Fails (user) if there is nothing, or no modelV2 in it.
Drive read_drive(const std::filesystem::path& from, const std::function<void(const std::string&)>& note,
                 const Only& only = {});

// What the device recorded, from the route's logs; the same errors.
Drive read_recorded(const drive::Route& route, const std::function<void(const std::string&)>& note);

}  // namespace sparkpilot::compare
