#include "cli/sim_run.h"

#include <atomic>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "cli/interrupt.h"
#include "cli/processes.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "sim/run_summary.h"
#include "sim/scenario_file.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kRowsAtOnce = 8192, kRowsAtOnceOnGpu = 65536;
// A user's algorithm may be slow: so few at first, then as many as take about a second, which is what Ctrl-C may lose.
constexpr int64_t kFewRows = 32;

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

// Fails in all processes if one would make other rows of the same world.
void expect_same_run(const sim::RunInfo& info, Comm& comm) {
  const std::string shared = comm.share(sim::text_of_run(info));
  comm.together([&] {
    sim::RunInfo first = sim::parse_run(shared, "process 0's run");
    const std::string set = std::exchange(first.instruction_set, info.instruction_set);
    // A scenario of a file has a hash of what is in it in its name.
    if (!first.same_run(info)) {
      fail("process {} makes another run than process 0, which has {}", comm.rank(), sim::difference(first, info));
    }
    if (set == info.instruction_set) return;
    fail(
        "process {} has the instruction set {}, process 0 {}, and results may differ in rounding: "
        "SPARKPILOT_CPU=avx2 or the like gives both the same",
        comm.rank(), info.instruction_set, set);
  });
}

// A run's rows, by all processes together; the first has the folder.
class Computation {
 public:
  Computation(const Program& program, const RunCommandFlags& flags, const sim::ScenarioRun& run, Comm& comm)
      : run_(run),
        comm_(comm),
        tells_(comm.rank() == 0 && !program.quiet),
        flags_(flags),
        done_{run.info(), {}, false} {}

  // Runs what is missing; without a folder, all of it into memory. In the first process: what there is then.
  Finished finish(const std::atomic<bool>& stop) {
    const int64_t begun = begin(), all = run_.rows();
    had_rows_ = begun > 0;
    kept_ = begun;
    int64_t row = begun;
    const int64_t start = now_ns();
    const bool users = run_.options().user != nullptr;
    int64_t at_once = users ? kFewRows : run_.options().gpu ? kRowsAtOnceOnGpu : kRowsAtOnce;
    {
      Progress progress(tells_, "worlds");
      while (row < all && comm_.max(stop ? 1 : 0) == 0) {
        progress.at(static_cast<double>(row) / static_cast<double>(all));
        const int64_t next = std::min(row + at_once * comm_.size(), all);
        const int64_t added_from = now_ns();
        if (!add(row, next, stop)) break;
        row = next;
        if (!users) continue;
        const int ms = comm_.max(static_cast<int>(std::min<int64_t>((now_ns() - added_from) / 1'000'000, 1'000'000)));
        if (ms < 500) at_once = std::min(at_once * 2, kRowsAtOnce);
        else if (ms > 2000) at_once = std::max(at_once / 2, kFewRows);
      }
    }
    const double seconds = static_cast<double>(now_ns() - start) * 1e-9;
    done_.stopped = row < all;
    done_.info.processes = comm_.size();
    done_.info.steps = driven_;
    if (row > begun) done_.info.steps_per_second = static_cast<double>(driven_) / seconds;
    comm_.together([&] {
      if (comm_.rank() == 0) end(stop);
    });
    return std::move(done_);
  }

 private:
  // Opens the folder; how many rows it has.
  int64_t begin() {
    int64_t rows = 0;
    comm_.together([&] {
      if (flags_.out.empty() || comm_.rank() != 0) return;
      writer_ = std::make_unique<sim::ResultWriter>(flags_.out, run_.info(), flags_.resume);
      rows = writer_->rows();
      if (rows > run_.rows()) fail("{}: {} rows, expected at most {}", flags_.out, rows, run_.rows());
    });
    return comm_.size() == 1 ? rows : std::stoll(comm_.share(std::to_string(rows)));
  }

  // Rows first to last - 1, each process a part of them; false if stopped meanwhile.
  bool add(int64_t first, int64_t last, const std::atomic<bool>& stop) {
    const int64_t count = last - first, rank = comm_.rank(), size = comm_.size();
    std::vector<sim::ResultRow> rows;
    const int64_t begin = first + count * rank / size, end = first + count * (rank + 1) / size;
    comm_.together([&] { rows = run_.run(begin, end, &stop); });
    if (comm_.max(std::ssize(rows) < end - begin ? 1 : 0) > 0) return false;
    std::vector<std::string> others;
    if (size > 1) others = comm_.gather(rank > 0 ? sim::text_of_rows(rows, run_.info()) : "");
    comm_.together([&] {
      if (rank > 0) return;
      keep(std::move(rows));
      for (size_t i = 1; i < others.size(); ++i)
        keep(sim::parse_rows(others[i], run_.info(), fmt::format("process {}", i)));
    });
    return true;
  }

