#include "drive/report.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/json.h"
#include "base/statistics.h"
#include "drive/segment_run.h"
#include "drive/warm_up.h"
#include "route/log/recording.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

// A stage that took no time did not run.
Json measured(double ms) { return ms > 0 ? Json(ms) : Json(); }

Json latency_json(const std::vector<double>& ms) {
  const Statistics s = summarize(ms);
  return {{"count", s.count},          {"mean_ms", measured(s.mean)}, {"p50_ms", measured(s.p50)},
          {"p90_ms", measured(s.p90)}, {"p99_ms", measured(s.p99)},   {"max_ms", measured(s.max)}};
}

Json stages_json(const StageTimes& stages) {
  return {{"decode_road_ms", measured(stages.decode_road_ms)},
          {"decode_wide_ms", measured(stages.decode_wide_ms)},
          {"infer_ms", measured(stages.infer_ms)},
          {"write_ms", measured(stages.write_ms)}};
}

}  // namespace

std::string settle_devices(DriveResult& result) {
  const auto add = [](std::vector<std::string>& to, const std::string& device) {
    if (std::find(to.begin(), to.end(), device) == to.end()) to.push_back(device);
  };
  std::vector<std::string> all;
  for (auto& network : result.networks) {
    std::vector<std::string> own;
    for (const SegmentResult& segment : result.segments) {
      if (const auto at = segment.devices.find(network.role); at != segment.devices.end()) add(own, at->second);
    }
    if (own.empty()) own.push_back(network.device);
    for (const std::string& device : own) add(all, device);
    network.device = fmt::format("{}", fmt::join(own, ", "));
  }
  return all.empty() ? "cpu" : fmt::format("{}", fmt::join(all, ", "));
}

std::vector<double> latencies(const std::vector<SegmentResult>& segments) {
  std::vector<double> ms;
  for (const SegmentResult& segment : segments) {
    for (const FrameResult& frame : segment.frames) {
      if (frame.vision_ms > 0)
        ms.push_back(static_cast<double>(frame.vision_ms) + static_cast<double>(frame.policy_ms));
    }
  }
  return ms;
}

std::array<PlanErrorSummary, kHorizons> fit_of(const std::vector<SegmentResult>& segments, bool recorded) {
  std::vector<FrameResult> frames;
  for (const SegmentResult& segment : segments)
    frames.insert(frames.end(), segment.frames.begin(), segment.frames.end());
  return summarize_errors(frames, recorded);
}

DriveTotals totals_of(const DriveResult& result) {
  DriveTotals t;
  double decode_road = 0, decode_wide = 0, infer = 0, write = 0;
  for (const SegmentResult& segment : result.segments) {
    const auto frames = static_cast<double>(segment.frames.size());
    t.frames += std::ssize(segment.frames);
    t.segment_seconds += segment.seconds;
    t.dropped += segment.dropped;
    t.recorded_models += segment.recorded_models;
    t.recorded_drawn += segment.recorded_drawn;
    t.complete = t.complete && segment.complete;
    for (const FrameResult& frame : segment.frames) t.late += frame.late_ms > 0;
    decode_road += frames * segment.stages.decode_road_ms;
    decode_wide += frames * segment.stages.decode_wide_ms;
    infer += frames * segment.stages.infer_ms;
    write += frames * segment.stages.write_ms;
  }
  const double frames = std::max<double>(1, static_cast<double>(t.frames));
  t.stages = {decode_road / frames, decode_wide / frames, infer / frames, write / frames};
  t.frames_per_second = t.segment_seconds > 0 ? static_cast<double>(t.frames) / t.segment_seconds : 0;
  return t;
}

namespace {

Json fit_json(const std::array<PlanErrorSummary, kHorizons>& fit) {
  Json out = Json::array();
  for (const PlanErrorSummary& f : fit) {
    if (f.count == 0) continue;
    out.push_back({{"horizon_s", f.horizon},
                   {"count", f.count},
                   {"mean_m", *f.distance_mean},
                   {"p50_m", *f.distance_median},
                   {"p90_m", *f.distance_p90},
                   {"along_m", *f.along_mean},
                   {"across_m", *f.across_mean},
                   {"across_abs_m", *f.across_abs_mean},
                   {"heading_abs_deg", *f.heading_abs_mean_deg}});
  }
  return out;
}

Json segments_json(const std::vector<SegmentResult>& segments) {
  Json out = Json::array();
  for (const SegmentResult& segment : segments) {
    Json cameras = Json::array();
    for (const CameraResult& camera : segment.cameras) cameras.push_back(to_json(camera));
    out.push_back({{"name", segment.name},
                   {"log", segment.log},
                   {"complete", segment.complete},
                   {"left_out", segment.left_out},
                   {"frames", segment.frames.size()},
                   {"frames_dropped", segment.dropped},
                   {"seconds", segment.seconds},
                   {"driven_path", segment.driven_path},
                   {"devices", segment.devices},
                   {"cameras", cameras},
                   {"notes", segment.notes}});
  }
  return out;
}

}  // namespace

