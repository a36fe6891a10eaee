// One world step by step, for pictures and tables.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/batch.h"

namespace sparkpilot::sim {

struct TraceColumn {
  std::string_view name, unit, meaning;
};
// time, speed, ...; lateral ones are left positive.
std::span<const TraceColumn> trace_columns();
inline constexpr size_t kTraceColumns = 17, kDesiredCurvature = 6;

struct Trace {
  std::vector<std::array<double, kTraceColumns>> rows;  // one for each 50 ms; without a car ahead its columns are NaN
  WorldResult result;
  const double& at(size_t row, std::string_view column) const;
};

std::vector<double> trace_column(const Trace& trace, std::string_view name);

// What of a trace is drawn over time; the first series of a curve is what the car does.
struct TraceSeries {
  const char *column, *name;
  bool wanted = false;  // what was asked for
};
struct TraceCurve {
  const char *title, *unit;
  std::vector<TraceSeries> series;
};
// `lead`: with a car ahead; `torque`: the steering's command is one.
std::vector<TraceCurve> trace_curves(bool lead, bool torque);

// Runs one world in float, which on processors with fused multiply-adds gives the bits of run_worlds(). Ends with a
// divergence. Fails (user) as check_world() does.
Trace trace_world(const WorldSpec& world, const BatchOptions& options);

// As a table in CSV with "name_unit" as headings; what there is not is empty.
std::string trace_csv(const Trace& trace);

}  // namespace sparkpilot::sim
