#include "cli/sim_fit.h"

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/text.h"
#include "cli/json_values.h"
#include "cli/route_signals.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "route/log/route.h"
#include "sim/car_fit.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct FitFlags {
  std::string route, vehicle, out;
  uint64_t seed = 1;
};

Json json_of(const RouteSignals& route, const sim::CarFit& fit, const FitFlags& flags) {
  Json numbers = Json::array();
  for (const sim::FittedNumber& number : fit.numbers) {
    numbers.push_back({{"name", number.name},
                       {"unit", number.unit},
                       {"identifiable", number.value.has_value()},
                       {"value", or_null(number.value)},
                       {"low", number.value ? Json(number.low) : Json()},
                       {"high", number.value ? Json(number.high) : Json()},
                       {"reason", or_null(number.reason)},
                       {"logged", or_null(number.logged)},
                       {"logged_source", or_null(number.logged_source)}});
  }
  return {{"route", route.name},
          {"car_fingerprint", or_null(fit.fingerprint)},
          {"duration_s", fit.seconds},
          {"car_state_hz", fit.rate},
          {"driven_s", fit.driven_seconds},
          {"turning_s", fit.turning_seconds},
          {"turning_speed_low_m_per_s", or_null(fit.slowest_turn)},
          {"turning_speed_high_m_per_s", or_null(fit.fastest_turn)},
          {"steered_s", fit.steered_seconds},
          {"yaw_rate_source", or_null(fit.yaw_source)},
          {"command_source", or_null(fit.command_source)},
          {"yaw_rate_residual_rad_per_s", or_null(fit.yaw_deviation)},
          {"steering_residual_m_per_s2", or_null(fit.wheel_deviation)},
          {"steering_explained", or_null(fit.explained)},
          {"confidence", 0.95},
          {"numbers", std::move(numbers)},
          {"file", or_null(flags.out)},
          {"file_from_fit", flags.out.empty() ? Json() : Json(fit.fitted)},
          {"file_from_log", flags.out.empty() ? Json() : Json(fit.logged)}};
}

// A number and an interval with the digits that tell them apart.
std::string digits(double value) { return fmt::format("{:.4g}", value); }

void print_fit(const RouteSignals& route, const sim::CarFit& fit, const FitFlags& flags) {
  print(
      fmt::format("{}{}{}\n", painted(route.name, Paint::bold), fit.fingerprint.empty() ? "" : ": ", fit.fingerprint));
  print(fmt::format("{:.1f} s, carState at {:.4g} Hz; driven {:.1f} s, turning {:.1f} s", fit.seconds, fit.rate,
                    fit.driven_seconds, fit.turning_seconds));
  if (fit.slowest_turn) print(fmt::format(" (at {:.3g} to {:.3g} m/s)", *fit.slowest_turn, *fit.fastest_turn));
  print(fmt::format(", steered by openpilot {:.1f} s\n", fit.steered_seconds));
  print(fmt::format("yaw rate: {}; commands: {}\n\n", fit.yaw_source.empty() ? "none" : fit.yaw_source,
                    fit.command_source.empty() ? "none" : fit.command_source));
  Table table({"number", "value", "95 % interval", "unit", "the log says", "from"});
  for (const sim::FittedNumber& number : fit.numbers) {
    const std::string logged = number.logged ? digits(*number.logged) : "-";
    if (number.value) {
      table.add({number.name, digits(*number.value), digits(number.low) + " to " + digits(number.high), number.unit,
                 logged, number.logged_source});
      continue;
    }
    table.add({number.name, "not identifiable", "", number.unit, logged, number.logged_source});
  }
  print(table.str());
  for (size_t i = 0; i < fit.numbers.size();) {  // a reason once for all numbers in a row that it holds for
    const size_t first = i;
    std::string names = fit.numbers[i].name;
    for (++i; i < fit.numbers.size() && fit.numbers[i].reason == fit.numbers[first].reason; ++i) {
      names += ", " + fit.numbers[i].name;
    }
    if (i - first == fit.numbers.size()) names = "none of them";
    if (!fit.numbers[first].value) print(fmt::format("\n{}: {}", names, fit.numbers[first].reason));
  }
  print("\n");
  if (flags.out.empty()) return;
  print(fmt::format("\n{}: {} numbers from the fit, {} from the log, the rest {}\n", flags.out, fit.fitted.size(),
                    fit.logged.size(), flags.vehicle.empty() ? "a Civic's" : "of --vehicle " + flags.vehicle));
  print(fmt::format("sparkpilot sim run --scenarios all{} --vehicle {}", fit.torque ? "" : " --algorithm lateral_angle",
                    shell_word(flags.out)));
  if (fit.torque) {
    print(fmt::format(" --set accel_factor={:.4g} --set friction={:.4g}", fit.car.steering.accel_factor,
                      fit.car.steering.friction));
  }
  print("\n");
}

// What is written must be none of the route's files, and not the car that the fit begins with.
void check_out(const Program& program, const FitFlags& flags) {
  if (sim::is_car_file(flags.vehicle)) refuse_to_replace(flags.out, flags.vehicle);
  for (const drive::Segment& s : drive::find_route(flags.route, {program.settings["data"].value}).segments) {
    for (const fs::path& file : {s.rlog, s.qlog, s.road_video, s.wide_video, s.driver_video, s.qcamera}) {
      refuse_to_replace(flags.out, file);
    }
  }
}

int run_fit(const Program& program, const FitFlags& flags) {
  expect_one_process();
  sim::CarFitOptions options{.seed = flags.seed};
  if (!flags.vehicle.empty()) options.base = sim::find_car(flags.vehicle);
  if (!flags.out.empty()) check_out(program, flags);
  const RouteSignals route = read_route_signals(program, flags.route);
  const sim::CarFit fit = sim::fit_car(route.signals, options);
  if (!flags.out.empty()) {
    std::map<std::string, std::string> sources;
    for (const std::string& key : fit.logged) sources[key] = "log";
    for (const std::string& key : fit.fitted) sources[key] = "fit";
    AtomicFile file(flags.out);
    file.write(sim::car_text(fit.car, sources));
    file.commit();
  }
  if (program.json) print_json(json_of(route, fit, flags));
  else print_fit(route, fit, flags);
  return kDone;
}

}  // namespace

void add_sim_fit(Program& program, Command group) {
  const auto flags = std::make_shared<FitFlags>();
  const Command command = add_command(
      program, group, "fit",
      "steer ratio, tyre stiffness, steering delay and friction from a drive, with intervals (docs/sim_fit.md)",
      "  sparkpilot sim fit /data/2023-07-27--13-01-19 --out corolla.json\n"
      "  sparkpilot sim run --scenarios curves --vehicle ./corolla.json\n"
      "What a drive does not determine is answered \"not identifiable\", with the reason.",
      [&program, flags] { return run_fit(program, *flags); });
  add_route_flags(program, command, flags->route);
  command
      .add_option("--vehicle", flags->vehicle,
                  "the car's mass and lengths, instead of the log's carParams: a preset or a car's file")
      .type_name("NAME|F.json");
  command.add_option("-o,--out", flags->out, "write the car for --vehicle: what is identified, the rest from carParams")
      .type_name("F.json");
  add_number(command, "--seed", flags->seed, "of the bootstrap of the intervals");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
