// sparkpilot route info: what a route contains, and what is missing.
#include <array>
#include <cmath>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <numbers>

#include "base/error.h"
#include "cli/command.h"
#include "cli/fit.h"
#include "cli/json_values.h"
#include "cli/terminal.h"
#include "route/log/summary.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

// --- JSON

Json json_segments(const drive::Route& route, const drive::RouteSummary& summary) {
  Json list = Json::array();
  for (size_t i = 0; i < route.segments.size(); ++i) {
    const drive::Segment& segment = route.segments[i];
    const drive::SegmentSummary& read = summary.segments[i];
    list.push_back({{"number", segment.number},
                    {"folder", segment.folder.string()},
                    {"log", or_null(read.log.string())},
                    {"rlog", or_null(segment.rlog.string())},
                    {"qlog", or_null(segment.qlog.string())},
                    {"road_video", or_null(segment.road_video.string())},
                    {"wide_video", or_null(segment.wide_video.string())},
                    {"driver_video", or_null(segment.driver_video.string())},
                    {"qcamera", or_null(segment.qcamera.string())},
                    {"global_pose", or_null(segment.global_pose.string())},
                    {"events", read.events},
                    {"log_bytes", read.log_bytes},
                    {"first_mono_time_ns", or_null(read.first_ns)},
                    {"duration_s", read.first_ns ? Json(read.seconds()) : Json()},
                    {"damaged_events", read.damaged_events},
                    {"damage", or_null(read.damage)}});
  }
  return list;
}

Json json_cameras(const drive::RouteSummary& summary) {
  Json list = Json::array();
  for (const drive::CameraSummary& camera : summary.cameras) {
    Json parts = Json::array();
    int64_t frames = 0, missing = 0;
    for (const drive::CameraPart& part : camera.parts) {
      frames += part.frames;
      missing += part.missing;
      parts.push_back({{"segment", part.segment},
                       {"frames", part.frames},
                       {"first_frame", part.first_frame},
                       {"last_frame", part.last_frame},
                       {"missing_frames", part.missing}});
    }
    list.push_back({{"name", camera.name},
                    {"width", or_null(camera.width)},
                    {"height", or_null(camera.height)},
                    {"video_segments", camera.files},
                    {"indexed_frames", frames},
                    {"missing_frames", missing},
                    {"segments", parts}});
  }
  return list;
}

Json json_reading(const std::optional<drive::CalibrationReading>& reading) {
  if (!reading) return {};
  return {{"rpy_rad", reading->rpy},
          {"status", reading->status},
          {"percent", reading->percent},
          {"mono_time_ns", reading->mono_time_ns}};
}

Json json_kinds(const drive::RouteSummary& summary) {
  Json kinds = Json::object();
  const double seconds = summary.seconds();
  for (const auto& [kind, count] : summary.kinds) {
    kinds[kind] = {{"count", count}, {"rate_hz", seconds > 0 ? Json(static_cast<double>(count) / seconds) : Json()}};
  }
  return kinds;
}

Json describe(const drive::Route& route, const drive::RouteSummary& summary) {
  Json gaps = Json::array();
  for (const drive::SilentGap& gap : summary.gaps) {
    gaps.push_back({{"kind", gap.kind},
                    {"segment", gap.segment},
                    {"from_mono_time_ns", gap.from_ns},
                    {"duration_s", gap.seconds}});
  }
  return {{"name", route.name},
          {"comma2k19", route.comma2k19},
          {"duration_s", summary.first_ns ? Json(summary.seconds()) : Json()},
          {"events", summary.events()},
          {"device", or_null(summary.device)},
          {"dongle", or_null(summary.dongle)},
          {"openpilot_version", or_null(summary.version)},
          {"git_branch", or_null(summary.branch)},
          {"git_commit", or_null(summary.commit)},
          {"car_fingerprint", or_null(summary.fingerprint)},
          {"car_brand", or_null(summary.brand)},
          {"wall_time_ns", or_null(summary.wall_time_ns)},
          {"calibration",
           {{"readings", summary.calibrations},
            {"first", json_reading(summary.first_calibration)},
            {"last", json_reading(summary.last_calibration)}}},
          {"cameras", json_cameras(summary)},
          {"segments", json_segments(route, summary)},
          {"kinds", json_kinds(summary)},
          {"gaps", gaps},
          {"gap_count", summary.gap_count},
          {"notes", route.notes}};
}

// --- text

std::string text_seconds(double seconds) {
  const int64_t whole = std::llround(seconds);
  return whole >= 60 ? fmt::format("{} min {} s", whole / 60, whole % 60) : fmt::format("{:.1f} s", seconds);
}

std::string text_time(uint64_t ns) {
  const auto seconds = static_cast<std::time_t>(ns / 1'000'000'000);
  std::tm utc{};
  char text[64] = "";
  if (!gmtime_r(&seconds, &utc) || std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc) == 0) return "";
  return text;
}

std::string text_reading(const drive::CalibrationReading& reading) {
  const auto degrees = [](float radians) { return fixed(static_cast<double>(radians) * 180 / std::numbers::pi, 2); };
  return fmt::format("roll {}, pitch {}, yaw {} degrees, {}, {} %", degrees(reading.rpy[0]), degrees(reading.rpy[1]),
                     degrees(reading.rpy[2]), reading.status, reading.percent);
}

std::string words_joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!word.empty()) text += (text.empty() ? "" : ", ") + word;
  }
  return text;
}

