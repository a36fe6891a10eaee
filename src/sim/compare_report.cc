#include "sim/compare_report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/version.h"
#include "route/draw/page.h"
#include "sim/csv.h"

namespace sparkpilot::sim {
namespace {

using drive::Page, drive::Plot, drive::Series, drive::Tone;
using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json run_json(const RunInfo& run) {
  Json parameters = Json::object();
  for (const Parameter& p : run.parameters) parameters[p.name] = p.value;
  return {{"program", run.program},
          {"algorithm", run.algorithm},
          {"parameters", std::move(parameters)},
          {"vehicle", run.vehicle},
          {"plant", run.plant},
          {"planner", run.planner},
          {"seed", run.seed},
          {"instruction_set", run.instruction_set},
          {"steps_per_second", or_null(run.steps_per_second)},
          {"update_p50_us", or_null(run.update_p50_us)},
          {"update_p99_us", or_null(run.update_p99_us)}};
}

// A number that is of pairs: there is none without them.
std::optional<double> of_pairs(const Difference& d, double value) {
  return d.pairs > 0 ? std::optional(value) : std::nullopt;
}

Json difference_json(const Difference& d) {
  const auto number = [&](double value) { return or_null(of_pairs(d, value)); };
  const auto figures_json = [&](const Figures& f) {
    return Json{
        {"mean", number(f.mean)}, {"median", number(f.median)}, {"interquartile_mean", number(f.interquartile_mean)}};
  };
  return {{"metric", d.metric->name},
          {"unit", d.metric->unit},
          {"scope", name(d.scope)},
          {"of", d.scope == Scope::all ? Json() : Json(d.of)},
          {"pairs", d.pairs},
          {"clusters", d.clusters},
          {"clusters_are", d.by_scenario ? "scenarios" : "variants"},
          {"a", figures_json(d.a)},
          {"b", figures_json(d.b)},
          {"delta", figures_json(d.delta)},
          {"percent", or_null(d.percent)},
          {"low", number(d.low)},
          {"high", number(d.high)},
          {"p", number(d.p)},
          {"p_wilcoxon", number(d.p_wilcoxon)},
          {"p_holm", or_null(d.p_holm)},
          {"p_wilcoxon_holm", or_null(d.p_wilcoxon_holm)},
          {"low_holm", or_null(d.low_holm)},
          {"high_holm", or_null(d.high_holm)},
          {"change", name(d.change)}};
}

Json pairs_json(const std::vector<NamedPair>& pairs) {
  Json out = Json::array();
  for (const NamedPair& p : pairs) {
    out.push_back({{"scenario", p.scenario},
                   {"category", p.category},
                   {"variant", p.variant},
                   {"seed", p.seed},
                   {"a", or_null(p.a)},
                   {"b", or_null(p.b)},
                   {"reason", p.reason.empty() ? Json() : Json(p.reason)}});
  }
  return out;
}

// Ends of an interval of the mean difference, in percent of A's mean where there is one.
std::string interval_text(const Difference& d, double low, double high) {
  const double mean = std::abs(d.a.mean);
  if (!d.percent) return fmt::format("{} to {}", change_text(low), change_text(high));
  return fmt::format("{:+.1f} % to {:+.1f} %", 100 * low / mean, 100 * high / mean);
}

std::vector<std::string> row_of(const Difference& d) {
  return {std::string(d.metric->name),
          std::string(d.metric->unit),
          std::to_string(d.pairs),
          figure_text(d.a.mean),
          figure_text(d.b.mean),
          change_text(d.delta.mean),
          percent_text(d),
          interval_text(d, d.low, d.high),
          d.low_holm ? interval_text(d, *d.low_holm, *d.high_holm) : "-",
          d.p_holm ? p_text(*d.p_holm) : "-",
          d.p_wilcoxon_holm ? p_text(*d.p_wilcoxon_holm) : "-",
          change_text(d.delta.median),
          change_text(d.delta.interquartile_mean),
          std::string(name(d.change))};
}

const std::vector<std::string>& row_headings() {
  static const std::vector<std::string> headings{"metric",
                                                 "unit",
                                                 "pairs",
                                                 "A",
                                                 "B",
                                                 "B - A",
                                                 "%",
                                                 "interval",
                                                 "corrected",
                                                 "p (Holm)",
                                                 "Wilcoxon p (Holm)",
                                                 "median of B - A",
                                                 "IQM of B - A",
                                                 "change"};
  return headings;
}

Tone tone_of(const Difference& d) {
  return d.change == Change::worse ? Tone::bad : d.change == Change::none ? Tone::faint : Tone::plain;
}

void add_differences(Page& page, const Comparison& c, Scope scope, const std::string& caption) {
  const bool named = scope != Scope::all;
  std::vector<std::string> headings = row_headings();
  if (named) headings.insert(headings.begin(), std::string(name(scope)));
  Rows rows;
  std::vector<Tone> tones;
  for (const Difference& d : c.differences) {
    if (d.scope != scope || d.pairs == 0) continue;
    std::vector<std::string>& row = rows.emplace_back(row_of(d));
    if (named) row.insert(row.begin(), d.of);
    tones.push_back(tone_of(d));
  }
  if (!rows.empty()) page.table(headings, rows, caption, tones);
}

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();

void add_point(Series& series, double x, double y) {
  series.x.insert(series.x.end(), {x, x});
  series.y.insert(series.y.end(), {y, kGap});
}

void add_line(Series& series, double x, double low, double high) {
  series.x.insert(series.x.end(), {x, x, x});
  series.y.insert(series.y.end(), {low, high, kGap});
}

// Percent by category: a dot for the mean, a line for its interval.
void add_by_category(Page& page, const Comparison& c, const Metric& metric) {
  Series means{.name = "mean"}, intervals{.name = "interval"};
  std::string legend;
  int at = 0;
  for (const Difference& d : c.differences) {
    if (d.metric != &metric || d.scope != Scope::category || !d.percent) continue;
    legend += fmt::format("{}{}: {}", at == 0 ? "" : ", ", at + 1, d.of);
    add_point(means, ++at, *d.percent);
    const double scale = 100 / std::abs(d.a.mean);
    add_line(intervals, at, scale * d.low, scale * d.high);
  }
  if (at < 2) return;
  page.plot({.title = fmt::format("{} by category: B - A in percent of A", metric.name),
             .x_label = "category, numbered below",
             .y_label = "%",
             .series = {std::move(means), std::move(intervals)},
             .y_marks = {{0, ""}},
             .x_low = 0,
             .x_high = at + 1,
             .height = 220},
            legend);
}

void add_distribution(Page& page, const PairedFigures& figures) {
  std::vector<double> delta;
  for (size_t i = 0; i < figures.a.size(); ++i) delta.push_back(figures.b[i] - figures.a[i]);
  if (delta.empty()) return;
  const Metric& metric = *figures.metric;
  page.histogram({.title = fmt::format("{}: B - A of each pair", metric.name),
                  .x_label = std::string(metric.unit),
                  .values = delta,
                  .percentiles = {50}});
  std::ranges::sort(delta);
  Series sorted{.name = "B - A"};
  for (size_t i = 0; i < delta.size(); ++i) {
    sorted.x.push_back(100 * (static_cast<double>(i) + 0.5) / static_cast<double>(delta.size()));
    sorted.y.push_back(delta[i]);
  }
  page.plot({.title = fmt::format("{}: the same in rising order, worst cases included", metric.name),
             .x_label = "% of the pairs",
             .y_label = std::string(metric.unit),
             .series = {std::move(sorted)},
             .y_marks = {{0, ""}},
             .x_low = 0,
             .x_high = 100,
             .height = 220});
}

void add_pairs(Page& page, const std::vector<NamedPair>& pairs, const Metric* metric, const std::string& caption) {
  std::vector<std::string> headings{"scenario", "category", "variant", "seed"};
  if (metric != nullptr) headings.insert(headings.end(), {"A", "B", "B - A"});
  headings.push_back("B did not pass because");
  Rows rows;
  for (const NamedPair& p : pairs) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {p.scenario, p.category, std::to_string(p.variant), std::to_string(p.seed)};
    if (metric != nullptr) row.insert(row.end(), {figure_text(*p.a), figure_text(*p.b), change_text(*p.b - *p.a)});
    row.push_back(p.reason);
  }
  if (!rows.empty()) page.table(headings, rows, caption);
}

void add_worst(Page& page, const Comparison& c) {
  if (c.worst.empty()) return;
  const Metric& metric = *c.worst_by;
  page.section(fmt::format("Worst cases by {}", metric.name));
  Series a{.name = "A"}, b{.name = "B"};
  for (size_t i = 0; i < c.worst.size(); ++i) {
    add_point(a, static_cast<double>(i + 1), *c.worst[i].a);
    add_point(b, static_cast<double>(i + 1), *c.worst[i].b);
  }
  page.plot({.title = fmt::format("{} of the pairs that got worse the most", metric.name),
             .x_label = "row of the table below",
             .y_label = std::string(metric.unit),
             .series = {std::move(a), std::move(b)},
             .x_low = 0,
             .x_high = static_cast<double>(c.worst.size() + 1),
             .y_low = 0,
             .height = 220});
  add_pairs(page, c.worst, &metric, fmt::format("{}, {}.", metric.name, metric.unit));
}

void add_runs(Page& page, const Comparison& c, const std::string& name_a, const std::string& name_b) {
  const auto speed = [](const std::optional<double>& value) { return value ? figure_text(*value) : "-"; };
  const auto row = [&](const char* which, const std::string& name, const RunInfo& run, int64_t only) {
    return std::vector<std::string>{which,
                                    name,
                                    run.algorithm,
                                    run.vehicle,
                                    run.plant,
                                    std::to_string(run.seed),
                                    run.program,
                                    run.instruction_set,
                                    std::to_string(only),
                                    speed(run.steps_per_second),
                                    speed(run.update_p50_us),
                                    speed(run.update_p99_us)};
  };
  page.section("Runs");
  page.table({"", "run", "algorithm", "vehicle", "plant", "seed", "program", "instructions", "unpaired worlds",
              "steps/s", "update p50, us", "update p99, us"},
             {row("A", name_a, c.a, c.only_a), row("B", name_b, c.b, c.only_b)});
}

void add_headlines(Page& page, const Comparison& c) {
  page.figures({{"pairs of worlds", std::to_string(c.pairs), c.same_seeds ? "of equal seeds" : "of other seeds"},
                {"regressions", std::to_string(c.regressions), "metrics, of all worlds and by category"},
                {"improvements", std::to_string(c.improvements), "in the same way"},
                {"newly failed", std::to_string(c.newly_failed), fmt::format("{} newly passed", c.newly_passed)}});
}

}  // namespace

