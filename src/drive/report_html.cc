#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/statistics.h"
#include "base/text.h"
#include "drive/report.h"
#include "route/draw/markup.h"
#include "route/draw/page.h"

namespace sparkpilot::drive {
namespace fs = std::filesystem;
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMaxPictures = 12;
constexpr double kGap = 3;  // s without a value that interrupt a line: longer than the distance of two models in a
                            // decimated log

// Seconds since the run's first frame: the axis that all its plots share.
class DriveTimeAxis {
 public:
  explicit DriveTimeAxis(const std::vector<SegmentResult>& segments) {
    std::optional<double> first, last;
    for (const SegmentResult& segment : segments) {
      for (const FrameResult& frame : segment.frames) {
        first = std::min(first.value_or(frame.time), frame.time);
        last = std::max(last.value_or(frame.time), frame.time);
      }
    }
    if (!first) return;
    start_ = *first;
    length_ = *last - *first;
  }

  double of(const FrameResult& frame) const { return frame.time - start_; }
  // `plot` with the whole run on its time axis.
  Plot over_all(Plot plot) const {
    plot.x_low = 0;
    plot.x_high = length_;
    return plot;
  }

 private:
  double start_ = 0, length_ = 0;
};

// Columns over all segments.
class Columns {
 public:
  explicit Columns(const std::vector<SegmentResult>& segments) : time_(segments) {
    for (const SegmentResult& segment : segments) {
      for (const FrameResult& frame : segment.frames) frames_.push_back(&frame);
    }
  }
  const DriveTimeAxis& time() const { return time_; }

  // Leaves out frames for which `value` is NaN; only a long time without values makes a gap.
  template <typename Fn>
  Series series(const std::string& name, Fn&& value, bool dashed = false) const {
    Series out{name};
    out.dashed = dashed;
    for (const FrameResult* frame : frames_) {
      const double y = value(*frame);
      if (std::isnan(y)) continue;
      const double x = time_.of(*frame);
      if (!out.x.empty() && std::fabs(x - out.x.back()) > kGap) {
        out.x.push_back(out.x.back());
        out.y.push_back(kNone);
      }
      out.x.push_back(x);
      out.y.push_back(y);
    }
    return out;
  }

