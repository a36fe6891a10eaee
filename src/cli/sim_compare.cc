#include "cli/sim_compare.h"

#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "cli/fit.h"
#include "cli/sim_flags.h"
#include "cli/terminal.h"
#include "sim/compare.h"
#include "sim/compare_drives.h"
#include "sim/compare_report.h"
#include "sim/results.h"
#include "sim/scenario_file.h"

namespace sparkpilot::cli {
namespace {

namespace fs = std::filesystem;
using sim::Change, sim::Comparison, sim::Difference, sim::Scope;

constexpr int kColumns = 100;  // of tables without a terminal
constexpr size_t kNameColumns = 24;

struct SimCompareFlags {
  std::string a, b, csv, page;
  std::vector<std::string> thresholds, algorithms, cars, courses;
  double step_timeout = 1;
  sim::CompareOptions options;
};

std::string table_text(const Table& table) { return table.str(stdout_columns() > 0 ? stdout_columns() : kColumns); }

// A name out of a file as one line that does nothing to a terminal.
std::string plain(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) ++i, out += '?';  // control characters of ISO 6429 in UTF-8
    else out += byte < 0x20 || byte == 0x7f ? '?' : text[i];
  }
  return out;
}

std::string short_name(std::string_view text) { return fitted(plain(text), kNameColumns); }

std::map<std::string, double> thresholds_of(const std::vector<std::string>& given) {
  std::map<std::string, double> out;
  for (const std::string& one : given) {
    const size_t equals = one.find('=');
    if (equals == std::string::npos) fail("--threshold {}: expected METRIC=PERCENT such as tracking_rmse=3", one);
    const std::string metric = one.substr(0, equals), percent = one.substr(equals + 1);
    if (const std::string wrong = no_number<double>(percent); !wrong.empty()) fail("--threshold {}: {}", metric, wrong);
    if (!out.emplace(metric, std::strtod(percent.c_str(), nullptr)).second) fail("--threshold {}: given twice", metric);
  }
  return out;
}

std::string change_cell(Change change) {
  const std::string text(change == Change::not_judged ? "-" : name(change));
  return change == Change::worse    ? painted(text, Paint::bad)
         : change == Change::better ? painted(text, Paint::good)
                                    : text;
}

// The interval by which the change is judged, if it is.
std::string interval_cell(const Difference& d) {
  if (!d.low_holm) return "-";
  const double low = *d.low_holm, high = *d.high_holm;
  if (!d.percent) return sim::change_text(low) + " to " + sim::change_text(high);
  const double scale = 100 / std::abs(d.a.mean);
  return fmt::format("{:+.1f} to {:+.1f} %", scale * low, scale * high);
}

std::vector<std::string> cells_of(const Difference& d) {
  const auto p = [](const std::optional<double>& value) { return value ? sim::p_text(*value) : "-"; };
  return {std::string(d.metric->name),
          std::string(d.metric->unit),
          fmt::format("{:.3g}", d.a.mean),
          fmt::format("{:.3g}", d.b.mean),
          d.percent ? sim::percent_text(d) : sim::change_text(d.delta.mean),
          interval_cell(d),
          p(d.p_holm),
          p(d.p_wilcoxon_holm),
          change_cell(d.change)};
}

void print_run(const char* which, const std::string& path, const sim::RunInfo& run) {
  print(fmt::format("{}: {}, {} with {}, seed {}\n", which, plain(path), plain(run.algorithm), plain(run.vehicle),
                    run.seed));
}

void print_names(const char* which, int64_t count, const std::vector<std::string>& names) {
  if (count == 0) return;
  std::string some;
  for (size_t i = 0; i < std::min<size_t>(3, names.size()); ++i) some += (i == 0 ? "" : "; ") + plain(names[i]);
  print(fmt::format("only in {}: {}: {}{}\n", which, count_of(count, "world"), some, count > 3 ? "; ..." : ""));
}