std::string figure_text(double value) { return fmt::format("{:.4g}", value); }
std::string change_text(double value) { return value == 0 ? "0" : fmt::format("{:+.3g}", value); }
std::string percent_text(const Difference& d) { return d.percent ? fmt::format("{:+.1f} %", *d.percent) : "-"; }
std::string p_text(double p) { return p < 0.001 ? "<0.001" : fmt::format("{:.3f}", p); }

std::vector<std::string> regression_lines(const Comparison& c) {
  std::vector<std::string> out;
  for (const Difference& d : c.differences) {
    if (d.change != Change::worse) continue;
    out.push_back(fmt::format("{} of {}: {} to {} {}, {} ({})", d.metric->name, d.scope == Scope::all ? "all" : d.of,
                              figure_text(d.a.mean), figure_text(d.b.mean), d.metric->unit,
                              d.percent ? percent_text(d) : change_text(d.delta.mean),
                              interval_text(d, *d.low_holm, *d.high_holm)));
  }
  if (c.failures_regressed) {
    out.push_back(fmt::format(
        "{} of {} newly failed, {} newly diverged, {} newly failed in the algorithm, {} newly passed", c.newly_failed,
        count_of(c.pairs, "pair"), c.newly_diverged, c.newly_without_figures, c.newly_passed));
  }
  return out;
}

