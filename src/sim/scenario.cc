#include "sim/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/fnv.h"
#include "base/nearest.h"
#include "base/random.h"
#include "sim/metrics.h"

namespace sparkpilot::sim {
namespace {

// A world's figure, or none.
struct WorldMetric {
  const char* name;
  std::optional<double> (*of)(const WorldResult&);
};
using R = WorldResult;
using Figure = std::optional<double>;
constexpr WorldMetric kWorldMetrics[] = {
    {"tracking_rmse", [](const R& r) { return Figure(r.tracking_rmse); }},
    {"tracking_max", [](const R& r) { return Figure(r.tracking_max); }},
    {"jerk_rms", [](const R& r) { return Figure(r.jerk_rms); }},
    {"saturated", [](const R& r) { return Figure(r.saturated); }},
    {"offset_max", [](const R& r) { return Figure(r.offset_max); }},
    {"offset_end", [](const R& r) { return Figure(std::fabs(r.offset)); }},
    {"speed_rmse", [](const R& r) { return Figure(r.speed_rmse); }},
    {"longitudinal_jerk_rms", [](const R& r) { return Figure(r.longitudinal_jerk_rms); }},
    {"deceleration_max", [](const R& r) { return Figure(r.deceleration_max); }},
    {"gap_min", [](const R& r) { return r.gap_min; }},
    {"time_to_collision_min", [](const R& r) { return r.time_to_collision_min; }},
    {"collisions", [](const R& r) { return Figure(r.collided ? 1 : 0); }},
    {"safety_margin_min", [](const R& r) { return r.safety_margin_min; }},
    {"unsolved_plans", [](const R& r) { return r.unsolved_plans; }},
    {"infeasible_plans", [](const R& r) { return r.infeasible_plans; }},
};

const ScenarioRange* range_of(const Scenario& scenario, std::string_view parameter) {
  const auto found = std::ranges::find(scenario.ranges, parameter, &ScenarioRange::parameter);
  return found == scenario.ranges.end() ? nullptr : &*found;
}

uint64_t number_of(const std::string& scenario, int64_t variant) {
  return Fnv(static_cast<uint64_t>(variant)).text(scenario).value() >> 18;
}

// By the parameter's name, so that a new one changes no other's draws.
uint64_t key_of(const Scenario& scenario, const ScenarioRange& range, uint64_t seed) {
  return Fnv(seed).text(scenario.name).text("/").text(range.parameter).value();
}
double drawn(const ScenarioRange& range, uint64_t key, int64_t variant) {
  if (variant == 0) return range.usual;
  const std::array<uint32_t, 4> words = sparkpilot::philox4x32(key, static_cast<uint64_t>(variant));
  const double part = (words[0] >> 5) * 0x1p-27 + (words[1] >> 6) * 0x1p-53;
  return range.low + (range.high - range.low) * part;
}

}  // namespace

std::vector<Scenario> select_scenarios(std::span<const std::string> names) {
  std::set<std::string, std::less<>> known{"all"};
  for (const Scenario& scenario : scenarios()) known.insert({scenario.name, scenario.category});
  for (const std::string& name : names) {
    if (known.contains(name)) continue;
    fail("no scenario or category is named \"{}\"{}; sim list prints them", name,
         did_you_mean(name, {known.begin(), known.end()}));
  }
  std::vector<Scenario> selected;
  for (const Scenario& scenario : scenarios()) {
    const bool wanted = std::ranges::any_of(names, [&](const std::string& name) {
      return name == "all" || name == scenario.name || name == scenario.category;
    });
    if (wanted) selected.push_back(scenario);
  }
  return selected;
}

std::vector<double> draw_parameters(const Scenario& scenario, int64_t variant, uint64_t seed) {
  std::vector<double> values;
  for (const ScenarioRange& range : scenario.ranges)
    values.push_back(drawn(range, key_of(scenario, range, seed), variant));
  return values;
}

ScenarioWorlds::ScenarioWorlds(const Scenario& scenario, uint64_t seed) : name_(scenario.name), table_(scenario.table) {
  for (const ScenarioParameter& parameter : scenario_parameters()) {
    const ScenarioRange* range = range_of(scenario, parameter.name);
    if (range) draws_.push_back({parameter.apply, *range, key_of(scenario, *range, seed)});
  }
}

WorldSpec ScenarioWorlds::world(int64_t variant, const Vehicle& vehicle, const Steering& steering,
                                const Powertrain& powertrain) const {
  WorldSpec world;
  world.vehicle = vehicle;
  world.steering = steering;
  world.powertrain = powertrain;
  world.number = number_of(name_, variant);
  if (table_) {
    world.course.table = table_;
    world.course.speed = table_->speed.front();
  }
  for (const Draw& draw : draws_) draw.apply(world, drawn(draw.range, draw.key, variant));
  return world;
}

WorldSpec scenario_world(const Scenario& scenario, int64_t variant, uint64_t seed, const Vehicle& vehicle,
                         const Steering& steering, const Powertrain& powertrain) {
  return ScenarioWorlds(scenario, seed).world(variant, vehicle, steering, powertrain);
}

Planner planner_named(std::string_view name) {
  const auto found = std::ranges::find(kPlannerNames, name);
  if (found == std::end(kPlannerNames)) {
    fail("no planner is named \"{}\", expected {}", name, fmt::join(kPlannerNames, ", "));
  }
  return static_cast<Planner>(found - std::begin(kPlannerNames));
}

Tyres plant_tyres(std::string_view plant) {
  if (plant == "bicycle") return Tyres::saturating;
  if (plant == "bicycle_linear") return Tyres::linear;
  if (plant == "kinematic") return Tyres::none;
  fail("no plant is named \"{}\", expected bicycle, bicycle_linear or kinematic", plant);
}

std::span<const std::string> world_metrics() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const WorldMetric& metric : kWorldMetrics) list.emplace_back(metric.name);
    return list;
  }();
  return names;
}

std::vector<std::optional<double>> metric_values(const WorldResult& result) {
  std::vector<std::optional<double>> values;
  for (const WorldMetric& metric : kWorldMetrics) values.push_back(metric.of(result));
  return values;
}

std::string failure_of(const Scenario& scenario, const WorldResult& result) {
  std::string text;
  if (result.diverged) text = fmt::format("diverged at {:.2f} s", static_cast<double>(*result.diverged) * kStep);
  for (const auto& [name, limit] : scenario.bounds) {
    const Metric* metric = find_metric(name);
    const auto* of =
        std::ranges::find(kWorldMetrics, name, [](const WorldMetric& m) { return std::string_view(m.name); });
    if (metric == nullptr || of == std::end(kWorldMetrics)) fail_internal("sim: no metric {}", name);
    const Figure value = of->of(result);
    if (!value || (metric->less_is_better ? *value <= limit : *value >= limit)) continue;
    text +=
        fmt::format("{}{} {:.3g} {} {:.3g}{}{}", text.empty() ? "" : "; ", name, *value,
                    metric->less_is_better ? "above" : "below", limit, metric->unit.empty() ? "" : " ", metric->unit);
  }
  return text;
}

}  // namespace sparkpilot::sim