void print_differences(const Comparison& c) {
  Table all({"all worlds", "unit", "A", "B", "B - A", "corrected interval", "p", "Wilcoxon", "change"});
  Table middle({"all worlds", "median A", "B", "of B - A", "IQM A", "IQM B", "IQM of B - A"});
  Table categories({"category", "metric", "A", "B", "B - A", "corrected interval", "p", "Wilcoxon", "change"});
  int64_t changed = 0, judged = 0;
  for (const Difference& d : c.differences) {
    if (d.pairs == 0) continue;
    std::vector<std::string> cells = cells_of(d);
    if (d.scope == Scope::all) {
      all.add(std::move(cells));
      middle.add({std::string(d.metric->name), fmt::format("{:.3g}", d.a.median), fmt::format("{:.3g}", d.b.median),
                  sim::change_text(d.delta.median), fmt::format("{:.3g}", d.a.interquartile_mean),
                  fmt::format("{:.3g}", d.b.interquartile_mean), sim::change_text(d.delta.interquartile_mean)});
    }
    if (d.scope != Scope::category) continue;
    ++judged;
    if (d.change == Change::none || d.change == Change::not_judged) continue;
    ++changed;
    cells.erase(cells.begin() + 1);
    cells.insert(cells.begin(), short_name(d.of));
    categories.add(std::move(cells));
  }
  print(table_text(all) + "\n" + table_text(middle));
  if (changed > 0) print("\n" + table_text(categories));
  if (judged > 0) print(fmt::format("{} of {} means of categories changed.\n", changed, judged));
}

void print_pairs(const Comparison& c, const std::string& b) {
  if (!c.newly_failed_names.empty()) {
    Table failed({"newly failed", "variant", "seed", "because"});
    for (const sim::NamedPair& p : c.newly_failed_names) {
      failed.add({short_name(p.scenario), std::to_string(p.variant), std::to_string(p.seed), plain(p.reason)});
    }
    print("\n" + table_text(failed));
  }
  if (c.worst.empty()) return;
  Table worst({fmt::format("worst by {}", c.worst_by->name), "variant", "seed", "A", "B", "B - A"});
  for (const sim::NamedPair& p : c.worst) {
    worst.add({short_name(p.scenario), std::to_string(p.variant), std::to_string(p.seed), sim::figure_text(*p.a),
               sim::figure_text(*p.b), sim::change_text(*p.b - *p.a)});
  }
  print("\n" + table_text(worst));
  print(fmt::format("to draw one: sparkpilot sim show --run {} SCENARIO --variant N --out world.html{}\n",
                    shell_word(plain(b)), c.b.algorithm_md5.empty() ? "" : " --algorithm FILE"));
}

void print_report(const Comparison& c, const SimCompareFlags& flags) {
  print_run("A", flags.a, c.a);
  print_run("B", flags.b, c.b);
  print(fmt::format("{} of worlds; {} failed in A, {} in B: {} newly failed, {} newly diverged, {} newly passed\n",
                    count_of(c.pairs, "pair"), c.failed_a, c.failed_b, c.newly_failed, c.newly_diverged,
                    c.newly_passed));
  if (c.newly_without_figures > 0) print(fmt::format("{} newly failed in the algorithm\n", c.newly_without_figures));
  if (c.left_out > 0) {
    print(fmt::format("{} not in the means: a world of it has no figures, or left the bounds\n",
                      count_of(c.left_out, "pair")));
  }
  print_names("A", c.only_a, c.only_a_names);
  print_names("B", c.only_b, c.only_b_names);
  for (const std::string& text : c.notes) print(plain(text) + "\n");
  if (c.left_out < c.pairs) {
    print("\n");
    print_differences(c);
  }
  print_pairs(c, flags.b);
}

