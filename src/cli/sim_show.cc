#include "cli/sim_show.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/version.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "route/draw/page.h"
#include "sim/metrics.h"
#include "sim/run_summary.h"
#include "sim/scenario_file.h"
#include "sim/trace.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ShowFlags {
  SimFlags sim;
  std::string scenario, file, run, out, trace;
  std::optional<int64_t> variant;
};

// What is shown: a run of one world, and which of its variants.
struct Shown {
  std::unique_ptr<sim::ScenarioRun> run;
  int64_t variant = 0;
  std::string from;  // the run's folder
};

sim::Scenario one_scenario(const std::string& name) {
  for (const sim::Scenario& scenario : sim::scenarios()) {
    if (scenario.name == name) return scenario;
  }
  const std::vector<sim::Scenario> category = sim::select_scenarios(std::vector<std::string>{name});
  std::string names;
  for (const sim::Scenario& scenario : category) names += (names.empty() ? "" : ", ") + scenario.name;
  fail("\"{}\" is not one scenario; name one of {}", name, names);
}

// The car of a run: a file's has its name and a hash, and the file must be given again.
std::string vehicle_of(const ShowFlags& flags, const sim::RunInfo& info) {
  if (sim::is_preset(info.vehicle)) return info.vehicle;
  if (!sim::is_car_file(flags.sim.vehicle) || sim::find_car(flags.sim.vehicle).name != info.vehicle) {
    fail("{}: its car {} is from a file: give that file with --vehicle", flags.run, info.vehicle);
  }
  return flags.sim.vehicle;
}

// With a run all of this is the run's. What names the same files as the run did is needed where the run had files.
void refuse_idle(const Program& program, const sim::RunInfo& info) {
  for (const std::string& flag : given_flags(*program.at)) {
    const bool idle = flag == "--set" || flag == "--seed" || flag == "--plant" || flag == "--planner" ||
                      ((flag == "--algorithm" || flag == "--step-timeout") && info.algorithm_md5.empty()) ||
                      (flag == "--vehicle" && sim::is_preset(info.vehicle));
    if (idle) fail("{} has no effect with --run: a world of a run is shown as it was driven", flag);
  }
}

// The scenario of that name, of the program or the file; the run must have it.
sim::Scenario scenario_of_run(const ShowFlags& flags, const sim::RunInfo& info, const std::vector<sim::Scenario>& known,
                              const std::string& name) {
  if (std::ranges::find(info.scenarios, name) == info.scenarios.end()) {
    fail("{}: has no scenario \"{}\", but {}", flags.run, name,
         one_line(fmt::format("{}", fmt::join(info.scenarios, ", "))));
  }
  const auto found = std::ranges::find(known, name, &sim::Scenario::name);
  if (found == known.end() && !flags.file.empty()) {
    fail("{}: is the course {}, not {}: leave out --file or the name", flags.file, known[0].name, name);
  }
  if (found == known.end()) fail("{}: \"{}\" is a course of a file: give it with --file", flags.run, name);
  return *found;
}

// The world of a run that is named, or its worst.
Shown world_of_run(const Program& program, const ShowFlags& flags) {
  const sim::Results results = sim::read_results(flags.run, true);
  const sim::RunInfo& info = results.info;
  if (info.program != program_version()) {
    fail("{}: was made by version {}, this is {}: its worlds may be others", flags.run, info.program,
         program_version());
  }
  refuse_idle(program, info);
  std::vector<sim::Scenario> known(sim::scenarios().begin(), sim::scenarios().end());
  if (!flags.file.empty()) known = {sim::read_scenario(flags.file)};
  std::string name = flags.scenario;
  Shown shown;
  shown.variant = flags.variant.value_or(0);
  if (shown.variant >= info.variants) {
    fail("--variant {}: {} has {} of each scenario, from 0", shown.variant, flags.run, info.variants);
  }
  if (name.empty() && flags.variant) {
    if (flags.file.empty() && info.scenarios.size() != 1) {
      fail("--variant {}: name the scenario of {} that it is of", *flags.variant, flags.run);
    }
    name = flags.file.empty() ? info.scenarios[0] : known[0].name;
  }
  if (name.empty()) {
    const sim::RunSummary summary = sim::summarize_run(results.rows, info.metrics, known, 1);
    if (summary.worst.empty()) {
      if (std::ssize(results.rows) < std::ssize(info.scenarios) * info.variants) {
        fail("{}: the run is not finished: continue it with sim run --resume", flags.run);
      }
      if (!flags.file.empty()) scenario_of_run(flags, info, known, known[0].name);  // says which courses there are
      fail("{}: has no world of {}", flags.run,
           flags.file.empty() ? "a scenario of the program; give a course of yours with --file" : known[0].name);
    }
    const sim::ResultRow& worst = results.rows[summary.worst[0].row];
    name = worst.scenario;
    shown.variant = worst.variant;
  }
  sim::ScenarioRunOptions options = sim::options_of_run(info);
  options.scenarios = {scenario_of_run(flags, info, known, name)};
  options.variants = shown.variant + 1;
  if (!info.algorithm_md5.empty()) {
    if (!sim::UserAlgorithm::names_file(flags.sim.algorithm)) {
      fail("{}: was driven by {} (MD5 {}), which runs only if you name it: --algorithm FILE", flags.run, info.algorithm,
           info.algorithm_md5);
    }
    options.user = user_algorithm(program, flags.sim);
    if (options.user->hash() != info.algorithm_md5) {
      fail("{}: MD5 {}, {} was driven by one of {}", flags.sim.algorithm, options.user->hash(), flags.run,
           info.algorithm_md5);
    }
  }
  options.vehicle = vehicle_of(flags, info);
  shown.run = std::make_unique<sim::ScenarioRun>(std::move(options));
  shown.from = flags.run;
  return shown;
}