std::string text_segments(const drive::Route& route) {
  const int first = route.segments.front().number, last = route.segments.back().number;
  return first == last ? fmt::format("{}", first) : fmt::format("{}, {} to {}", route.segments.size(), first, last);
}

void print_head(const drive::Route& route, const drive::RouteSummary& summary) {
  const auto line = [](std::string_view key, const std::string& value) {
    if (value.empty()) return;
    print(painted(fmt::format("{:<13}", key), Paint::bold) + wrapped(value, 13, stdout_columns()) + "\n");
  };
  line("route", route.name + (route.comma2k19 ? " (comma2k19)" : ""));
  line("segments", text_segments(route));
  if (summary.first_ns) line("duration", text_seconds(summary.seconds()));
  if (summary.wall_time_ns) line("started", text_time(*summary.wall_time_ns));
  line("device", words_joined({summary.device, summary.dongle}));
  line("openpilot", words_joined({summary.version, summary.branch, summary.commit.substr(0, 8)}));
  line("car", words_joined({summary.fingerprint, summary.brand}));
  if (summary.first_calibration) {
    line("calibration", text_reading(*summary.first_calibration));
    line("", fmt::format("{} after {} readings", text_reading(*summary.last_calibration), summary.calibrations));
  }
}

void print_cameras(const drive::RouteSummary& summary) {
  if (summary.cameras.empty()) return;
  Table table({"camera", "size", "videos", "frames in the log", "missing"});
  for (const drive::CameraSummary& camera : summary.cameras) {
    int64_t frames = 0, missing = 0;
    for (const drive::CameraPart& part : camera.parts) {
      frames += part.frames;
      missing += part.missing;
    }
    table.add({camera.name, camera.width ? fmt::format("{}x{}", *camera.width, *camera.height) : "-",
               std::to_string(camera.files.size()), camera.parts.empty() ? "-" : std::to_string(frames),
               camera.parts.empty() ? "-" : std::to_string(missing)});
  }
  print("\n" + table.str());
}

void print_segments(const drive::RouteSummary& summary) {
  Table table({"segment", "events", "seconds", "unpacked", "log"});
  for (const drive::SegmentSummary& segment : summary.segments) {
    table.add({std::to_string(segment.number), std::to_string(segment.events),
               segment.first_ns ? fmt::format("{:.1f}", segment.seconds()) : "-", human_bytes(segment.log_bytes),
               segment.log.empty() ? "-" : segment.log.filename().string()});
  }
  print("\n" + table.str());
}

void print_kinds(const drive::RouteSummary& summary) {
  if (summary.kinds.empty()) return;
  Table table({"event", "count", "Hz"});
  const double seconds = summary.seconds();
  for (const auto& [kind, count] : summary.kinds) {
    table.add(
        {kind, std::to_string(count), seconds > 0 ? fmt::format("{:.2f}", static_cast<double>(count) / seconds) : "-"});
  }
  print("\n" + table.str());
}

// One line for each thing that is wrong or missing.
void print_troubles(const drive::Route& route, const drive::RouteSummary& summary) {
  std::string text;
  for (const std::string& note : route.notes) text += note + "\n";
  for (const drive::SegmentSummary& segment : summary.segments) {
    if (!segment.damage.empty()) text += fmt::format("segment {}: {}\n", segment.number, segment.damage);
    if (segment.damaged_events > 0) {
      text += fmt::format("segment {}: {} events have damaged fields\n", segment.number, segment.damaged_events);
    }
  }
  for (const drive::CameraSummary& camera : summary.cameras) {
    for (const drive::CameraPart& part : camera.parts) {
      if (part.missing == 0) continue;
      text += fmt::format("segment {}: the {} camera's index leaves out {} frames between {} and {}\n", part.segment,
                          camera.name, part.missing, part.first_frame, part.last_frame);
    }
  }
  for (const drive::SilentGap& gap : summary.gaps) {
    const double at = static_cast<double>(gap.from_ns - summary.first_ns.value_or(gap.from_ns)) / 1e9;
    text +=
        fmt::format("segment {}: no {} for {:.2f} s from second {:.2f} on\n", gap.segment, gap.kind, gap.seconds, at);
  }
  const auto hidden = summary.gap_count - static_cast<int64_t>(summary.gaps.size());
  if (hidden > 0) text += fmt::format("and {} more gaps\n", hidden);
  if (!text.empty()) print("\n" + text);
}

int route_info(const Program& program, const std::string& name) {
  Json described = Json::array();
  bool first = true;
  for (const drive::Route& route : drive::find_routes(name, {program.settings["data"].value})) {
    const drive::RouteSummary summary = [&] {
      Progress bar(!program.quiet, route.name);
      return drive::summarise(route, [&](double done) { bar.at(done); });
    }();
    if (program.json) {
      described.push_back(describe(route, summary));
      continue;
    }
    if (!first) print("\n");
    first = false;
    print_head(route, summary);
    print_cameras(summary);
    print_segments(summary);
    print_kinds(summary);
    print_troubles(route, summary);
  }
  if (program.json) print_json({{"routes", described}});
  return kDone;
}

}  // namespace

void add_route_info(Program& program, Command group) {
  const auto name = std::make_shared<std::string>();
  const Command command =
      add_command(program, group, "info", "print segments, times, cameras, calibration, events, and what is missing",
                  "  sparkpilot route info /data/2023-07-27--13-01-19--0\n"
                  "  sparkpilot route info 'a2a0ccea32023010|2023-07-27--13-01-19/2:6' --data /data --json",
                  [&program, name] { return route_info(program, *name); });
  add_route_flags(program, command, *name);
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
