#include "cli/sim_run.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "sim/run_summary.h"
#include "sim/scenario_file.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kRowsAtOnce = 8192;

struct RunCommandFlags {
  SimFlags sim;
  std::vector<std::string> scenarios, files;
  int64_t variants = 1, workers = 0;
  std::string out;
  bool resume = false, check = false;
};

struct Finished {
  sim::RunInfo info;
  std::vector<sim::ResultRow> rows;
  bool stopped = false;
};

// Runs what is missing; without a folder, all of it into memory.
Finished compute(const Program& program, const RunCommandFlags& flags, const sim::ScenarioRun& run) {
  const StopOnInterrupt stop;
  std::unique_ptr<sim::ResultWriter> writer;
  if (!flags.out.empty()) writer = std::make_unique<sim::ResultWriter>(flags.out, run.info(), flags.resume);
  Finished done{run.info(), {}, false};
  const int64_t all = run.rows(), begun = writer ? writer->rows() : 0;
  if (begun > all) fail("{}: {} rows, expected at most {}", flags.out, begun, all);
  int64_t row = begun, spent = 0;
  {
    Progress progress(!program.quiet, "worlds");
    while (row < all && !stop.requested()) {
      progress.at(static_cast<double>(row) / static_cast<double>(all));
      const int64_t next = std::min(row + kRowsAtOnce, all), start = now_ns();
      std::vector<sim::ResultRow> rows = run.run(row, next, &stop.requested());
      if (rows.empty()) break;  // stopped meanwhile
      spent += now_ns() - start;
      if (writer) writer->add(rows);
      else
        done.rows.insert(done.rows.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
      row = next;
    }
  }
  done.stopped = row < all;
  done.info.steps = run.steps(0, row);
  if (row > begun)
    done.info.steps_per_second = static_cast<double>(run.steps(begun, row)) / (static_cast<double>(spent) * 1e-9);
  if (!done.stopped && (!writer || !writer->finished())) {
    if (run.options().user) run.options().user->check_unchanged();
    if (const auto latency = run.latency()) {
      done.info.update_p50_us = latency->p50_us;
      done.info.update_p99_us = latency->p99_us;
    }
    if (writer) writer->finish(done.info);
  }
  if (writer) {
    sim::Results results = sim::read_results(flags.out, done.stopped);
    done.rows = std::move(results.rows);
    if (!done.stopped) done.info = std::move(results.info);
  }
  return done;
}

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

Json json_of(const RunCommandFlags& flags, const Finished& done, const sim::RunSummary& summary) {
  Json parameters = Json::object(), categories = Json::array(), worst = Json::array();
  for (const sim::Parameter& parameter : done.info.parameters) parameters[parameter.name] = parameter.value;
  for (const sim::CategorySummary& category : summary.categories) {
    Json means = Json::object();
    for (size_t m = 0; m < done.info.metrics.size(); ++m)
      means[done.info.metrics[m]] = number_or_null(category.means[m]);
    categories.push_back({{"category", category.category},
                          {"worlds", category.worlds},
                          {"passed", category.passed},
                          {"diverged", category.diverged},
                          {"means", std::move(means)}});
  }
  for (const sim::WorstWorld& world : summary.worst) {
    const sim::ResultRow& row = done.rows[world.row];
    worst.push_back({{"scenario", row.scenario},
                     {"category", row.category},
                     {"variant", row.variant},
                     {"passed", row.passed},
                     {"metric", world.metric.empty() ? Json() : Json(world.metric)},
                     {"of_bound", number_or_null(world.of_bound)},
                     {"reason", row.reason}});
  }
  return {{"folder", flags.out.empty() ? Json() : Json(flags.out)},
          {"stopped", done.stopped},
          {"algorithm", done.info.algorithm},
          {"algorithm_md5", done.info.algorithm_md5.empty() ? Json() : Json(done.info.algorithm_md5)},
          {"parameters", std::move(parameters)},
          {"vehicle", done.info.vehicle},
          {"plant", done.info.plant},
          {"planner", done.info.planner},
          {"seed", done.info.seed},
          {"variants", done.info.variants},
          {"instruction_set", done.info.instruction_set},
          {"worlds", summary.worlds},
          {"passed", summary.passed},
          {"diverged", summary.diverged},
          {"steps", done.info.steps},
          {"steps_per_second", number_or_null(done.info.steps_per_second)},
          {"update_p50_us", number_or_null(done.info.update_p50_us)},
          {"update_p99_us", number_or_null(done.info.update_p99_us)},
          {"categories", std::move(categories)},
          {"worst", std::move(worst)}};
}

std::string digits(const std::optional<double>& value) { return value ? fmt::format("{:.3g}", *value) : "-"; }

void print_summary(const RunCommandFlags& flags, const Finished& done, const sim::RunSummary& summary) {
  const sim::RunInfo& info = done.info;
  constexpr std::pair<const char*, const char*> kShown[] = {
      {"tracking_rmse", "tracking m/s^2"}, {"jerk_rms", "jerk m/s^3"},  {"offset_max", "offset m"},
      {"saturated", "saturated"},          {"speed_rmse", "speed m/s"}, {"gap_min", "gap m"},
      {"collisions", "collisions"}};
  std::vector<std::string> headings{"category", "worlds", "passed", "diverged"};
  for (const auto& [metric, heading] : kShown) headings.emplace_back(heading);
  Table table(headings);
  for (const sim::CategorySummary& category : summary.categories) {
    std::vector<std::string> cells{category.category, std::to_string(category.worlds), std::to_string(category.passed),
                                   std::to_string(category.diverged)};
    for (const auto& [metric, heading] : kShown) {
      const auto column =
          static_cast<size_t>(std::find(info.metrics.begin(), info.metrics.end(), metric) - info.metrics.begin());
      cells.push_back(column < info.metrics.size() ? digits(category.means[column]) : "-");
    }
    table.add(cells);
  }
  print(fmt::format("{} in a {} ({}), seed {}: {} of {} passed, {} diverged\n\n", info.algorithm, info.vehicle,
                    info.plant, info.seed, summary.passed, count_of(summary.worlds, "world"), summary.diverged));
  print(table.str() + "\n");
  Table worst({"nearest to its bounds", "variant", "of bound", "metric", "why it failed"});
  for (const sim::WorstWorld& world : summary.worst) {
    const sim::ResultRow& row = done.rows[world.row];
    worst.add({row.scenario, std::to_string(row.variant),
               std::isfinite(world.of_bound) ? fixed(world.of_bound, 2) : "beyond",
               world.metric.empty() ? "diverged" : world.metric, row.passed ? "passed" : row.reason});
  }
  print(worst.str());
  if (info.steps_per_second) {
    print(fmt::format("\n{} steps, {} a second on {} ({})", human_count(static_cast<double>(info.steps)),
                      human_count(*info.steps_per_second), count_of(info.threads, "thread"), info.instruction_set));
    if (info.update_p50_us)
      print(fmt::format("; an update {:.3f} us, p99 {:.3f} us", *info.update_p50_us, *info.update_p99_us));
    print("\n");
  }
  if (!flags.out.empty())
    print(fmt::format("{}: {}\n", flags.out,
                      done.stopped ? "stopped: the same command with --resume continues" : "finished"));
}

int run_scenarios(const Program& program, const RunCommandFlags& flags) {
  expect_at_least("--variants", flags.variants, 1);
  if (flags.resume && flags.out.empty()) fail("--resume needs --out: it continues what is in a folder");
  expect_at_least("--workers", flags.workers, 0);
  sim::ScenarioRunOptions options = scenario_run_options(program, flags.sim);
  if (flags.scenarios.empty() && flags.files.empty()) fail("name scenarios with --scenarios, or a course with --file");
  options.scenarios = sim::select_scenarios(split_names(flags.scenarios));
  for (const std::string& file : flags.files) options.scenarios.push_back(sim::read_scenario(file));
  options.variants = flags.variants;
  const bool own_workers = options.user && flags.workers > 0;
  const ThreadScope threads(own_workers ? static_cast<int>(std::min<int64_t>(flags.workers, 1024))
                                        : chosen_threads(program).value_or(0));
  const sim::ScenarioRun run(std::move(options));
  const Finished done = compute(program, flags, run);
  const sim::RunSummary summary = sim::summarize_run(done.rows, done.info.metrics, run.options().scenarios);
  if (program.json) print_json(json_of(flags, done, summary));
  else print_summary(flags, done, summary);
  if (done.stopped) return kInterrupted;
  return flags.check && summary.passed < summary.worlds ? kCheckFailed : kDone;
}

}  // namespace