Shown world_of(const Program& program, const ShowFlags& flags) {
  if (flags.variant) expect_at_least("--variant", *flags.variant, 0);
  if (!flags.run.empty()) return world_of_run(program, flags);
  if (flags.scenario.empty() == flags.file.empty()) {
    fail("name a scenario (sim list), or a course with --file, or a run's folder with --run");
  }
  sim::ScenarioRunOptions options = scenario_run_options(program, flags.sim);
  options.scenarios = {flags.file.empty() ? one_scenario(flags.scenario) : sim::read_scenario(flags.file)};
  Shown shown;
  shown.variant = flags.variant.value_or(0);
  options.variants = shown.variant + 1;
  shown.run = std::make_unique<sim::ScenarioRun>(std::move(options));
  return shown;
}

std::string page_of(const Shown& shown, const sim::Trace& trace, bool lead, bool torque, const std::string& failed,
                    const std::vector<std::vector<std::string>>& parameters,
                    const std::vector<std::vector<std::string>>& figures) {
  const sim::Scenario& scenario = shown.run->scenario(0);
  const sim::RunInfo& info = shown.run->info();
  drive::Page page(scenario.name, scenario.purpose);
  page.text(fmt::format("Variant {} of seed {}, {} in a {} ({}).", shown.variant, info.seed, info.algorithm,
                        info.vehicle, info.plant));
  if (!failed.empty()) page.warning("failed: " + failed);
  page.section("Figures");
  page.table({"metric", "value", "bound", "unit"}, figures);
  page.section("Over time");
  for (const sim::TraceCurve& curve : sim::trace_curves(lead, torque)) {
    drive::Plot plot{.title = curve.title, .y_label = curve.unit};
    for (const auto& [column, name, wanted] : curve.series) {
      plot.series.push_back({name, sim::trace_column(trace, "time"), sim::trace_column(trace, column), wanted});
    }
    page.plot(plot);
  }
  page.section("Parameters");
  page.table({"parameter", "value", "unit", "range", "meaning"}, parameters);
  page.footer(fmt::format("sparkpilot {}, sim show {} --variant {} --seed {}", program_version(), scenario.name,
                          shown.variant, info.seed));
  return page.str();
}

// A line of blocks from the least to the greatest value.
std::string line_of(const std::vector<double>& values, size_t columns) {
  static const char* const kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  double low = INFINITY, high = -INFINITY;
  for (const double value : values) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  }
  std::string text;
  for (size_t i = 0; i < columns && !values.empty(); ++i) {
    const double value = values[std::min(i * values.size() / columns, values.size() - 1)];
    const double part = high > low ? (value - low) / (high - low) : 0.5;
    text += std::isfinite(value) ? kBlocks[std::clamp(static_cast<int>(part * 8), 0, 7)] : " ";
  }
  return fmt::format("{}  {:.3g} to {:.3g}", text, low + 0.0, high + 0.0);  // no -0
}

