#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"
#include "drive/report.h"
#include "drive/report_parts.h"
#include "route/draw/page.h"

namespace sparkpilot::drive {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double first(const std::vector<float>& list) { return list.empty() ? kNone : static_cast<double>(list[0]); }

double lane_offset(const ModelRecord& model, size_t line) {
  return line < model.lane_lines.size() ? first(model.lane_lines[line].y) : kNone;
}

// The values that a reader looks at first, one figure each.
struct Shown {
  const char* title;
  const char* unit;
  double (*value)(const ModelRecord&);
};

constexpr Shown kShown[] = {
    {"Speed of the plan, now", "m/s", [](const ModelRecord& m) { return first(m.velocity.x); }},
    {"Desired curvature", "1/m",
     [](const ModelRecord& m) { return m.action ? static_cast<double>(m.action->curvature) : kNone; }},
    {"Desired acceleration", "m/s2",
     [](const ModelRecord& m) { return m.action ? static_cast<double>(m.action->acceleration) : kNone; }},
    {"Left lane line, now", "m", [](const ModelRecord& m) { return lane_offset(m, 1); }},
    {"Right lane line, now", "m", [](const ModelRecord& m) { return lane_offset(m, 2); }},
    {"Distance of the lead", "m", [](const ModelRecord& m) { return m.leads.empty() ? kNone : first(m.leads[0].x); }},
    {"Probability of the lead", "",
     [](const ModelRecord& m) { return m.leads.empty() ? kNone : static_cast<double>(m.leads[0].prob); }},
};

// Only frames of the run: the two models are compared frame by frame.
Series series_of(const std::string& name, const std::vector<ModelRecord>& models, double (*value)(const ModelRecord&),
                 const DriveTimeAxis& time, bool dashed) {
  Series out{name};
  out.dashed = dashed;
  for (const ModelRecord& model : models) {
    const double y = value(model);
    const std::optional<double> x = time.of(model.frame_id);
    if (!x || !std::isfinite(y)) continue;
    out.x.push_back(*x);
    out.y.push_back(y);
  }
  return out;
}

std::string number(const std::optional<double>& value) { return value ? fmt::format("{:.4g}", *value) : "-"; }

std::vector<std::string> row_of(const FieldComparison& field) {
  std::string frames;
  for (const FrameDifference& worst : field.worst)
    frames += fmt::format("{}{}", frames.empty() ? "" : ", ", worst.frame_id);
  return {field.name,
          field.unit,
          number(field.mean_abs),
          number(field.p99),
          number(field.max),
          to_text(field.tolerance),
          field.absent_in_ours ? "not in this run" : frames,
          std::string(to_text(field.outcome()))};
}

Tone tone_of(Outcome outcome) {
  return outcome == Outcome::beyond ? Tone::bad : outcome == Outcome::not_compared ? Tone::faint : Tone::plain;
}

void add_fields(Page& page, const ModelComparison& comparison) {
  std::vector<std::vector<std::string>> rows;
  std::vector<Tone> tones;
  bool beyond = false;
  for (const FieldComparison* field : shown_fields(comparison)) {
    rows.push_back(row_of(*field));
    tones.push_back(tone_of(field->outcome()));
    beyond = beyond || field->outcome() == Outcome::beyond;
  }
  if (beyond) page.warning("Not the same model: fields differ by more than their tolerance.");
  else if (!comparison.ok()) page.warning("Nothing was compared: no frame, or no field, is in both.");
  page.table(
      {"field", "unit", "mean", "99 %", "max", "tolerance", "worst frames", "outcome"}, rows,
      "Absolute differences, within their tolerance or beyond it. Not compared: the reference has no such output.",
      tones);
}

}  // namespace

void add_reference(Page& page, const ReferenceReport& report, const DriveTimeAxis& time) {
  const ModelComparison& c = report.comparison;
  page.section("Beside the reference");
  page.text(fmt::format("{}: {} in both, {} only in this run, {} only in the reference.", report.name,
                        count_of(c.frames, "frame"), c.only_ours, c.only_reference));
  add_fields(page, c);
  for (const Shown& shown : kShown) {
    Plot plot{.title = shown.title, .y_label = shown.unit};
    plot.series = {series_of("this run", report.ours, shown.value, time, false),
                   series_of("reference", report.theirs, shown.value, time, true)};
    if (plot.series[0].x.empty() && plot.series[1].x.empty()) continue;
    if (plot.series[1].x.empty()) plot.series[1].name = "reference: not compared";
    page.plot(time.over_all(std::move(plot)));
  }
}

}  // namespace sparkpilot::drive
