#include "cli/sim_list.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/terminal.h"
#include "sim/metrics.h"
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

int list(const Program& program) {
  if (program.json) {
    print_json({{"vehicles", vehicles_json()}, {"metrics", metrics_json()}});
    return kDone;
  }
  Table vehicles({"vehicle", "mass kg", "wheelbase m", "steer ratio"});
  for (const auto& [name, car] : sim::vehicle_presets())
    vehicles.add({std::string(name), fixed(car.mass, 0), fixed(car.wheelbase, 2), fixed(car.steer_ratio, 1)});
  print(vehicles.str() + "\n");
  Table metrics({"metric", "unit", "better", "meaning"});
  for (const sim::Metric& metric : sim::all_metrics()) {
    metrics.add({std::string(metric.name), std::string(metric.unit), metric.less_is_better ? "less" : "more",
                 std::string(metric.meaning)});
  }
  print(metrics.str());
  return kDone;
}

}  // namespace

void add_sim_list(Program& program, Command group) {
  const Command command =
      add_command(program, group, "list", "vehicles and metrics", "  sparkpilot sim list\n  sparkpilot sim list --json",
                  [&program] { return list(program); });
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