Json summary_json(const DriveReport& report) {
  const DriveResult& result = report.result;
  const DriveTotals t = totals_of(result);
  Json networks = Json::array();
  for (const auto& n : result.networks)
    networks.push_back({{"role", n.role}, {"file", n.file}, {"checkpoint", n.checkpoint}, {"device", n.device}});
  Json out = {
      {"route", report.route},
      {"out", report.out},
      {"sparkpilot", report.version},
      {"machine", report.machine},
      {"networks", networks},
      {"contract", result.contract},
      {"precision", report.precision ? Json(*report.precision) : Json()},
      {"device", report.device},
      {"processes", report.processes},
      {"threads", {{"decode", result.shares.decode}, {"infer", result.shares.infer}, {"encode", result.shares.encode}}},
      {"complete", t.complete && !result.stopped},
      {"frames", t.frames},
      {"frames_dropped", t.dropped},
      {"frames_per_second", t.frames_per_second},
      {"realtime_factor", t.frames_per_second / 20},
      {"seconds", result.seconds},
      {"late_frames", report.realtime ? Json(t.late) : Json()},
      {"latency", latency_json(latencies(result.segments))},
      {"stages", stages_json(t.stages)},
      {"recorded_models", t.recorded_models},
      {"recorded_drawn", t.recorded_drawn},
      {"plan_error", fit_json(fit_of(result.segments, false))},
      {"recorded_plan_error", fit_json(fit_of(result.segments, true))},
      {"notes", report.notes},
      {"segments", segments_json(result.segments)}};
  if (report.reference) {
    out["reference"] = report.reference->name;
    out["comparison"] = *report.reference->comparison;
  }
  return out;
}

void write_report(const DriveReport& report) {
  const auto write = [&](const char* name, const std::string& text) {
    AtomicFile file(fs::path(report.out) / name);
    file.write(text);
    file.commit();
  };
  make_folders(report.out);
  write("summary.json", json_text(summary_json(report), 2) + "\n");
  write("summary.html", summary_html(report));
}

std::vector<SegmentResult> collect_segments(const Route& route, const fs::path& out, const std::string& run) {
  std::vector<SegmentResult> segments;
  for (const Segment& segment : route.segments) {
    const fs::path file = out / segment_folder(route, segment) / kResultFile;
    if (!fs::exists(file)) continue;
    SegmentResult result = segment_result_from(read_file(file), file);
    if (result.run == run) segments.push_back(std::move(result));
  }
  return segments;
}

void leave_out_unasked(const Route& route, const DriveOptions& options, std::span<const ModelRecord> ours,
                       std::vector<ModelRecord>& reference) {
  const auto done = by_frame(ours);
  const auto lacking = [&](const ModelRecord& record) { return !done.contains(record.frame_id); };
  if (std::none_of(reference.begin(), reference.end(), lacking)) return;
  uint32_t first = 0;
  std::set<uint32_t> asked;  // with a limit
  for (size_t s = 0; s < route.segments.size() && (s == 0 || options.limit > 0); ++s) {
    const Segment& segment = route.segments[s];
    try {
      const Timeline log = segment_timeline(route, segment, {.models = false});
      const std::vector<IndexedFrame>& index = road_index(segment, log, options);
      if (index.empty() && route.log(segment).empty()) return;  // which frames it has is not known
      if (s == 0 && !index.empty()) first = index.front().frame_id;
      for (int64_t i = 0; i < options.limit; ++i) {
        if (index.empty()) asked.insert(segment.first_frame_id() + static_cast<uint32_t>(i));
        else if (i < std::ssize(index)) asked.insert(index[static_cast<size_t>(i)].frame_id);
      }
    } catch (const CannotDrive&) {
      return;
    }
  }
  std::erase_if(reference, [&](const ModelRecord& record) {
    const bool wanted = record.frame_id >= first && (options.limit == 0 || asked.contains(record.frame_id));
    return !wanted && lacking(record);
  });
}

}  // namespace sparkpilot::drive
