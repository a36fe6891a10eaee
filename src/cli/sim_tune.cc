#include "cli/sim_tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "base/version.h"
#include "cli/interrupt.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "sim/compare.h"
#include "sim/compare_report.h"
#include "sim/tune.h"

namespace sparkpilot::cli {
namespace {

using Json = nlohmann::ordered_json;

struct TuneFlags {
  SimFlags sim;
  std::vector<std::string> scenarios, ranges, objectives;
  std::string search = "cma-es", journal;
  int64_t variants = 4, trials = 200;
  bool resume = false;
};

// A metric of the cost, of which less is better.
struct Term {
  size_t column = 0;
  std::string metric;
  double weight = 1;
  double own = 0;  // its mean with the algorithm's own parameters
};

// The cost of a world that does not pass, as a share of all.
constexpr double kFailureWeight = 10;

sim::ScenarioRunOptions with_values(sim::ScenarioRunOptions options, const std::vector<sim::TuneRange>& ranges,
                                    const std::vector<double>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    std::erase_if(options.set, [&](const sim::Parameter& p) { return p.name == ranges[i].name; });
    options.set.push_back({ranges[i].name, values[i]});
  }
  return options;
}

sim::Results drive(const sim::ScenarioRunOptions& options, const std::vector<sim::TuneRange>& ranges,
                   const std::vector<double>& values) {
  const sim::ScenarioRun run(with_values(options, ranges, values));
  return {run.info(), run.run(0, run.rows())};
}

// Over the worlds that stayed within bounds; empty if none has it.
std::optional<double> mean_of(const sim::Results& run, size_t column) {
  double sum = 0;
  int64_t count = 0;
  for (const sim::ResultRow& row : run.rows) {
    if (row.diverged || !row.values[column]) continue;
    sum += *row.values[column];
    ++count;
  }
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

double failed_share(const sim::Results& run) {
  const auto failed = std::ranges::count_if(run.rows, [](const sim::ResultRow& row) { return !row.passed; });
  return static_cast<double>(failed) / static_cast<double>(run.rows.size());
}

double cost_of(const sim::Results& run, const std::vector<Term>& terms) {
  double cost = kFailureWeight * failed_share(run);
  for (const Term& term : terms) {
    const std::optional<double> mean = mean_of(run, term.column);
    if (!mean) return std::numeric_limits<double>::quiet_NaN();
    cost += term.weight * *mean / term.own;
  }
  return cost;
}

std::vector<Term> terms_of(const std::vector<std::string>& objectives, const sim::Results& own) {
  std::vector<Term> terms;
  for (const std::string& text : objectives) {
    const size_t equals = text.find('=');
    Term term;
    term.metric = text.substr(0, equals);
    if (equals != std::string::npos) {
      const std::string weight = text.substr(equals + 1);
      if (const std::string wrong = no_number<double>(weight); !wrong.empty()) fail("--objective {}: {}", text, wrong);
      term.weight = std::strtod(weight.c_str(), nullptr);
    }
    if (!(term.weight > 0) || !std::isfinite(term.weight)) fail("--objective {}: expected a weight above 0", text);
    const auto found = std::ranges::find(own.info.metrics, term.metric);
    if (found == own.info.metrics.end()) {
      fail("--objective: no metric \"{}\": sim list --metrics names them", term.metric);
    }
    if (!sim::find_metric(term.metric)->less_is_better) {
      fail("--objective {}: more of it is better; a cost is of metrics of which less is", term.metric);
    }
    for (const Term& other : terms) {
      if (other.metric == term.metric) fail("--objective {}: given twice", term.metric);
    }
    term.column = static_cast<size_t>(found - own.info.metrics.begin());
    const std::optional<double> mean = mean_of(own, term.column);
    if (!mean) {
      fail("--objective {}: no world has it with the algorithm's own parameters, in which costs are measured{}",
           term.metric,
           std::ranges::none_of(own.rows, &sim::ResultRow::has_figures) ? ": the algorithm fails in every world" : "");
    }
    if (!(*mean > 0)) {
      fail("--objective {}: 0 with the algorithm's own parameters, so there is nothing to improve", term.metric);
    }
    term.own = *mean;
    terms.push_back(term);
  }
  return terms;
}

std::string objective_text(const std::vector<Term>& terms) {
  std::string out;
  for (const Term& term : terms) {
    out += term.weight == 1 ? "" : fmt::format("{} ", term.weight);
    out += fmt::format("{} / {:.6g} + ", term.metric, term.own);
  }
  return out + fmt::format("{} share of worlds that fail", kFailureWeight);
}

// All that a cost depends on.
std::string journal_text(const sim::RunInfo& run, const std::string& objective) {
  std::string text = fmt::format("{}; {}, {}, {}, {}, {}, {}, seed {}, {} variants of", objective, run.program,
                                 run.algorithm + run.algorithm_md5, run.vehicle, run.plant, run.planner,
                                 run.instruction_set, run.seed, run.variants);
  for (const std::string& scenario : run.scenarios) text += " " + scenario;
  for (const sim::Parameter& p : run.parameters) text += fmt::format(", {}={}", p.name, p.value);
  return text;
}

struct Tuned {
  sim::TuneResult result;
  std::vector<sim::TuneRange> ranges;
  std::vector<double> own;  // values of the ranges' parameters
  double own_cost = 0;
  std::vector<Term> terms;
  std::string objective;
  std::optional<sim::Comparison> held_out;  // own parameters against the best, on other variants
};

std::vector<double> own_values(const sim::RunInfo& run, const std::vector<sim::TuneRange>& ranges) {
  std::vector<double> out;
  for (const sim::TuneRange& range : ranges) {
    const auto found = std::ranges::find(run.parameters, range.name, &sim::Parameter::name);
    if (found == run.parameters.end()) {
      fail("--tune {}: {} has no such parameter (sim list --algorithms)", range.name, run.algorithm);
    }
    out.push_back(found->value);
  }
  return out;
}

// Refuses a range with an end that no world takes, before anything is driven.
void check_ends(const sim::ScenarioRunOptions& options, const std::vector<std::string>& texts,
                const std::vector<sim::TuneRange>& ranges) {
  for (size_t i = 0; i < ranges.size(); ++i) {
    for (const double end : {ranges[i].low, ranges[i].high}) {
      try {
        const sim::ScenarioRun run(with_values(options, {ranges[i]}, {end}));
      } catch (const Error& error) {
        fail("--tune {}: {}", texts[i], error.what());
      }
    }
  }
}

Tuned tune_parameters(const Program& program, const TuneFlags& flags) {
  Tuned out;
  for (const std::string& text : flags.ranges) {
    out.ranges.push_back(sim::parse_range(text));
    expect_used_parameter("--tune", out.ranges.back().name, flags.sim);
  }
  sim::ScenarioRunOptions options = scenario_run_options(program, flags.sim);
  options.scenarios = sim::select_scenarios(split_names(flags.scenarios));
  options.variants = flags.variants;
  options.gpu = sim_gpu(program, options, program.settings["device"].value, !program.quiet);
  out.own = own_values(sim::ScenarioRun(options).info(), out.ranges);
  check_ends(options, flags.ranges, out.ranges);
  const sim::Results own = drive(options, {}, {});
  out.terms = terms_of(flags.objectives.empty() ? std::vector<std::string>{"tracking_rmse"} : flags.objectives, own);
  out.own_cost = cost_of(own, out.terms);
  out.objective = objective_text(out.terms);
  {
    const StopOnInterrupt stop;
    Progress progress(!program.quiet && !program.json, "trials");
    out.result = sim::tune(
        {.search = sim::search_named(flags.search),
         .ranges = out.ranges,
         .trials = flags.trials,
         .seed = flags.sim.seed,
         .objective = journal_text(own.info, out.objective)},
        [&](const std::vector<double>& values) { return cost_of(drive(options, out.ranges, values), out.terms); },
        flags.journal, flags.resume, &stop.requested(),
        [&](int64_t done) { progress.at(static_cast<double>(done) / static_cast<double>(flags.trials)); });
  }
  if (!out.result.best) return out;
  ++options.seed;
  ++options.variants;
  const auto held_out = [&](const std::vector<double>& values) {
    sim::Results run = drive(options, out.ranges, values);
    std::erase_if(run.rows, [](const sim::ResultRow& row) { return row.variant == 0; });  // the same with every seed
    return run;
  };
  out.held_out = sim::compare_runs(held_out({}), held_out(out.result.trials[*out.result.best].values), {},
                                   "own parameters", "best parameters");
  return out;
}

Json json_of(const Tuned& tuned) {
  Json parameters = Json::array(), trials = Json::array();
  const sim::Trial* const best = tuned.result.best ? &tuned.result.trials[*tuned.result.best] : nullptr;
  for (size_t i = 0; i < tuned.ranges.size(); ++i) {
    const sim::TuneRange& range = tuned.ranges[i];
    parameters.push_back({{"name", range.name},
                          {"low", range.low},
                          {"high", range.high},
                          {"log", range.logarithmic},
                          {"own", tuned.own[i]},
                          {"best", best != nullptr ? Json(best->values[i]) : Json()}});
  }
  for (const sim::Trial& trial : tuned.result.trials) {
    trials.push_back({{"values", trial.values}, {"cost", trial.cost ? Json(*trial.cost) : Json()}});
  }
  return {{"objective", tuned.objective},
          {"own_cost", std::isfinite(tuned.own_cost) ? Json(tuned.own_cost) : Json()},
          {"best_cost", best != nullptr ? Json(*best->cost) : Json()},
          {"parameters", std::move(parameters)},
          {"ended", tuned.result.ended},
          {"resumed", tuned.result.resumed},
          {"trials", std::move(trials)},
          {"held_out", tuned.held_out ? sim::to_json(*tuned.held_out) : Json()}};
}

// What drives as the trials did, without the parameters that were searched.
std::string run_command(const TuneFlags& tune, const std::vector<sim::TuneRange>& ranges) {
  const SimFlags usual, &flags = tune.sim;
  std::string text = "sparkpilot sim run --algorithm " + shell_word(flags.algorithm);
  text += fmt::format(" --scenarios {} --variants {}", fmt::join(tune.scenarios, ","), tune.variants);
  if (flags.seed != usual.seed) text += fmt::format(" --seed {}", flags.seed);
  if (flags.step_timeout != usual.step_timeout) text += fmt::format(" --step-timeout {}", flags.step_timeout);
  if (flags.vehicle != usual.vehicle) text += " --vehicle " + shell_word(flags.vehicle);
  if (flags.plant != usual.plant) text += " --plant " + flags.plant;
  if (flags.planner != usual.planner) text += " --planner " + flags.planner;
  for (const std::string& set : flags.set) {
    const bool searched =
        std::ranges::any_of(ranges, [&](const sim::TuneRange& r) { return set.starts_with(r.name + "="); });
    if (!searched) text += " --set " + shell_word(set);
  }
  return text;
}

void print_tuned(const Tuned& tuned, const TuneFlags& flags) {
  print(fmt::format("cost: {}\n{}, ended: {}\n", tuned.objective, count_of(std::ssize(tuned.result.trials), "trial"),
                    tuned.result.ended));
  if (!tuned.result.best) return print("no trial could be driven\n");
  const sim::Trial& best = tuned.result.trials[*tuned.result.best];
  print(fmt::format("cost with the algorithm's own parameters {:.4g}, with the best {:.4g}\n\n", tuned.own_cost,
                    *best.cost));
  Table table({"parameter", "own", "best", "from", "to"});
  std::string set;
  for (size_t i = 0; i < tuned.ranges.size(); ++i) {
    const sim::TuneRange& range = tuned.ranges[i];
    table.add({range.name, fmt::format("{:.4g}", tuned.own[i]), fmt::format("{:.4g}", best.values[i]),
               fmt::format("{:.4g}", range.low), fmt::format("{:.4g}", range.high)});
    set += fmt::format(" --set {}={}", range.name, best.values[i]);
  }
  print(table.str() + "\n");
  Table held({"on other variants", "own", "best", "best - own", "p", "change"});
  for (const sim::Difference& d : tuned.held_out->differences) {
    if (d.scope != sim::Scope::all || d.pairs == 0) continue;
    held.add({std::string(d.metric->name), fmt::format("{:.4g}", d.a.mean), fmt::format("{:.4g}", d.b.mean),
              d.percent ? sim::percent_text(d) : sim::change_text(d.delta.mean),
              d.p_holm ? sim::p_text(*d.p_holm) : "-", std::string(name(d.change))});
  }
  print(held.str());
  print(fmt::format("failed: {} with the own parameters, {} with the best, of {}\n\n{}{}\n", tuned.held_out->failed_a,
                    tuned.held_out->failed_b, tuned.held_out->pairs, run_command(flags, tuned.ranges), set));
}

int tune(const Program& program, const TuneFlags& flags) {
  expect_one_process();
  expect_at_least("--variants", flags.variants, 1);
  if (flags.resume && flags.journal.empty()) fail("--resume needs --journal: it continues what is in that file");
  const ThreadScope threads(chosen_threads(program).value_or(0));
  const Tuned tuned = tune_parameters(program, flags);
  if (program.json) print_json(json_of(tuned));
  else print_tuned(tuned, flags);
  return tuned.result.ended == "stopped" ? kInterrupted : kDone;
}

}  // namespace

void add_sim_tune(Program& program, Command group) {
  const auto flags = std::make_shared<TuneFlags>();
  const Command command = add_command(
      program, group, "tune", "search an algorithm's parameters for the least cost over scenarios (docs/sim_tune.md)",
      "  sparkpilot sim tune --scenarios curves --tune ki=0.01:1:log --tune kp=0.2:2\n"
      "  sparkpilot sim tune --scenarios all --tune kp=0.2:2 --objective tracking_rmse --objective jerk_rms=0.5 \\\n"
      "    --journal tune.jsonl\n"
      "Ctrl-C leaves a journal that the same command with --resume continues.",
      [&program, flags] { return tune(program, *flags); });
  add_list(command, "--scenarios", flags->scenarios, "NAME[,NAME...]", "scenarios and categories (sim list), or all")
      .required();
  add_list(command, "--tune", flags->ranges, "NAME=LOW:HIGH[:log]", "a parameter and its range").required();
  add_list(command, "--objective", flags->objectives, "METRIC[=WEIGHT]",
           "what the cost is of: means as multiples of the own parameters' (tracking_rmse)");
  add_choice(command, "--search", flags->search, {"cma-es", "random", "grid"}, "how", "NAME");
  add_number(command, "--trials", flags->trials, "at most");
  add_number(command, "--variants", flags->variants, "worlds of each scenario");
  add_sim_flags(command, flags->sim);
  command.add_option("--journal", flags->journal, "write every trial as a line").type_name("FILE.jsonl");
  command.add_flag("--resume", flags->resume, "continue the search in --journal");
  add_device_flags(program, command);
  add_setting(program, command, "threads", "a number; 0 or auto: every processor");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
