#include "cli/sim_list.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "sim/algorithm.h"
#include "sim/metrics.h"
#include "sim/scenario.h"
#include "sim/vehicle.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

Json vehicles_json() {
  Json list = Json::array();
  for (const auto& [name, car] : sim::vehicle_presets()) {
    list.push_back({{"name", name},
                    {"mass_kg", car.mass},
                    {"inertia_kg_m2", car.inertia},
                    {"wheelbase_m", car.wheelbase},
                    {"center_to_front_m", car.center_to_front},
                    {"stiffness_front_n_per_rad", car.stiffness_front},
                    {"stiffness_rear_n_per_rad", car.stiffness_rear},
                    {"steer_ratio", car.steer_ratio}});
  }
  return list;
}

Json metrics_json() {
  Json list = Json::array();
  for (const sim::Metric& metric : sim::all_metrics()) {
    list.push_back({{"name", metric.name},
                    {"unit", metric.unit},
                    {"better", metric.less_is_better ? "less" : "more"},
                    {"meaning", metric.meaning}});
  }
  return list;
}

Json scenarios_json() {
  Json list = Json::array();
  for (const sim::Scenario& scenario : sim::scenarios()) {
    Json parameters = Json::array(), bounds = Json::array();
    for (const sim::ScenarioRange& range : scenario.ranges) {
      const auto table = sim::scenario_parameters();
      const auto what = std::ranges::find(table, range.parameter, &sim::ScenarioParameter::name);
      parameters.push_back({{"name", range.parameter},
                            {"unit", what->unit},
                            {"low", range.low},
                            {"high", range.high},
                            {"default", range.usual},
                            {"meaning", what->meaning}});
    }
    for (const auto& [name, limit] : scenario.bounds) {
      const sim::Metric* metric = sim::find_metric(name);
      bounds.push_back(
          {{"metric", name}, {"unit", metric->unit}, {metric->less_is_better ? "at_most" : "at_least", limit}});
    }
    list.push_back({{"name", scenario.name},
                    {"category", scenario.category},
                    {"purpose", scenario.purpose},
                    {"seconds", scenario.seconds},
                    {"parameters", std::move(parameters)},
                    {"bounds", std::move(bounds)}});
  }
  return list;
}

Json parameters_json(const sim::Algorithm& algorithm) {
  Json list = Json::array();
  const std::vector<sim::Parameter> values = sim::algorithm_parameters(algorithm, {});
  for (size_t i = 0; i < values.size(); ++i) {
    const bool own = i < algorithm.own.size();
    const sim::AlgorithmParameter& what = own ? algorithm.own[i] : sim::shared_parameters()[i - algorithm.own.size()];
    list.push_back({{"name", what.name}, {"unit", what.unit}, {"default", values[i].value}, {"meaning", what.meaning}});
  }
  return list;
}

Json algorithms_json() {
  Json list = Json::array();
  for (const sim::Algorithm& algorithm : sim::algorithms())
    list.push_back({{"name", algorithm.name}, {"doc", algorithm.doc}, {"parameters", parameters_json(algorithm)}});
  return list;
}

void print_scenarios() {
  Table table({"scenario", "category", "seconds", "purpose"});
  for (const sim::Scenario& scenario : sim::scenarios())
    table.add({scenario.name, scenario.category, fixed(scenario.seconds, 0), scenario.purpose});
  print(table.str());
}

void print_algorithms() {
  const auto add_parameters = [](const Json& parameters, size_t first, size_t last) {
    Table table({"parameter", "default", "unit", "meaning"});
    for (size_t i = first; i < last; ++i) {
      const Json& p = parameters[i];
      table.add({p["name"], fmt::format("{:g}", p["default"].get<double>()), p["unit"], p["meaning"]});
    }
    print(table.str() + "\n");
  };
  for (const sim::Algorithm& algorithm : sim::algorithms()) {
    print(painted(algorithm.name, Paint::bold) + ": " + std::string(algorithm.doc) + "\n");
    add_parameters(parameters_json(algorithm), 0, algorithm.own.size());
  }
  print("Of all of them:\n");
  const sim::Algorithm& first = sim::algorithms().front();
  add_parameters(parameters_json(first), first.own.size(), first.own.size() + sim::shared_parameters().size());
}

void print_vehicles() {
  Table vehicles({"vehicle", "mass kg", "wheelbase m", "steer ratio"});
  for (const auto& [name, car] : sim::vehicle_presets())
    vehicles.add({std::string(name), fixed(car.mass, 0), fixed(car.wheelbase, 2), fixed(car.steer_ratio, 1)});
  print(vehicles.str());
}

void print_metrics() {
  Table metrics({"metric", "unit", "better", "meaning"});
  for (const sim::Metric& metric : sim::all_metrics()) {
    metrics.add({std::string(metric.name), std::string(metric.unit), metric.less_is_better ? "less" : "more",
                 std::string(metric.meaning)});
  }
  print(metrics.str());
}

struct ListFlags {
  bool algorithms = false, vehicles = false, metrics = false;
};

int list(const Program& program, const ListFlags& flags) {
  const bool all = !flags.algorithms && !flags.vehicles && !flags.metrics;
  if (program.json) {
    Json json;
    if (all) json["scenarios"] = scenarios_json();
    if (all || flags.algorithms) json["algorithms"] = algorithms_json();
    if (all || flags.vehicles) json["vehicles"] = vehicles_json();
    if (all || flags.metrics) json["metrics"] = metrics_json();
    print_json(json);
    return kDone;
  }
  if (all) print_scenarios();
  if (flags.algorithms) print_algorithms();
  if (flags.vehicles) print_vehicles();
  if (flags.metrics) print_metrics();
  return kDone;
}

}  // namespace

void add_sim_list(Program& program, Command group) {
  const auto flags = std::make_shared<ListFlags>();
  const Command command =
      add_command(program, group, "list", "scenarios; algorithms with their parameters, vehicles, metrics",
                  "  sparkpilot sim list\n  sparkpilot sim list --algorithms\n"
                  "  sparkpilot sim list --json        (all of it, with ranges, units and bounds)",
                  [&program, flags] { return list(program, *flags); });
  command.add_flag("--algorithms", flags->algorithms, "algorithms and their parameters");
  command.add_flag("--vehicles", flags->vehicles, "cars");
  command.add_flag("--metrics", flags->metrics, "the figures of a world");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