 private:
  DriveTimeAxis time_;
  std::vector<const FrameResult*> frames_;
};

bool any(const Series& series) {
  return std::any_of(series.y.begin(), series.y.end(), [](double value) { return std::isfinite(value); });
}

double number(const std::optional<float>& value) { return value ? static_cast<double>(*value) : kNone; }

// Leaves out series without values, and the plot if no series has any.
void add_plot(Page& page, Plot plot, const DriveTimeAxis& time) {
  plot.series.erase(std::remove_if(plot.series.begin(), plot.series.end(), [](const Series& s) { return !any(s); }),
                    plot.series.end());
  if (!plot.series.empty()) page.plot(time.over_all(std::move(plot)));
}

void add_headlines(Page& page, const DriveReport& report, const DriveTotals& t) {
  std::vector<Headline> out;
  out.push_back({"frames", std::to_string(t.frames), "of " + count_of(std::ssize(report.result.segments), "segment")});
  out.push_back({"frames a second", fmt::format("{:.0f}", t.frames_per_second),
                 fmt::format("{:.1f} times real time", t.frames_per_second / 20)});
  const std::vector<double> ms = latencies(report.result.segments);
  if (!ms.empty()) {
    const Statistics s = summarize(ms);
    out.push_back({"model, per frame", fmt::format("{:.1f} ms", s.p50), fmt::format("99 %: {:.1f} ms", s.p99)});
  }
  const auto ours = fit_of(report.result.segments, false), recorded = fit_of(report.result.segments, true);
  const bool ran = !report.result.networks.empty();
  const PlanErrorSummary& at_two = ran ? ours[1] : recorded[1];
  if (at_two.count > 0) {
    out.push_back(
        {"plan error at 2 s", fmt::format("{:.2f} m", *at_two.distance_mean), ran ? "this run" : "recorded model"});
  } else if (ran && recorded[1].count > 0) {
    out.push_back({"plan error at 2 s", "-", "no plan of this run could be judged"});
  }
  if (report.realtime) out.push_back({"late frames", std::to_string(t.late), "ready after the next frame had come"});
  page.figures(out);
}

void add_warnings(Page& page, const DriveReport& report) {
  if (report.result.stopped) page.warning("The run was stopped before its end.");
  for (const std::string& note : report.notes) page.note(note);
  for (const SegmentResult& segment : report.result.segments) {
    for (const std::string& note : segment.notes) page.note(fmt::format("{}: {}", segment.name, note));
  }
}

// "frame_000041.jpg": 41
std::string frame_of(const std::string& picture) {
  const size_t digits = picture.find_first_of("123456789");
  return digits == std::string::npos ? "0" : picture.substr(digits, picture.rfind('.') - digits);
}

void add_pictures(Page& page, const DriveReport& report) {
  std::vector<PagePicture> pictures;
  size_t all = 0;
  for (const SegmentResult& segment : report.result.segments) all += segment.pictures.size();
  const size_t step = std::max<size_t>(1, (all + kMaxPictures - 1) / kMaxPictures);
  size_t at = 0;
  for (const SegmentResult& segment : report.result.segments) {
    for (const std::string& name : segment.pictures) {
      if (at++ % step != 0) continue;
      const fs::path file = fs::path(report.out) / segment.name / fs::path(name).filename();
      if (!fs::exists(file)) continue;
      const std::string bytes = read_file(file, 8 << 20);
      pictures.push_back({fmt::format("{}, frame {}", segment.name, frame_of(name)), {bytes.begin(), bytes.end()}});
    }
  }
  if (pictures.empty()) return;
  page.section("Key frames");
  page.images(pictures);
}

void add_fit(Page& page, const DriveReport& report, const Columns& columns) {
  const auto rows_of = [&](bool recorded, const char* who) {
    std::vector<std::vector<std::string>> rows;
    for (const PlanErrorSummary& f : fit_of(report.result.segments, recorded)) {
      if (f.count == 0) continue;
      rows.push_back({fmt::format("{:.0f}", f.horizon), who, fmt::format("{}", f.count),
                      fmt::format("{:.2f}", *f.distance_mean), fmt::format("{:.2f}", *f.distance_median),
                      fmt::format("{:.2f}", *f.distance_p90), drive::number(*f.along_mean, 0.01),
                      drive::number(*f.across_mean, 0.01), fmt::format("{:.2f}", *f.heading_abs_mean_deg)});
    }
    return rows;
  };
  auto rows = rows_of(false, "this run");
  for (auto& row : rows_of(true, "recorded")) rows.push_back(std::move(row));
  if (rows.empty()) return;
  page.section("Plan and driven path");
  page.table(
      {"seconds ahead", "model", "frames", "mean, m", "median, m", "90 %, m", "along, m", "across, m", "heading, deg"},
      rows, "Distance between where the plan is and where the car was, in the car's frame at the plan's time.");
  Plot plot{.title = "Plan error over time", .y_label = "m"};
  for (const size_t h : {size_t{1}, size_t{3}}) {
    plot.series.push_back(columns.series(fmt::format("{:.0f} s ahead", kHorizonSeconds[h]), [h](const FrameResult& f) {
      return f.errors[h] ? static_cast<double>(f.errors[h]->distance()) : kNone;
    }));
    plot.series.push_back(columns.series(
        fmt::format("recorded, {:.0f} s ahead", kHorizonSeconds[h]),
        [h](const FrameResult& f) {
          return f.recorded_errors[h] ? static_cast<double>(f.recorded_errors[h]->distance()) : kNone;
        },
        true));
  }
  add_plot(page, plot, columns.time());
}

void add_action(Page& page, const Columns& columns, bool model) {
  page.section("Action");
  Plot curvature{.title = "Curvature", .y_label = "1/m"};
  Plot acceleration{.title = "Acceleration", .y_label = "m/s2"};
  if (model) {
    curvature.series.push_back(
        columns.series("desired", [](const FrameResult& f) { return static_cast<double>(f.curvature); }));
    acceleration.series.push_back(
        columns.series("desired", [](const FrameResult& f) { return static_cast<double>(f.acceleration); }));
  }
  curvature.series.push_back(
      columns.series("recorded", [](const FrameResult& f) { return number(f.recorded_curvature); }));
  curvature.series.push_back(columns.series(
      "driven", [](const FrameResult& f) { return number(f.driven_curvature); }, true));
  acceleration.series.push_back(
      columns.series("recorded", [](const FrameResult& f) { return number(f.recorded_acceleration); }));
  acceleration.series.push_back(columns.series(
      "driven", [](const FrameResult& f) { return number(f.driven_acceleration); }, true));
  add_plot(page, curvature, columns.time());
  add_plot(page, acceleration, columns.time());
  add_plot(page,
           {.title = "Speed",
            .y_label = "m/s",
            .series = {columns.series("v_ego", [](const FrameResult& f) { return number(f.v_ego); })},
            .y_low = 0},
           columns.time());
}

void add_perception(Page& page, const Columns& columns) {
  page.section("Lane lines and lead");
  Plot lanes{.title = "Lane line probabilities", .y_label = "probability", .y_low = 0, .y_high = 1};
  const char* names[4] = {"far left", "left", "right", "far right"};
  for (size_t i = 0; i < 4; ++i) {
    lanes.series.push_back(columns.series(
        names[i], [i](const FrameResult& f) { return f.model ? static_cast<double>(f.lane_probs[i]) : kNone; },
        i == 0 || i == 3));
  }
  add_plot(page, lanes, columns.time());
  add_plot(page,
           {.title = "Distance of the lead, where its probability is above 0.5",
            .y_label = "m",
            .series = {columns.series(
                "", [](const FrameResult& f) { return f.lead_prob > 0.5F ? static_cast<double>(f.lead_x) : kNone; })},
            .y_low = 0},
           columns.time());
}

void add_times(Page& page, const DriveReport& report, const DriveTotals& t) {
  page.section("Speed");
  const std::vector<double> ms = latencies(report.result.segments);
  if (!ms.empty()) page.histogram({.title = "Time of the networks per frame", .values = ms});
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](const char* stage, double value, int threads) {
    if (value > 0) rows.push_back({stage, fmt::format("{:.2f}", value), std::to_string(threads)});
  };
  row("decode and prepare, road camera", t.stages.decode_road_ms, report.result.shares.decode);
  row("decode and prepare, wide camera", t.stages.decode_wide_ms, report.result.shares.decode);
  row("networks", t.stages.infer_ms, report.result.shares.infer);
  row("write, draw and encode", t.stages.write_ms, report.result.shares.encode);
  if (t.frames_per_second > 0)
    rows.push_back({"the pipeline, all stages in parallel", fmt::format("{:.2f}", 1000 / t.frames_per_second), ""});
  page.table({"stage", "ms a frame", "threads"}, rows);
}

