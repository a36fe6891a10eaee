#include "sim/trace.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sim/alone-inl.h"
#include "sim/trace-inl.h"

namespace sparkpilot::sim {
namespace {

using namespace scalar;

constexpr TraceColumn kColumns[] = {
    {"time", "s", "since the beginning"},
    {"speed", "m/s", "of the car"},
    {"target_speed", "m/s", "asked for"},
    {"acceleration", "m/s^2", "of the car"},
    {"target_acceleration", "m/s^2", "asked for by the planner"},
    {"road_curvature", "1/m", "of the lane"},
    {"desired_curvature", "1/m", "asked of the controller"},
    {"lateral_acceleration", "m/s^2", "yaw rate times speed"},
    {"wanted_lateral_acceleration", "m/s^2", "the lane's curvature times speed squared"},
    {"offset", "m", "from the middle of the lane"},
    {"heading", "rad", "against the lane"},
    {"wheel", "deg", "of the steering wheel"},
    {"command", "", "of the steering: torque of -1 to 1, or degrees of the wheel"},
    {"roll", "rad", "of the road"},
    {"distance", "m", "along the lane"},
    {"gap", "m", "to the car ahead"},
    {"lead_speed", "m/s", "of the car ahead"},
};
static_assert(std::size(kColumns) == kTraceColumns && kColumns[kDesiredCurvature].name == "desired_curvature");

template <class Control>
Trace trace_of(const WorldSpec& spec, const BatchOptions& o) {
  Trace trace;
  const RunSettings run{o.seed, o.warm_up, has_noise(spec.noise), has_lead(spec), is_rich(spec.course)};
  const auto see = [&](int step, const auto& k, const WorldState<float, Control>& s) {
    if (step % kStepsPerPlan != 0 || s.metrics.alive < 0.5f) return;
    trace.rows.push_back(trace_row(step, k, s));
  };
  trace.result = run_world<float, Control>(spec, run, o.steps, o.tyres, see);
  return trace;
}

}  // namespace

std::span<const TraceColumn> trace_columns() { return kColumns; }

const double& Trace::at(size_t row, std::string_view column) const {
  const auto* found = std::ranges::find(kColumns, column, &TraceColumn::name);
  if (found == std::end(kColumns)) fail_internal("sim: no column {}", column);
  return rows[row][static_cast<size_t>(found - kColumns)];
}

std::vector<double> trace_column(const Trace& trace, std::string_view name) {
  std::vector<double> values;
  for (size_t row = 0; row < trace.rows.size(); ++row) values.push_back(trace.at(row, name));
  return values;
}

std::vector<TraceCurve> trace_curves(bool lead, bool torque) {
  std::vector<TraceCurve> curves = {
      {"Offset from the middle of the lane", "m", {{"offset", "offset"}}},
      {"Lateral acceleration",
       "m/s^2",
       {{"lateral_acceleration", "car"}, {"wanted_lateral_acceleration", "lane", true}}},
      {"Steering", torque ? "torque" : "deg", {{"command", "command"}}},
      {"Speed", "m/s", {{"speed", "car"}, {"target_speed", "asked for", true}}},
      {"Acceleration", "m/s^2", {{"acceleration", "car"}, {"target_acceleration", "asked for", true}}}};
  if (lead) {
    curves[3].series.push_back({"lead_speed", "car ahead"});
    curves.push_back({"Gap to the car ahead", "m", {{"gap", "gap"}}});
  }
  return curves;
}

Trace trace_world(const WorldSpec& world, const BatchOptions& o) {
  check_world(world);
  return with_control(o.lateral, [&]<class Control>() { return trace_of<Control>(world, o); });
}

std::string trace_csv(const Trace& trace) {
  std::string text;
  for (const TraceColumn& column : kColumns) {
    std::string unit(column.unit);
    for (size_t at; (at = unit.find('/')) != std::string::npos;) unit.replace(at, 1, "_per_");
    std::erase(unit, '^');
    if (unit.starts_with("1_per_")) unit.erase(0, 2);
    text += fmt::format("{}{}{}{}", text.empty() ? "" : ",", column.name, unit.empty() ? "" : "_", unit);
  }
  text += '\n';
  for (const auto& row : trace.rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      text += i == 0 ? "" : ",";
      if (!std::isfinite(row[i])) continue;
      // Centimetres and steps of time also of what is large; + 0.0: of -0, 0.
      text += std::abs(row[i]) < 1e4 ? fmt::format("{:.6g}", row[i] + 0.0) : fmt::format("{:.2f}", row[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace sparkpilot::sim