void add_sim_run(Program& program, Command group) {
  const auto flags = std::make_shared<RunCommandFlags>();
  const Command command =
      add_command(program, group, "run", "drive scenarios with an algorithm: figures by category, and the worst worlds",
                  "  sparkpilot sim run --algorithm lateral_torque --scenarios curves\n"
                  "  sparkpilot sim run --scenarios all --variants 1000 --out runs/default\n"
                  "  sparkpilot sim run --scenarios all --variants 1000 --set kp=1.2 --out runs/kp12\n"
                  "  sparkpilot sim run --algorithm ./my_control.so --scenarios curves --set kp=1.2\n"
                  "  sparkpilot sim run --algorithm my_control.py --scenarios curves --workers 4\n"
                  "Ctrl-C leaves a folder that the same command with --resume continues, to the same bytes.",
                  [&program, flags] { return run_scenarios(program, *flags); });
  add_list(command, "--scenarios", flags->scenarios, "NAME[,NAME...]", "scenarios and categories (sim list), or all");
  add_list(command, "--file", flags->files, "F.csv", "a scenario from a table: time_s, speed_m_per_s, curvature_per_m");
  add_number(command, "--variants", flags->variants,
             "worlds of each scenario: the first as it is named, the others drawn");
  add_sim_flags(command, flags->sim);
  add_number(command, "--workers", flags->workers, "processes of an algorithm of your own; 0: as many as threads");
  command.add_option("-o,--out", flags->out, "folder of the results, which sim compare reads").type_name("DIR");
  command.add_flag("--resume", flags->resume, "continue the run in --out");
  command.add_flag("--check", flags->check, "exit with 4 if a world does not keep its scenario's bounds");
  add_setting(program, command, "threads", "a number; 0 or auto: every processor");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
