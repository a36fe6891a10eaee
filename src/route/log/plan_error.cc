#include "route/log/plan_error.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <unordered_map>

#include "base/statistics.h"

namespace sparkpilot::drive {
namespace {

constexpr double kMinSpeed = 1;  // m/s; at lower speeds the curvature is noise

// The slope at point i of the parabola through it and its neighbours; at the ends, of the line to the only neighbour.
double slope(const std::vector<float>& t, const std::vector<float>& values, size_t i) {
  const auto line = [&](size_t k) { return (double{values[k + 1]} - values[k]) / (double{t[k + 1]} - t[k]); };
  if (i == 0) return line(0);
  if (i + 1 == t.size()) return line(i - 1);
  const double before = double{t[i]} - t[i - 1], after = double{t[i + 1]} - t[i];
  return (line(i - 1) * after + line(i) * before) / (before + after);
}

using Records = std::map<uint32_t, const ModelRecord*>;
using Times = std::unordered_map<uint32_t, uint64_t>;

void fill(std::optional<PlanError> (&errors)[kHorizons], const Records& records, const FrameResult& frame,
          const Times& index, const DrivenPath& path) {
  const auto record = records.find(frame.frame_id);
  if (record == records.end()) return;
  uint64_t time = record->second->timestamp_eof;
  if (const auto indexed = index.find(frame.frame_id); time == 0 && indexed != index.end()) time = indexed->second;
  if (time == 0) return;
  for (size_t h = 0; h < kHorizons; ++h) {
    if (const auto error = plan_error(*record->second, time, path, kHorizonSeconds[h])) errors[h] = error;
  }
}

void add_curvature(FrameResult& frame, const Times& index, const DrivenPath& path) {
  const auto time = index.find(frame.frame_id);
  if (time == index.end()) return;
  const auto motion = path.motion(time->second);
  if (motion && motion->speed >= kMinSpeed)
    frame.driven_curvature = static_cast<float>(motion->yaw_rate / motion->speed);
}

}  // namespace

float PlanError::distance() const { return std::hypot(along, across); }

// Linear interpolation between points half a second apart would be off by centimetres in bends.
std::optional<double> interpolate(const std::vector<float>& t, const std::vector<float>& values, double at) {
  if (t.size() != values.size() || t.size() < 2) return {};
  for (size_t i = 0; i < t.size(); ++i) {
    if (!std::isfinite(t[i]) || (i > 0 && !(t[i] > t[i - 1]))) return {};
  }
  if (!(at >= t.front() && at <= t.back())) return {};
  const auto after = std::upper_bound(t.begin() + 1, t.end() - 1, static_cast<float>(at));
  const auto i = static_cast<size_t>(after - t.begin()) - 1;
  const double width = double{t[i + 1]} - t[i], s = (at - t[i]) / width;
  const double out = (1 + 2 * s) * (1 - s) * (1 - s) * values[i] + s * s * (3 - 2 * s) * values[i + 1] +
                     width * s * (1 - s) * ((1 - s) * slope(t, values, i) - s * slope(t, values, i + 1));
  return std::isfinite(out) ? std::optional(out) : std::nullopt;
}

std::optional<PlanError> plan_error(const ModelRecord& plan, uint64_t time, const DrivenPath& path, double horizon) {
  const auto x = interpolate(plan.position.t, plan.position.x, horizon);
  const auto y = interpolate(plan.position.t, plan.position.y, horizon);
  const auto yaw = interpolate(plan.orientation.t, plan.orientation.z, horizon);
  if (!x || !y || !yaw) return {};
  const auto car = path.ahead(time, horizon);
  if (!car) return {};
  const double turn = std::remainder(*yaw - car->orientation[2], 2 * std::numbers::pi);
  return PlanError{static_cast<float>(*x - car->position[0]), static_cast<float>(*y - car->position[1]),
                   static_cast<float>(turn * 180 / std::numbers::pi)};
}

std::optional<PlanError> plan_error(const ModelRecord& plan, const DrivenPath& path, double horizon) {
  return plan_error(plan, plan.timestamp_eof, path, horizon);
}

void add_plan_errors(std::vector<FrameResult>& frames, std::span<const ModelRecord> ours,
                     std::span<const ModelRecord> recorded, const Timeline& timeline,
                     const std::optional<DrivenPath>& path) {
  if (!path) return;
  const Records our_plans = by_frame(ours), recorded_plans = by_frame(recorded);
  Times index;
  for (const auto* plans : {&our_plans, &recorded_plans}) {
    for (const auto& [id, record] : *plans) {
      if (record->timestamp_eof) index[id] = record->timestamp_eof;
    }
  }
  for (const IndexedFrame& frame : timeline.road) index[frame.frame_id] = frame.timestamp_eof;
  for (FrameResult& frame : frames) {
    if (!frame.first) fill(frame.errors, our_plans, frame, index, *path);
    fill(frame.recorded_errors, recorded_plans, frame, index, *path);
    add_curvature(frame, index, *path);
  }
}

std::array<PlanErrorSummary, kHorizons> summarize_errors(std::span<const FrameResult> frames, bool recorded) {
  std::array<PlanErrorSummary, kHorizons> out;
  for (size_t h = 0; h < kHorizons; ++h) {
    std::vector<double> distance, along, across, across_abs, heading;
    for (const FrameResult& frame : frames) {
      const auto& error = (recorded ? frame.recorded_errors : frame.errors)[h];
      if (!error || !std::isfinite(error->distance())) continue;
      distance.push_back(error->distance());
      along.push_back(error->along);
      across.push_back(error->across);
      across_abs.push_back(std::abs(error->across));
      heading.push_back(std::abs(error->heading_deg));
    }
    out[h].horizon = kHorizonSeconds[h];
    out[h].count = static_cast<int64_t>(distance.size());
    if (distance.empty()) continue;
    const Statistics d = summarize(distance);
    out[h].distance_mean = d.mean, out[h].distance_median = d.p50, out[h].distance_p90 = d.p90;
    out[h].along_mean = summarize(along).mean, out[h].across_mean = summarize(across).mean;
    out[h].across_abs_mean = summarize(across_abs).mean, out[h].heading_abs_mean_deg = summarize(heading).mean;
  }
  return out;
}

}  // namespace sparkpilot::drive