  // Of worlds that have figures: none of those in which an algorithm failed. `first`: the first row's place in the run.
  int64_t driven_steps(const std::vector<sim::ResultRow>& rows, int64_t first) const {
    int64_t steps = 0;
    for (const sim::ResultRow& row : rows) {
      if (row.has_figures()) steps += run_.steps(first, first + 1);
      ++first;
    }
    return steps;
  }

  void keep(std::vector<sim::ResultRow> rows) {
    if (writer_) writer_->add(rows);
    driven_ += driven_steps(rows, kept_);
    kept_ += std::ssize(rows);
    if (had_rows_) return;  // all are read from the folder
    done_.rows.insert(done_.rows.end(), std::make_move_iterator(rows.begin()), std::make_move_iterator(rows.end()));
  }

  void end(const std::atomic<bool>& stop) {
    sim::Results before;  // of all calls, this one too
    if (had_rows_) {
      before = sim::read_results(flags_.out, true);
      done_.info.steps = driven_steps(before.rows, 0);
    }
    const bool finished = writer_ && writer_->finished();
    if (!done_.stopped && !finished) {
      if (run_.options().user) run_.options().user->check_unchanged();
      // A user's that no world got an answer from would only run into its limit again.
      const bool answered = done_.info.steps > 0;
      if (const auto latency = !run_.options().user || answered ? run_.latency(&stop) : std::nullopt) {
        done_.info.update_p50_us = latency->p50_us;
        done_.info.update_p99_us = latency->p99_us;
      }
      if (writer_) writer_->finish(done_.info);
    }
    if (!had_rows_) return;
    done_.rows = std::move(before.rows);
    if (finished) done_.info = std::move(before.info);
  }

  const sim::ScenarioRun& run_;
  Comm& comm_;
  const bool tells_;
  const RunCommandFlags& flags_;
  Finished done_;
  std::unique_ptr<sim::ResultWriter> writer_;
  bool had_rows_ = false;  // the folder has rows of an earlier call
  int64_t kept_ = 0;       // rows, those of an earlier call too
  int64_t driven_ = 0;     // steps of this call
};

Json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json();
}

Json json_of(const RunCommandFlags& flags, const Finished& done, const sim::RunSummary& summary) {
  Json parameters = Json::object(), categories = Json::array(), worst = Json::array(), bad_plans = Json::array();
  for (const sim::BadPlans& bad : summary.bad_plans) {
    bad_plans.push_back({{"scenario", bad.scenario},
                         {"worlds", bad.worlds},
                         {"unsolved", bad.unsolved},
                         {"infeasible", bad.infeasible}});
  }
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
          {"device", done.info.device},
          {"worlds", summary.worlds},
          {"passed", summary.passed},
          {"diverged", summary.diverged},
          {"failed_in_algorithm", summary.failed},
          {"bad_plans", std::move(bad_plans)},
          {"processes", done.info.processes},
          {"threads", done.info.threads},
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
  print(fmt::format("{} in a {} ({}), seed {}: {} of {} passed, {} diverged{}\n\n", info.algorithm, info.vehicle,
                    info.plant, info.seed, summary.passed, count_of(summary.worlds, "world"), summary.diverged,
                    summary.failed > 0 ? fmt::format(", {} failed in the algorithm", summary.failed) : ""));
  print(table.str() + "\n");
  Table worst({"nearest to its bounds", "variant", "of bound", "metric", "why it failed"});
  for (const sim::WorstWorld& world : summary.worst) {
    const sim::ResultRow& row = done.rows[world.row];
    worst.add({row.scenario, std::to_string(row.variant),
               std::isfinite(world.of_bound) && !world.metric.empty() ? fixed(world.of_bound, 2)
               : row.diverged || world.failed                         ? "beyond"
                                                                      : "-",
               !world.metric.empty() ? world.metric
               : row.diverged        ? "diverged"
               : world.failed        ? "algorithm"
                                     : "-",
               row.passed ? "passed" : row.reason});
  }
  print(worst.str());
  if (!summary.bad_plans.empty()) {
    Table plans({"plans of the planner mpc", "worlds", "not solved", "breaking a limit"});
    for (const sim::BadPlans& bad : summary.bad_plans) {
      plans.add({bad.scenario, std::to_string(bad.worlds), fixed(bad.unsolved, 0), fixed(bad.infeasible, 0)});
    }
    print("\n" + plans.str());
  }
  if (info.steps_per_second) {
    const std::string where = info.device == "cpu"
                                  ? fmt::format("{} ({})", count_of(info.threads, "thread"), info.instruction_set)
                                  : info.device;
    const std::string each = info.processes > 1 ? fmt::format("{} processes, each ", info.processes) : "";
    print(fmt::format("\n{} steps, {} a second on {}{}", human_count(static_cast<double>(info.steps)),
                      human_count(*info.steps_per_second), each, where));
    if (info.update_p50_us)
      print(fmt::format("; an update {:.3f} us, p99 {:.3f} us", *info.update_p50_us, *info.update_p99_us));
    print("\n");
  }
  if (!flags.out.empty())
    print(fmt::format("{}: {}\n", flags.out,
                      done.stopped ? "stopped: the same command with --resume continues" : "finished"));
}