void add_facts(Page& page, const DriveReport& report) {
  page.section("Model and machine");
  std::vector<std::vector<std::string>> rows;
  for (const auto& network : report.result.networks) {
    rows.push_back({network.role, network.file + (network.checkpoint.empty() ? "" : " (" + network.checkpoint + ")")});
  }
  if (!report.result.contract.empty()) rows.push_back({"contract", report.result.contract});
  if (report.precision) rows.push_back({"precision", *report.precision});
  rows.push_back({"machine", report.machine});
  rows.push_back({"route", report.route});
  page.table({"what", "which"}, rows);
  std::vector<std::vector<std::string>> segments;
  for (const SegmentResult& s : report.result.segments) {
    std::string cameras;
    for (const CameraResult& c : s.cameras)
      cameras += fmt::format("{}{} {}x{}", cameras.empty() ? "" : ", ", c.file, c.width, c.height);
    segments.push_back({s.name, std::to_string(s.frames.size()), std::to_string(s.dropped), cameras,
                        fmt::format("{:.1f}", s.seconds), state_of(s)});
  }
  page.table({"segment", "frames", "lost", "video", "seconds", "state"}, segments);
}

}  // namespace

std::string summary_html(const DriveReport& report) {
  const DriveTotals t = totals_of(report.result);
  const bool model = !report.result.networks.empty();
  Page page(report.route, model ? "driven by " + report.result.contract : "what openpilot recorded");
  const Columns columns(report.result.segments);
  add_headlines(page, report, t);
  add_warnings(page, report);
  add_pictures(page, report);
  add_fit(page, report, columns);
  add_action(page, columns, model);
  add_perception(page, columns);
  if (report.reference) {
    page.section("Compared with the reference");
    if (report.reference->same) page.text(report.reference->verdict);
    else page.warning(report.reference->verdict);
    page.link("the whole comparison with " + report.reference->name, {.file = report.reference->page});
  }
  add_times(page, report, t);
  add_facts(page, report);
  page.footer(fmt::format("sparkpilot {}. For development only: never for control of a real car.", report.version));
  return page.str();
}

}  // namespace sparkpilot::drive