void write(const std::string& path, const std::string& text, const SimCompareFlags& flags) {
  for (const std::string& run : {flags.a, flags.b}) {
    for (const char* file : {sim::kRunFile, sim::kRowsFile}) refuse_to_replace(path, fs::path(run) / file);
  }
  for (const auto* files : {&flags.algorithms, &flags.cars, &flags.courses}) {
    for (const std::string& file : *files) refuse_to_replace(path, file);
  }
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

// What the runs had from files, to draw their worlds. Fails (user) on a file that neither had.
sim::DriveFiles files_of(const Program& program, const SimCompareFlags& flags, const Comparison& c) {
  sim::DriveFiles files;
  const auto refuse_other = [&](bool known, const char* flag, const std::string& path) {
    if (!known) fail("{} {}: neither A nor B had it", flag, path);
  };
  for (const std::string& path : flags.algorithms) {
    if (!sim::UserAlgorithm::names_file(path)) {
      fail("--algorithm {}: expected a file (a built-in one needs none)", path);
    }
    SimFlags as_run;
    as_run.algorithm = path;
    as_run.step_timeout = flags.step_timeout;
    files.algorithms.push_back(user_algorithm(program, as_run));
    const std::string& hash = files.algorithms.back()->hash();
    refuse_other(hash == c.a.algorithm_md5 || hash == c.b.algorithm_md5, "--algorithm", path);
  }
  for (const std::string& path : flags.cars) {
    if (!sim::is_car_file(path)) fail("--vehicle {}: expected a file (a preset needs none)", path);
    const std::string name = sim::find_car(path).name;
    refuse_other(name == c.a.vehicle || name == c.b.vehicle, "--vehicle", path);
  }
  files.cars = flags.cars;
  for (const std::string& path : flags.courses) {
    bool known = false;
    for (sim::Scenario& course : sim::read_scenarios(path)) {
      for (const sim::RunInfo* run : {&c.a, &c.b}) known |= std::ranges::count(run->scenarios, course.name) > 0;
      files.courses.push_back(std::move(course));
    }
    refuse_other(known, "--file", path);
  }
  return files;
}

int compare(const Program& program, SimCompareFlags flags) {
  for (const std::string& flag : given_flags(*program.at)) {
    if (flags.page.empty() && (flag == "--algorithm" || flag == "--vehicle" || flag == "--file")) {
      fail("{} has no effect without --page: it is for drawing worlds again", flag);
    }
    if (flag == "--step-timeout" && flags.algorithms.empty()) fail("{} has no effect without --algorithm", flag);
  }
  expect_other_file("--csv", flags.csv, "--page", flags.page);
  flags.options.threshold = thresholds_of(flags.thresholds);
  Comparison c =
      sim::compare_runs(sim::read_results(flags.a), sim::read_results(flags.b), flags.options, flags.a, flags.b);
  const sim::DriveFiles files = files_of(program, flags, c);
  std::error_code none;
  if (fs::equivalent(flags.a, flags.b, none)) c.notes.emplace_back("A and B are the same folder");
  if (program.json) print_json(sim::to_json(c));
  else print_report(c, flags);
  if (!flags.csv.empty()) write(flags.csv, sim::to_csv(c), flags);
  if (!flags.page.empty()) {
    const auto worst = sim::drive_worst(c, files), failed = sim::drive_newly_failed(c, files);
    write(flags.page, sim::to_html(c, flags.a, flags.b, worst, failed), flags);
  }
  if (!program.quiet) {
    for (const std::string& line : sim::regression_lines(c)) note("worse: " + plain(line));
  }
  return c.regressed() ? kCheckFailed : kDone;
}

}  // namespace

void add_sim_compare(Program& program, Command group) {
  const auto flags = std::make_shared<SimCompareFlags>();
  const Command command =
      add_command(program, group, "compare",
                  "whether run B drives worse than run A, world by world; exit code 4 if so (docs/sim_compare.md)",
                  "  sparkpilot sim compare out/old out/new\n"
                  "  sparkpilot sim compare out/old out/new --threshold tracking_rmse=5 --page compare.html\n"
                  "  sparkpilot sim compare out/old out/new --page compare.html --algorithm old.py --algorithm new.py\n"
                  "  sparkpilot sim compare out/old out/new --json",
                  [&program, flags] { return compare(program, *flags); });
  command.add_option("a", flags->a, "folder of the run that B is held against").required().type_name("A");
  command.add_option("b", flags->b, "folder of the new run").required().type_name("B");
  add_list(command, "--threshold", flags->thresholds, "METRIC=PERCENT",
           "a change of the mean below this does not matter (2, or 5 for greatest and least values)");
  add_number(command, "--alpha", flags->options.alpha, "chance of a wrong finding, all metrics and categories together",
             "SHARE");
  command.add_option("--worst-by", flags->options.worst_by, "metric that chooses the worst ten worlds")
      .type_name("METRIC");
  add_number(command, "--seed", flags->options.seed, "of the bootstrap");
  command.add_option("--csv", flags->csv, "write every difference as a row").type_name("FILE.csv");
  command.add_option("--page", flags->page, "write tables and plots as a page that needs nothing else")
      .type_name("FILE.html");
  add_list(command, "--algorithm", flags->algorithms, "FILE",
           "for --page: a file that drove A or B, so that it can be drawn; it is known by its MD5");
  add_number(command, "--step-timeout", flags->step_timeout, "for --algorithm: how long a step may take", "SECONDS");
  add_list(command, "--vehicle", flags->cars, "F.json", "for --page: a car of A or B that is from a file");
  add_list(command, "--file", flags->courses, "F.csv|DIR", "for --page: courses of A and B that are from files");
  add_report_flags(program, command);
}

}  // namespace sparkpilot::cli
