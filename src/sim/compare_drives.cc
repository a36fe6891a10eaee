#include "sim/compare_drives.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/version.h"
#include "route/draw/page.h"
#include "sim/compare_report.h"
#include "sim/scenario_run.h"

namespace sparkpilot::sim {
namespace {

constexpr double kSameFigure = 1e-3;  // of it: what another instruction set's rounding may change

// A world of a run as it was. Fails (user) where run.json does not suffice; `which`: the run, in messages.
ScenarioRun world_again(const char* which, const RunInfo& info, const NamedPair& pair, uint64_t seed) {
  if (info.program != program_version()) {
    fail("{} was made by version {}, this is {}: its worlds may be others", which, info.program, program_version());
  }
  if (!info.algorithm_md5.empty())
    fail("{} was driven by the file {}, which sim show --run takes", which, info.algorithm);
  if (std::ranges::find(vehicle_presets(), info.vehicle, &Preset::name) == vehicle_presets().end()) {
    fail("the car {} of {} is from a file, which sim show --run takes", info.vehicle, which);
  }
  const auto found = std::ranges::find(scenarios(), pair.scenario, &Scenario::name);
  if (found == scenarios().end()) fail("the course {} is from a file, which sim show --run takes", pair.scenario);
  if (pair.variant >= info.variants || seed != info.seed) {
    fail("{}: {} variant {} of seed {} is no world of the run, which has {} variants of seed {}", which, pair.scenario,
         pair.variant, seed, info.variants, info.seed);
  }
  ScenarioRunOptions options = options_of_run(info);
  options.scenarios = {*found};
  options.variants = pair.variant + 1;
  options.vehicle = info.vehicle;
  return ScenarioRun(std::move(options));
}

std::optional<double> figure_of(const Trace& trace, const Metric& metric) {
  const auto at = std::ranges::find(world_metrics(), metric.name) - world_metrics().begin();
  const auto values = metric_values(trace.result);
  return at < std::ssize(values) ? values[static_cast<size_t>(at)] : std::nullopt;
}

void drive_pair(const Comparison& c, DrivenPair& to) {
  const auto drive = [&](const char* which, const RunInfo& info, uint64_t seed, Trace& trace) {
    const ScenarioRun run = world_again(which, info, to.pair, seed);
    const WorldSpec world = run.world(to.pair.variant);
    const BatchOptions options = run.batch(run.scenario(0));
    trace = trace_world(world, options);
    to.lead |= has_lead(world);
    to.torque &= options.lateral != Lateral::angle;
    return figure_of(trace, *c.worst_by);
  };
  // A pair's seed is B's.
  to.again_a = drive("A", c.a, c.same_seeds ? to.pair.seed : c.a.seed, to.a);
  to.again_b = drive("B", c.b, to.pair.seed, to.b);
}

bool is_other(const std::optional<double>& then, const std::optional<double>& now) {
  return then && now && std::abs(*then - *now) > kSameFigure * std::max(std::abs(*then), 1e-3);
}

void add_pair(drive::Page& page, const Comparison& c, const DrivenPair& driven) {
  const NamedPair& pair = driven.pair;
  const std::string world = fmt::format("{}, variant {}", pair.scenario, pair.variant);
  if (pair.a && pair.b) {
    page.text(fmt::format("{}: {} of {} in A, {} in B.", world, c.worst_by->name, figure_text(*pair.a),
                          figure_text(*pair.b)));
  } else {
    page.text(fmt::format("{}, in B: {}.", world, pair.reason));
  }
  for (const auto& [which, then, now] :
       {std::tuple("A", pair.a, driven.again_a), std::tuple("B", pair.b, driven.again_b)}) {
    if (!is_other(then, now)) continue;
    page.note(fmt::format("Driven again, {} has {} instead of {}: the program or its instruction set is another one.",
                          which, figure_text(*now), figure_text(*then)));
  }
  for (const TraceCurve& curve : trace_curves(driven.lead, driven.torque)) {
    drive::Plot plot{.title = fmt::format("{}, {} variant {}", curve.title, pair.scenario, pair.variant),
                     .y_label = curve.unit,
                     .height = 220};
    const std::string_view own = curve.series.front().column;
    plot.series.push_back({"A", trace_column(driven.a, "time"), trace_column(driven.a, own)});
    plot.series.push_back({"B", trace_column(driven.b, "time"), trace_column(driven.b, own)});
    for (const TraceSeries& series : std::span(curve.series).subspan(1)) {
      // What is the same in both: not what a planner asks for, nor anything where the worlds are others.
      if (!c.same_seeds || std::string_view(series.column) == "target_acceleration") continue;
      plot.series.push_back({series.name, trace_column(driven.b, "time"), trace_column(driven.b, series.column), true});
    }
    page.plot(plot);
  }
}

DrivenPair driven_again(const Comparison& c, const NamedPair& pair) {
  DrivenPair driven;
  driven.pair = pair;
  try {
    drive_pair(c, driven);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    driven.why_not = error.what();
  }
  return driven;
}

std::span<const NamedPair> first_of(const std::vector<NamedPair>& pairs, size_t most) {
  return std::span(pairs).first(std::min(most, pairs.size()));
}

}  // namespace

std::vector<DrivenPair> drive_worst(const Comparison& c, size_t most) {
  std::vector<DrivenPair> out;
  for (const NamedPair& pair : first_of(c.worst, most)) out.push_back(driven_again(c, pair));
  return out;
}

std::vector<DrivenPair> drive_newly_failed(const Comparison& c, size_t most) {
  std::vector<DrivenPair> out;
  for (const NamedPair& pair : c.newly_failed_names) {
    const bool drawn = std::ranges::any_of(first_of(c.worst, kDrawnPairs), [&](const NamedPair& other) {
      return other.scenario == pair.scenario && other.variant == pair.variant;
    });
    if (!drawn && out.size() < most) out.push_back(driven_again(c, pair));
  }
  return out;
}

void add_drives(drive::Page& page, const Comparison& c, std::span<const DrivenPair> driven) {
  std::set<std::string> told;
  for (const DrivenPair& pair : driven) {
    if (pair.why_not.empty()) add_pair(page, c, pair);
    else if (told.insert(pair.why_not).second) page.note("Not drawn over time: " + pair.why_not);
  }
}

}  // namespace sparkpilot::sim
