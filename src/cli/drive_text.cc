#include "cli/drive_text.h"

#include <fmt/core.h>

#include <filesystem>

#include "base/statistics.h"
#include "base/text.h"
#include "cli/terminal.h"

namespace sparkpilot::cli {

void print_drive(const drive::DriveReport& report) {
  const drive::DriveTotals t = drive::totals_of(report.result);
  Table table({"segment", "frames", "lost", "seconds", "state"});
  for (const auto& s : report.result.segments) {
    table.add({s.name, std::to_string(s.frames.size()), std::to_string(s.dropped), fmt::format("{:.1f}", s.seconds),
               state_of(s)});
  }
  print(table.str());
  const std::vector<double> ms = drive::latencies(report.result.segments);
  print(fmt::format("{}, {:.1f} a second ({:.1f} times real time)\n", count_of(t.frames, "frame"), t.frames_per_second,
                    t.frames_per_second / 20));
  if (!ms.empty()) {
    const Statistics s = summarize(ms);
    print(fmt::format("model: {} ms a frame at the median, {} ms at 99 %; {}\n", human_ms(s.p50), human_ms(s.p99),
                      report.result.contract));
  }
  std::string stages;
  for (const auto& [stage, value] : {std::pair("decode road", t.stages.decode_road_ms),
                                     {"decode wide", t.stages.decode_wide_ms},
                                     {"networks", t.stages.infer_ms},
                                     {"write and draw", t.stages.write_ms}}) {
    if (value > 0) stages += fmt::format("{}{} {:.2f}", stages.empty() ? "" : ", ", stage, value);
  }
  if (!stages.empty()) print(fmt::format("stages, ms a frame: {}\n", stages));
  for (const std::string& text : report.notes) print("note: " + text + "\n");
  for (const auto& s : report.result.segments) {
    for (const std::string& text : s.notes) print(fmt::format("note: {}: {}\n", s.name, text));
  }
  if (report.realtime) print(fmt::format("late frames: {}\n", t.late));
  if (t.recorded_models > 0)
    print(fmt::format("recorded models: {}, {} of them with a frame in the video\n", t.recorded_models,
                      t.recorded_drawn));
  for (const bool recorded : {false, true}) {
    for (const drive::PlanErrorSummary& f : drive::fit_of(report.result.segments, recorded)) {
      if (f.count == 0) continue;
      print(fmt::format("{} error {:.0f} s ahead: {:.2f} m, heading {:.2f} deg ({})\n",
                        recorded ? "recorded plan's" : "plan's", f.horizon, *f.distance_mean, *f.heading_abs_mean_deg,
                        count_of(f.count, "frame")));
    }
  }
  print(fmt::format("summary: {}\n", (std::filesystem::path(report.out) / "summary.html").string()));
}

}  // namespace sparkpilot::cli
