#include "compare/driving.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/statistics.h"
#include "drive/segment_result.h"
#include "route/log/model_compare.h"
#include "route/log/recording.h"
#include "route/log/route.h"

namespace sparkpilot::compare {
namespace {

namespace fs = std::filesystem;
using drive::ModelRecord;

constexpr float kLikely = 0.5F;
constexpr float kLaneReach = 30;  // m
constexpr size_t kLeftLine = 1, kRightLine = 2;

// --- what is measured: the absolute difference of a frame; empty if one side does not have it, or it is not a number
using Measure = std::function<std::optional<double>(const ModelRecord& ours, const ModelRecord& reference)>;

std::optional<double> plan_distance(const ModelRecord& a, const ModelRecord& b, double seconds) {
  const auto ax = drive::interpolate(a.position.t, a.position.x, seconds);
  const auto ay = drive::interpolate(a.position.t, a.position.y, seconds);
  const auto bx = drive::interpolate(b.position.t, b.position.x, seconds);
  const auto by = drive::interpolate(b.position.t, b.position.y, seconds);
  if (!ax || !ay || !bx || !by) return {};
  return std::hypot(*ax - *bx, *ay - *by);
}

std::optional<double> lane_distance(const ModelRecord& ours, const ModelRecord& reference, size_t line) {
  if (line >= ours.lane_lines.size() || line >= reference.lane_lines.size()) return {};
  if (line >= reference.lane_line_probs.size() || !(reference.lane_line_probs[line] >= kLikely)) return {};
  const drive::Polyline &a = ours.lane_lines[line], &b = reference.lane_lines[line];
  if (a.y.size() != b.y.size() || b.x.size() != b.y.size()) return {};
  double sum = 0;
  int64_t points = 0;
  for (size_t i = 0; i < b.y.size(); ++i) {
    if (!(b.x[i] <= kLaneReach)) continue;
    sum += std::abs(double{a.y[i]} - b.y[i]);
    ++points;
  }
  return points > 0 ? std::optional(100 * sum / static_cast<double>(points)) : std::nullopt;
}

bool has_lead(const ModelRecord& record) {
  return !record.leads.empty() && record.leads[0].prob >= kLikely && !record.leads[0].x.empty() &&
         !record.leads[0].v.empty();
}

std::optional<double> of_lead(const ModelRecord& a, const ModelRecord& b, std::vector<float> drive::LeadRecord::*what) {
  if (!has_lead(a) || !has_lead(b)) return {};
  return std::abs(double{(a.leads[0].*what)[0]} - (b.leads[0].*what)[0]);
}

std::optional<double> of_action(const ModelRecord& a, const ModelRecord& b, float drive::ActionRecord::*what) {
  if (!a.action || !b.action) return {};
  return std::abs(double{(*a.action).*what} - (*b.action).*what);
}

struct NamedMeasure {
  std::string name, unit;
  Measure of;
};

std::vector<NamedMeasure> all_measures() {
  std::vector<NamedMeasure> out;
  for (const double seconds : drive::kHorizonSeconds) {
    out.push_back({fmt::format("plan at {:.0f} s", seconds), "m",
                   [seconds](const auto& a, const auto& b) { return plan_distance(a, b, seconds); }});
  }
  out.push_back({"left lane line", "cm", [](const auto& a, const auto& b) { return lane_distance(a, b, kLeftLine); }});
  out.push_back(
      {"right lane line", "cm", [](const auto& a, const auto& b) { return lane_distance(a, b, kRightLine); }});
  out.push_back({"curvature", "1/m",
                 [](const auto& a, const auto& b) { return of_action(a, b, &drive::ActionRecord::curvature); }});
  out.push_back({"acceleration", "m/s2",
                 [](const auto& a, const auto& b) { return of_action(a, b, &drive::ActionRecord::acceleration); }});
  out.push_back(
      {"lead distance", "m", [](const auto& a, const auto& b) { return of_lead(a, b, &drive::LeadRecord::x); }});
  out.push_back(
      {"lead speed", "m/s", [](const auto& a, const auto& b) { return of_lead(a, b, &drive::LeadRecord::v); }});
  return out;
}

// --- what is decided; empty if the record does not say
using Decide = std::optional<int64_t> (*)(const ModelRecord& record);

struct NamedDecision {
  const char* name;
  Decide of;
};

constexpr NamedDecision kDecisions[] = {
    {"desire",
     [](const ModelRecord& r) -> std::optional<int64_t> {
       if (r.desire_state.empty()) return {};
       return std::max_element(r.desire_state.begin(), r.desire_state.end()) - r.desire_state.begin();
     }},
    {"lead",
     [](const ModelRecord& r) -> std::optional<int64_t> {
       if (r.leads.empty()) return {};
       return r.leads[0].prob >= kLikely ? 1 : 0;
     }},
    {"engaged", [](const ModelRecord& r) -> std::optional<int64_t> { return r.engaged_prob >= kLikely ? 1 : 0; }},
    {"stop",
     [](const ModelRecord& r) -> std::optional<int64_t> {
       if (!r.action) return {};
       return r.action->should_stop ? 1 : 0;
     }},
};

}  // namespace

DrivingTerms driving_terms(std::span<const ModelRecord> ours, std::span<const ModelRecord> reference) {
  const auto mine = drive::by_frame(ours), its = drive::by_frame(reference);
  std::vector<std::pair<const ModelRecord*, const ModelRecord*>> both;
  for (const auto& [id, record] : mine) {
    if (const auto found = its.find(id); found != its.end()) both.emplace_back(record, found->second);
  }
  DrivingTerms out;
  out.frames = std::ssize(both);
  out.only_ours = std::ssize(mine) - out.frames;
  out.only_reference = std::ssize(its) - out.frames;
  for (const auto& [a, b] : both) out.by_frame.push_back({.frame_id = a->frame_id, .values = {}});
  for (const NamedMeasure& measure : all_measures()) {
    Term term{.name = measure.name, .unit = measure.unit};
    std::vector<double> values;
    for (size_t i = 0; i < both.size(); ++i) {
      const auto& [a, b] = both[i];
      std::optional<double> value = measure.of(*a, *b);
      if (value && std::isnan(*value)) value.reset();
      out.by_frame[i].values.push_back(value);
      if (!value) {
        const std::optional<double> own = measure.of(*b, *b);
        term.only_reference += own && !std::isnan(*own) ? 1 : 0;
        continue;
      }
      if (values.empty() || *value > *term.max) {
        term.max = *value;
        term.worst_frame = a->frame_id;
      }
      values.push_back(*value);
    }
    term.frames = std::ssize(values);
    if (term.frames > 0) {
      const Statistics statistics = summarize(values);
      term.mean = statistics.mean;
      term.p99 = statistics.p99;
    }
    out.terms.push_back(std::move(term));
  }
  for (const NamedDecision& decision : kDecisions) {
    Decision row{.name = decision.name};
    for (size_t i = 0; i < both.size(); ++i) {
      const auto x = decision.of(*both[i].first), y = decision.of(*both[i].second);
      if (!x || !y) continue;
      ++row.frames;
      if (*x == *y) continue;
      row.flips.push_back(out.by_frame[i].frame_id);
      out.by_frame[i].flipped = true;
    }
    out.decisions.push_back(std::move(row));
  }
  return out;
}

std::vector<FrameTerms> worst_moments(const DrivingTerms& terms, size_t count) {
  std::vector<std::pair<double, const FrameTerms*>> distances;
  for (const FrameTerms& frame : terms.by_frame) {
    for (size_t h = drive::kHorizons; h-- > 0;) {
      if (!frame.values[h]) continue;
      distances.emplace_back(*frame.values[h], &frame);
      break;
    }
  }
  std::stable_sort(distances.begin(), distances.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  constexpr int64_t kSecond = 20;  // frames
  std::vector<FrameTerms> out;
  for (const auto& [distance, frame] : distances) {
    if (out.size() == count || distance == 0) break;
    const uint32_t id = frame->frame_id;
    const bool near = std::any_of(out.begin(), out.end(), [&](const FrameTerms& other) {
      return std::abs(int64_t{other.frame_id} - int64_t{id}) < kSecond;
    });
    if (!near) out.push_back(*frame);
  }
  return out;
}

namespace {

void add_log(Drive& drive, const fs::path& log, const std::function<void(const std::string&)>& note) {
  std::vector<std::string> notes;
  const std::vector<ModelRecord> models = drive::read_models(log, &notes);
  drive.models.insert(drive.models.end(), models.begin(), models.end());
  const std::vector<drive::DriverRecord> drivers = drive::read_drivers(log);
  drive.drivers.insert(drive.drivers.end(), drivers.begin(), drivers.end());
  if (note) std::for_each(notes.begin(), notes.end(), note);
}

// The folder's segments whose numbers segments of `wanted` have; all if it is null or no number agrees.
std::vector<const drive::Segment*> segments_of(const drive::Route& folder, const drive::Route* wanted) {
  std::vector<const drive::Segment*> all, some;
  for (const drive::Segment& segment : folder.segments) {
    all.push_back(&segment);
    if (wanted != nullptr && std::any_of(wanted->segments.begin(), wanted->segments.end(),
                                         [&](const auto& other) { return other.number == segment.number; }))
      some.push_back(&segment);
  }
  return some.empty() ? all : some;
}

}  // namespace

Drive read_recorded(const drive::Route& route, const std::function<void(const std::string&)>& note) {
  Drive out{.name = "recorded", .route = route.name, .recordings = {}, .models = {}};
  for (const drive::Segment& segment : route.segments) {
    out.recordings.push_back(segment.folder);
    if (!route.log(segment).empty()) add_log(out, route.log(segment), note);
  }
  if (out.models.empty()) fail("recorded: the route's logs hold no modelV2");
  return out;
}

std::vector<AgainstDrive> against_drive(std::span<const Drive* const> drives) {
  std::vector<std::vector<drive::FrameResult>> frames;
  for (const Drive* drive : drives) frames.push_back(drive->frames);
  for (size_t h = 0; h < drive::kHorizons; ++h) {
    std::map<uint32_t, size_t> drives_with;  // an error, by frame
    size_t judged = 0;
    for (const auto& one : frames) {
      std::set<uint32_t> ids;
      for (const drive::FrameResult& frame : one) {
        if (frame.errors[h]) ids.insert(frame.frame_id);
      }
      for (const uint32_t id : ids) ++drives_with[id];
      judged += !ids.empty();
    }
    for (auto& one : frames) {
      for (drive::FrameResult& frame : one) {
        if (frame.errors[h] && drives_with[frame.frame_id] < judged) frame.errors[h].reset();
      }
    }
  }
  std::vector<AgainstDrive> out;
  for (const auto& one : frames) out.push_back(drive::summarize_errors(one, false));
  return out;
}

Drive read_drive(const fs::path& from, const std::function<void(const std::string&)>& note, const Only& only) {
  if (!fs::exists(from)) fail("{}: no such file or folder", from.string());
  Drive out{.name = from.string(), .route = {}, .recordings = {}, .models = {}};
  if (fs::is_directory(from)) {
    const drive::Route route = drive::find_route(from.string());
    out.route = route.name;
    std::set<std::string> runs;
    for (const drive::Segment* segment : segments_of(route, only.route)) {
      const fs::path file = segment->folder / drive::kResultFile, &log = route.log(*segment);
      if (fs::exists(file)) {
        const drive::SegmentResult result = drive::segment_result_from(read_file(file), file);
        if (result.left_out || (!only.run.empty() && result.run != only.run)) continue;
        runs.insert(result.run);
        if (!result.log.empty()) out.recordings.push_back(fs::absolute(result.log).parent_path());
        out.frames.insert(out.frames.end(), result.frames.begin(), result.frames.end());
      } else {
        if (!only.run.empty()) continue;
        out.recordings.push_back(segment->folder);
      }
      if (!log.empty()) add_log(out, log, note);
    }
    if (note && runs.size() > 1) note(fmt::format("{}: segments of different runs", from.string()));
  } else {
    add_log(out, from, note);
  }
  if (out.models.empty()) fail("{}: holds no modelV2", from.string());
  return out;
}

}  // namespace sparkpilot::compare