void write_file(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// What is written must not be what is read.
void check_outputs(const ShowFlags& flags) {
  expect_other_file("--out", flags.out, "--trace", flags.trace);
  std::vector<std::filesystem::path> read{flags.file};
  if (sim::UserAlgorithm::names_file(flags.sim.algorithm)) read.emplace_back(flags.sim.algorithm);
  if (sim::is_car_file(flags.sim.vehicle)) read.emplace_back(flags.sim.vehicle);
  for (const char* file : {sim::kRunFile, sim::kRowsFile, sim::kUnfinishedFile}) {
    if (!flags.run.empty()) read.push_back(std::filesystem::path(flags.run) / file);
  }
  for (const std::filesystem::path& file : read) {
    for (const std::string& out : {flags.out, flags.trace}) refuse_to_replace(out, file);
  }
}

int show(const Program& program, const ShowFlags& flags) {
  check_outputs(flags);
  const Shown shown = world_of(program, flags);
  const sim::ScenarioRun& run = *shown.run;
  const sim::Scenario& scenario = run.scenario(0);
  const sim::WorldSpec world = run.world(shown.variant);
  const sim::BatchOptions options = run.batch(scenario);
  sim::Trace trace;
  std::string failed;
  if (run.options().user) std::tie(trace, failed) = run.options().user->trace(world, run.drive(scenario));
  else trace = sim::trace_world(world, options);
  const bool measured = failed.empty();
  if (measured) failed = sim::failure_of(scenario, trace.result);
  const std::vector<double> drawn = sim::draw_parameters(scenario, shown.variant, run.info().seed);
  std::vector<std::vector<std::string>> parameters, figures;
  Json parameters_json = Json::object(), figures_json = Json::object();
  for (size_t i = 0; i < drawn.size(); ++i) {
    const sim::ScenarioRange& range = scenario.ranges[i];
    const auto table = sim::scenario_parameters();
    const auto what = std::ranges::find(table, range.parameter, &sim::ScenarioParameter::name);
    parameters.push_back({std::string(range.parameter), fmt::format("{:.4g}", drawn[i]), std::string(what->unit),
                          fmt::format("{:g} to {:g}", range.low, range.high), std::string(what->meaning)});
    parameters_json[std::string(range.parameter)] = drawn[i];
  }
  auto values = sim::metric_values(trace.result);
  if (!measured) std::ranges::fill(values, std::nullopt);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = sim::world_metrics()[i];
    const sim::Metric* metric = sim::find_metric(name);
    const auto bound = std::ranges::find(scenario.bounds, std::string_view(name), &sim::ScenarioBound::metric);
    const bool bounded = bound != scenario.bounds.end();
    figures.push_back({name, values[i] ? fmt::format("{:.3g}", *values[i]) : "-",
                       bounded ? fmt::format("{} {:g}", metric->less_is_better ? "<=" : ">=", bound->limit) : "",
                       std::string(metric->unit)});
    figures_json[name] = values[i] ? Json(*values[i]) : Json();
  }
  const bool torque = options.lateral != sim::Lateral::angle;
  if (!flags.trace.empty()) write_file(flags.trace, sim::trace_csv(trace));
  if (!flags.out.empty())
    write_file(flags.out, page_of(shown, trace, sim::has_lead(world), torque, failed, parameters, figures));
  if (program.json) {
    print_json({{"scenario", scenario.name},
                {"category", scenario.category},
                {"purpose", scenario.purpose},
                {"seconds", scenario.seconds},
                {"variant", shown.variant},
                {"seed", run.info().seed},
                {"algorithm", run.info().algorithm},
                {"vehicle", run.info().vehicle},
                {"plant", run.info().plant},
                {"planner", run.info().planner},
                {"parameters", std::move(parameters_json)},
                {"metrics", std::move(figures_json)},
                {"passed", failed.empty()},
                {"reason", failed}});
    return kDone;
  }
  print(fmt::format("{} ({}): {}\n", painted(scenario.name, Paint::bold), scenario.category, scenario.purpose));
  print(fmt::format("{:g} s, variant {} of seed {}, {} in a {} ({})\n\n", scenario.seconds, shown.variant,
                    run.info().seed, run.info().algorithm, run.info().vehicle, run.info().plant));
  Table table({"parameter", "value", "unit", "range", "meaning"});
  for (const auto& row : parameters) table.add(row);
  print(table.str() + "\n");
  for (const sim::TraceCurve& curve : sim::trace_curves(sim::has_lead(world), torque)) {
    const std::string line = line_of(sim::trace_column(trace, curve.series[0].column), 60);
    print(fmt::format("{:34} {} {}\n", curve.title, line, curve.unit));
  }
  Table results({"metric", "value", "bound", "unit"});
  for (const auto& row : figures) results.add(row);
  print("\n" + results.str());
  print(failed.empty() ? "passed\n" : "failed: " + failed + "\n");
  return kDone;
}

}  // namespace

void add_sim_show(Program& program, Command group) {
  const auto flags = std::make_shared<ShowFlags>();
  const Command command =
      add_command(program, group, "show", "a scenario, or a world of a run, as numbers and pictures",
                  "  sparkpilot sim show lane_change_quick --out lane_change.html\n"
                  "  sparkpilot sim show curve_firm --variant 12 --set kp=5 --trace curve.csv\n"
                  "  sparkpilot sim show --run runs/default        (its worst world)\n"
                  "  sparkpilot sim show --run runs/default curve_firm --variant 12\n"
                  "  sparkpilot sim show --run runs/bend --file bend.csv",
                  [&program, flags] { return show(program, *flags); });
  command.add_option("scenario", flags->scenario, "its name in sim list; with --run: of the run, else its worst")
      .type_name("SCENARIO");
  command.add_option("--file", flags->file, "a course from a table, as in sim run; with --run: the one that was driven")
      .type_name("F.csv");
  command.add_option("--run", flags->run, "folder of a run, whose algorithm, parameters, car and seed are taken")
      .type_name("DIR");
  command
      .add_option(
          "--variant", [flags](const std::string& text) { flags->variant = parse_number(text, "--variant"); },
          "which variant; 0: as it is named")
      .type_name("N");
  add_sim_flags(command, flags->sim);
  command.add_option("-o,--out", flags->out, "write a page with plots over time: one HTML file").type_name("F.html");
  command.add_option("--trace", flags->trace, "write the world as a table, a row for each 50 ms").type_name("F.csv");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