Json to_json(const Comparison& c) {
  Json differences = Json::array();
  for (const Difference& d : c.differences) differences.push_back(difference_json(d));
  return {{"a", run_json(c.a)},
          {"b", run_json(c.b)},
          {"alpha", c.alpha},
          {"same_seeds", c.same_seeds},
          {"notes", c.notes},
          {"pairs", c.pairs},
          {"left_out", c.left_out},
          {"only_in_a", c.only_a},
          {"only_in_b", c.only_b},
          {"differences", std::move(differences)},
          {"failures",
           {{"failed_a", c.failed_a},
            {"failed_b", c.failed_b},
            {"newly_failed", c.newly_failed},
            {"newly_passed", c.newly_passed},
            {"newly_diverged", c.newly_diverged},
            {"newly_failed_in_algorithm", c.newly_without_figures},
            {"p", c.p_failed},
            {"regression", c.failures_regressed},
            {"first", pairs_json(c.newly_failed_names)}}},
          {"worst", {{"metric", c.worst_by->name}, {"pairs", pairs_json(c.worst)}}},
          {"regressions", c.regressions},
          {"improvements", c.improvements},
          {"regressed", c.regressed()}};
}

std::string to_csv(const Comparison& c) {
  std::string out =
      "metric,unit,scope,of,pairs,clusters,clusters_are,a_mean,a_median,a_interquartile_mean,b_mean,b_median,"
      "b_interquartile_mean,delta_mean,delta_median,delta_interquartile_mean,percent,low,high,p,p_wilcoxon,p_holm,"
      "p_wilcoxon_holm,low_holm,high_holm,change\n";
  const auto number = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
  for (const Difference& d : c.differences) {
    out += fmt::format("{},{},{},{},{},{},{}", d.metric->name, d.metric->unit, name(d.scope), csv_field(d.of), d.pairs,
                       d.clusters, d.by_scenario ? "scenarios" : "variants");
    for (const Figures& f : {d.a, d.b, d.delta}) {
      out += fmt::format(",{},{},{}", number(of_pairs(d, f.mean)), number(of_pairs(d, f.median)),
                         number(of_pairs(d, f.interquartile_mean)));
    }
    out += fmt::format(",{},{},{},{},{},{},{},{},{},{}\n", number(d.percent), number(of_pairs(d, d.low)),
                       number(of_pairs(d, d.high)), number(of_pairs(d, d.p)), number(of_pairs(d, d.p_wilcoxon)),
                       number(d.p_holm), number(d.p_wilcoxon_holm), number(d.low_holm), number(d.high_holm),
                       name(d.change));
  }
  return out;
}

