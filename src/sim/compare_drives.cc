#include "sim/compare_drives.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/version.h"
#include "route/draw/page.h"
#include "sim/compare_report.h"
#include "sim/scenario_run.h"

namespace sparkpilot::sim {
namespace {

constexpr double kSameFigure = 1e-3;  // of it: what another instruction set's rounding may change

// The car of a run: the name of a preset, or the path of a file.
std::string car_again(const char* which, const std::string& name, const DriveFiles& files) {
  if (is_preset(name)) return name;
  for (const std::string& path : files.cars) {
    if (find_car(path).name == name) return path;
  }
  fail("the car {} of {} is from a file: give it with --vehicle", name, which);
}

Scenario scenario_again(const std::string& name, const DriveFiles& files) {
  for (const std::span<const Scenario> known : {std::span<const Scenario>(scenarios()), std::span(files.courses)}) {
    const auto found = std::ranges::find(known, name, &Scenario::name);
    if (found != known.end()) return *found;
  }
  fail("the course {} is from a file: give it with --file", name);
}

// A world of a run as it was. Fails (user) where run.json and the files do not suffice; `which`: the run, in messages.
ScenarioRun world_again(const char* which, const RunInfo& info, const NamedPair& pair, uint64_t seed,
                        const DriveFiles& files) {
  if (info.program != program_version()) {
    fail("{} was made by version {}, this is {}: its worlds may be others", which, info.program, program_version());
  }
  ScenarioRunOptions options = options_of_run(info);
  if (!info.algorithm_md5.empty()) {
    const auto found = std::ranges::find(files.algorithms, info.algorithm_md5, &UserAlgorithm::hash);
    if (found == files.algorithms.end()) {
      fail("{} was driven by {} (MD5 {}): give it with --algorithm", which, info.algorithm, info.algorithm_md5);
    }
    options.user = *found;
  }
  options.vehicle = car_again(which, info.vehicle, files);
  options.scenarios = {scenario_again(pair.scenario, files)};
  if (pair.variant >= info.variants || seed != info.seed) {
    fail("{}: {} variant {} of seed {} is no world of the run, which has {} variants of seed {}", which, pair.scenario,
         pair.variant, seed, info.variants, info.seed);
  }
  options.variants = pair.variant + 1;
  return ScenarioRun(std::move(options));
}

std::optional<double> figure_of(const Trace& trace, const Metric& metric) {
  const auto at = std::ranges::find(world_metrics(), metric.name) - world_metrics().begin();
  const auto values = metric_values(trace.result);
  return at < std::ssize(values) ? values[static_cast<size_t>(at)] : std::nullopt;
}

void drive_world(const Comparison& c, const DriveFiles& files, const char* which, const RunInfo& info, uint64_t seed,
                 DrivenPair& pair, DrivenWorld& to) {
  try {
    const ScenarioRun run = world_again(which, info, pair.pair, seed, files);
    const WorldSpec world = run.world(pair.pair.variant);
    const BatchOptions options = run.batch(run.scenario(0));
    if (run.options().user) {
      std::tie(to.trace, to.why_not) = run.options().user->trace(world, run.drive(run.scenario(0)));
      if (!to.why_not.empty()) to.why_not = fmt::format("{} failed: {}", which, to.why_not);
    } else {
      to.trace = trace_world(world, options);
    }
    if (to.why_not.empty()) to.again = figure_of(to.trace, *c.worst_by);
    pair.lead |= has_lead(world);
    pair.torque &= options.lateral != Lateral::angle;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) throw;
    to.why_not = error.what();
  }
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
       {std::tuple("A", pair.a, driven.a.again), std::tuple("B", pair.b, driven.b.again)}) {
    if (!is_other(then, now)) continue;
    page.note(fmt::format("Driven again, {} has {} instead of {}: the program or its instruction set is another one.",
                          which, figure_text(*now), figure_text(*then)));
  }
  for (const TraceCurve& curve : trace_curves(driven.lead, driven.torque)) {
    drive::Plot plot{.title = fmt::format("{}, {} variant {}", curve.title, pair.scenario, pair.variant),
                     .y_label = curve.unit,
                     .height = 220};
    const std::string_view own = curve.series.front().column;
    for (const auto& [which, trace] : {std::tuple("A", &driven.a.trace), std::tuple("B", &driven.b.trace)}) {
      if (!trace->rows.empty()) plot.series.push_back({which, trace_column(*trace, "time"), trace_column(*trace, own)});
    }
    const Trace& any = driven.b.trace.rows.empty() ? driven.a.trace : driven.b.trace;
    for (const TraceSeries& series : std::span(curve.series).subspan(1)) {
      // What is the same in both: not what a planner asks for, nor anything where the worlds are others.
      if (!c.same_seeds || std::string_view(series.column) == "target_acceleration") continue;
      plot.series.push_back({series.name, trace_column(any, "time"), trace_column(any, series.column), true});
    }
    page.plot(plot);
  }
}

DrivenPair driven_again(const Comparison& c, const DriveFiles& files, const NamedPair& pair) {
  DrivenPair driven;
  driven.pair = pair;
  // A pair's seed is B's.
  drive_world(c, files, "A", c.a, c.same_seeds ? pair.seed : c.a.seed, driven, driven.a);
  drive_world(c, files, "B", c.b, pair.seed, driven, driven.b);
  return driven;
}

std::span<const NamedPair> first_of(const std::vector<NamedPair>& pairs, size_t most) {
  return std::span(pairs).first(std::min(most, pairs.size()));
}

}  // namespace

std::vector<DrivenPair> drive_worst(const Comparison& c, const DriveFiles& files, size_t most) {
  std::vector<DrivenPair> out;
  for (const NamedPair& pair : first_of(c.worst, most)) out.push_back(driven_again(c, files, pair));
  return out;
}

std::vector<DrivenPair> drive_newly_failed(const Comparison& c, const DriveFiles& files, size_t most) {
  std::vector<DrivenPair> out;
  for (const NamedPair& pair : c.newly_failed_names) {
    const bool drawn = std::ranges::any_of(first_of(c.worst, kDrawnPairs), [&](const NamedPair& other) {
      return other.scenario == pair.scenario && other.variant == pair.variant;
    });
    if (!drawn && out.size() < most) out.push_back(driven_again(c, files, pair));
  }
  return out;
}

void add_drives(drive::Page& page, const Comparison& c, std::span<const DrivenPair> driven) {
  std::set<std::string> told;
  for (const DrivenPair& pair : driven) {
    if (!pair.a.trace.rows.empty() || !pair.b.trace.rows.empty()) add_pair(page, c, pair);
    for (const DrivenWorld* world : {&pair.a, &pair.b}) {
      const bool drawn = !world->trace.rows.empty();
      if (world->why_not.empty() || !told.insert(world->why_not).second) continue;
      page.note((drawn ? "Drawn up to where " : "Not drawn over time: ") + world->why_not);
    }
  }
}

}  // namespace sparkpilot::sim