sim::ScenarioRunOptions options_of(const Program& program, const RunCommandFlags& flags) {
  expect_at_least("--variants", flags.variants, 1);
  if (flags.resume && flags.out.empty()) fail("--resume needs --out: it continues what is in a folder");
  expect_at_least("--workers", flags.workers, 0);
  sim::ScenarioRunOptions options = scenario_run_options(program, flags.sim);
  if (flags.scenarios.empty() && flags.files.empty()) fail("name scenarios with --scenarios, or a course with --file");
  options.scenarios = sim::select_scenarios(split_names(flags.scenarios));
  for (const std::string& file : flags.files) {
    for (sim::Scenario& scenario : sim::read_scenarios(file)) {
      if (std::ranges::find(options.scenarios, scenario.name, &sim::Scenario::name) != options.scenarios.end()) {
        fail("--file {}: the course {} is there twice", file, scenario.name);
      }
      options.scenarios.push_back(std::move(scenario));
    }
  }
  options.variants = flags.variants;
  return options;
}

int run_scenarios(Program& program, const RunCommandFlags& flags) {
  program.comm = std::make_unique<Comm>();
  Comm& comm = *program.comm;
  const bool tells = comm.rank() == 0 && !program.quiet;
  const bool own_workers = flags.workers > 0 && sim::UserAlgorithm::names_file(flags.sim.algorithm);
  const int asked =
      own_workers ? static_cast<int>(std::min<int64_t>(flags.workers, 1024)) : chosen_threads(program).value_or(0);
  const ThreadScope threads(asked > 0 ? asked : threads_of_each(comm, tells));
  sim::ScenarioRunOptions options;
  const std::string device = program.settings["device"].value;
  comm.together([&] {
    options = options_of(program, flags);
    options.gpu = sim_gpu(program, options, device_of_each(device, comm), tells);
  });
  // Rows must not depend on who computes them.
  if (device == "auto" && comm.max(options.gpu ? 0 : 1) != 0) options.gpu = nullptr;
  std::optional<sim::ScenarioRun> run;
  comm.together([&] { run.emplace(std::move(options)); });
  // Until here a signal ends the program at once.
  const StopOnInterrupt stop(comm.rank() == 0 && !flags.out.empty());
  expect_same_run(run->info(), comm);
  const Finished done = Computation(program, flags, *run, comm).finish(stop.requested());
  bool good = true;
  comm.together([&] {
    if (comm.rank() > 0) return;
    const sim::RunSummary summary = sim::summarize_run(done.rows, done.info.metrics, run->options().scenarios);
    if (program.json) print_json(json_of(flags, done, summary));
    else print_summary(flags, done, summary);
    good = !flags.check || summary.passed == summary.worlds;
  });
  if (done.stopped) return kInterrupted;
  return comm.max(good ? 0 : 1) == 0 ? kDone : kCheckFailed;
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
                  "  sparkpilot sim run --algorithm policy.onnx --scenarios curves\n"
                  "  mpirun -np 2 sparkpilot sim run --scenarios all --variants 100000 --out runs/large\n"
                  "Ctrl-C leaves a folder that the same command with --resume continues, to the same bytes.",
                  [&program, flags] { return run_scenarios(program, *flags); });
  add_list(command, "--scenarios", flags->scenarios, "NAME[,NAME...]", "scenarios and categories (sim list), or all");
  add_list(command, "--file", flags->files, "F.csv|DIR",
           "a scenario from a table (time_s, speed_m_per_s, curvature_per_m), or from each of a folder");
  add_number(command, "--variants", flags->variants,
             "worlds of each scenario: the first as it is named, the others drawn");
  add_sim_flags(command, flags->sim);
  add_number(command, "--workers", flags->workers, "processes of an algorithm of your own; 0: as many as threads");
  command.add_option("-o,--out", flags->out, "folder of the results, which sim compare reads; a new or an empty one")
      .type_name("DIR");
  command.add_flag("--resume", flags->resume, "continue the run in --out");
  command.add_flag("--check", flags->check, "exit with 4 if a world does not keep its scenario's bounds");
  add_device_flags(program, command);
  add_setting(program, command, "threads", "a number; 0 or auto: every processor");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