std::string to_html(const Comparison& c, const std::string& name_a, const std::string& name_b,
                    std::span<const DrivenPair> worst, std::span<const DrivenPair> newly_failed) {
  Page page("Comparison of simulated runs", fmt::format("A: {}, B: {}", name_a, name_b));
  add_headlines(page, c);
  for (const std::string& line : regression_lines(c)) page.warning(line);
  for (const std::string& note : c.notes) page.note(note);
  add_runs(page, c, name_a, name_b);
  page.section("All worlds");
  page.text(
      fmt::format("Means of both runs over pairs of worlds of which neither left the bounds, and both have figures: "
                  "{} of {} are left out. The interval is that "
                  "of the mean of B - A at {:.4g} %, by bootstrap; the corrected one holds for everything that is "
                  "judged together (Holm). Worse or better: it excludes 0, and the change is beyond the metric's "
                  "threshold; small: below it.",
                  c.left_out, count_of(c.pairs, "pair"), 100 * (1 - c.alpha)));
  add_differences(page, c, Scope::all, "");
  add_worst(page, c);
  add_drives(page, c, worst);
  if (!c.newly_failed_names.empty()) {
    page.section("Newly failed");
    add_pairs(page, c.newly_failed_names, nullptr,
              fmt::format("The first of {} newly failed, {} newly diverged and {} newly failed in the algorithm.",
                          c.newly_failed, c.newly_diverged, c.newly_without_figures));
    add_drives(page, c, newly_failed);
  }
  page.section("By category");
  add_differences(page, c, Scope::category, "");
  for (const PairedFigures& figures : c.figures) add_by_category(page, c, *figures.metric);
  page.section("Differences of pairs");
  for (const PairedFigures& figures : c.figures) add_distribution(page, figures);
  page.section("By scenario");
  page.text("Not judged: intervals of single scenarios are without correction.");
  add_differences(page, c, Scope::scenario, "");
  page.footer(fmt::format("sparkpilot {}. For development only: never for control of a real car.", program_version()));
  return page.str();
}

}  // namespace sparkpilot::sim
