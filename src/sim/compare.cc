#include "sim/compare.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/paired.h"
#include "base/statistics.h"

namespace sparkpilot::sim {
namespace {

constexpr double kLargestFigure = 1e100;  // of a file that others may have written

struct Pair {
  const ResultRow *a = nullptr, *b = nullptr;
  int64_t scenario = 0, variant = 0;  // numbers of clusters
};

using RowKey = std::tuple<std::string_view, int64_t, uint64_t>;

std::string named(const ResultRow& row) {
  return fmt::format("{} variant {}, seed {}", row.scenario, row.variant, row.seed);
}

// In the order of their keys, each once.
std::vector<std::pair<RowKey, const ResultRow*>> keyed(const Results& run, bool by_seed, const std::string& name) {
  std::vector<std::pair<RowKey, const ResultRow*>> out;
  out.reserve(run.rows.size());
  for (const ResultRow& row : run.rows)
    out.push_back({RowKey(row.scenario, row.variant, by_seed ? row.seed : 0), &row});
  std::ranges::sort(out, {}, &std::pair<RowKey, const ResultRow*>::first);
  const auto twice = std::ranges::adjacent_find(out, {}, &std::pair<RowKey, const ResultRow*>::first);
  if (twice != out.end()) {
    fail("{}: {} is there twice{}", name, named(*twice->second),
         by_seed ? "" : ", whatever its seed, by which the two runs have nothing in common");
  }
  return out;
}

void add_unpaired(const ResultRow& row, int64_t& count, std::vector<std::string>& names) {
  if (static_cast<size_t>(++count) <= kNamedPairs) names.push_back(named(row));
}

std::vector<Pair> pairs_of(const Results& a, const Results& b, bool by_seed, const std::string& name_a,
                           const std::string& name_b, Comparison& out) {
  const auto of_a = keyed(a, by_seed, name_a), of_b = keyed(b, by_seed, name_b);
  out.only_a = out.only_b = 0;
  out.only_a_names.clear();
  out.only_b_names.clear();
  std::vector<Pair> pairs;
  for (size_t i = 0, k = 0; i < of_a.size() || k < of_b.size();) {
    if (k == of_b.size() || (i < of_a.size() && of_a[i].first < of_b[k].first)) {
      add_unpaired(*of_a[i++].second, out.only_a, out.only_a_names);
    } else if (i == of_a.size() || of_b[k].first < of_a[i].first) {
      add_unpaired(*of_b[k++].second, out.only_b, out.only_b_names);
    } else {
      Pair pair{of_a[i++].second, of_b[k++].second};
      if (!pairs.empty()) {
        const Pair& last = pairs.back();
        const bool same = last.a->scenario == pair.a->scenario;
        pair.scenario = last.scenario + (same ? 0 : 1);
        pair.variant = last.variant + (same && last.a->variant == pair.a->variant ? 0 : 1);
      }
      pairs.push_back(pair);
    }
  }
  return pairs;
}

void note_differences(Comparison& c) {
  const RunInfo &a = c.a, &b = c.b;
  const auto differ = [&](const char* what, const std::string& x, const std::string& y) {
    if (x != y) c.notes.push_back(fmt::format("{}: {} in A, {} in B", what, x, y));
  };
  differ("program", a.program, b.program);
  differ("algorithm", a.algorithm, b.algorithm);
  if (a.algorithm == b.algorithm) differ("MD5 of the algorithm", a.algorithm_md5, b.algorithm_md5);
  differ("vehicle", a.vehicle, b.vehicle);
  differ("plant", a.plant, b.plant);
  differ("planner", a.planner, b.planner);
  differ("instruction set", a.instruction_set, b.instruction_set);
  std::map<std::string, std::pair<std::string, std::string>> parameters;
  for (const Parameter& p : a.parameters) parameters[p.name] = {fmt::format("{}", p.value), "none"};
  for (const Parameter& p : b.parameters) {
    auto& [in_a, in_b] = parameters.try_emplace(p.name, "none", "").first->second;
    in_b = fmt::format("{}", p.value);
  }
  for (const auto& [name, values] : parameters) differ(("parameter " + name).c_str(), values.first, values.second);
  if (!c.same_seeds) {
    c.notes.push_back(
        fmt::format("seed: {} in A, {} in B. Worlds of equal scenario and variant are paired; they share "
                    "neither parameters (but for variant 0, which has the usual ones) nor noise, so more of them are "
                    "needed to show a difference",
                    a.seed, b.seed));
  }
}

// The columns of a metric in both runs.
struct Column {
  const Metric* metric;
  size_t a, b;
};

std::vector<Column> columns_of(Comparison& c) {
  std::vector<Column> out;
  const auto missing = [&](const std::string& metric, char where) {
    c.notes.push_back(fmt::format("metric {}: only in {}, not compared", metric, where));
  };
  for (size_t i = 0; i < c.a.metrics.size(); ++i) {
    const auto found = std::ranges::find(c.b.metrics, c.a.metrics[i]);
    if (found == c.b.metrics.end()) missing(c.a.metrics[i], 'A');
    else out.push_back({find_metric(c.a.metrics[i]), i, static_cast<size_t>(found - c.b.metrics.begin())});
  }
  for (const std::string& metric : c.b.metrics) {
    if (std::ranges::find(c.a.metrics, metric) == c.a.metrics.end()) missing(metric, 'B');
  }
  if (out.empty()) fail("nothing to compare: no metric is in both runs");
  return out;
}

const Column& column_of(const std::vector<Column>& columns, const std::string& metric) {
  const auto found = std::ranges::find(columns, metric, [](const Column& c) { return c.metric->name; });
  if (found != columns.end()) return *found;
  std::string all;
  for (const Column& c : columns) all += fmt::format("{}{}", all.empty() ? "" : ", ", c.metric->name);
  fail("no metric \"{}\" in both runs: they have {}", metric, all);
}

// The figures of a pair; empty where a world has none, or left the bounds, before which figures say little.
std::optional<std::pair<double, double>> figures_of(const Pair& pair, const Column& column) {
  if (pair.a->diverged || pair.b->diverged) return {};
  const std::optional<double>&a = pair.a->values.at(column.a), &b = pair.b->values.at(column.b);
  if (!a || !b) return {};
  for (const double figure : {*a, *b}) {
    if (!(std::abs(figure) <= kLargestFigure)) {
      fail("{}: {} of {} is no figure of a drive", named(*pair.a), column.metric->name, figure);
    }
  }
  return std::pair(*a, *b);
}

Figures summary(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return {.mean = values.empty() ? 0 : sum / static_cast<double>(values.size()),
          .median = median(values),
          .interquartile_mean = interquartile_mean(values)};
}

// The mean of each cluster, whose numbers rise.
std::vector<double> means_of(std::span<const double> values, std::span<const int64_t> cluster) {
  std::vector<double> out;
  for (size_t begin = 0; begin < values.size();) {
    size_t end = begin;
    double sum = 0;
    for (; end < values.size() && cluster[end] == cluster[begin]; ++end) sum += values[end];
    out.push_back(sum / static_cast<double>(end - begin));
    begin = end;
  }
  return out;
}

// What is judged: differences and what their means are of, before Holm's correction.
struct Judged {
  Difference difference;
  ClusteredMean mean;
};

// Figures of some pairs, and of which clusters they are.
struct Taken {
  std::vector<double> a, b, delta;
  std::vector<int64_t> scenarios, variants;
};

Taken take(std::span<const Pair* const> pairs, const Column& column) {
  Taken out;
  for (const Pair* pair : pairs) {
    const auto figures = figures_of(*pair, column);
    if (!figures) continue;
    out.a.push_back(figures->first);
    out.b.push_back(figures->second);
    out.delta.push_back(figures->second - figures->first);
    out.scenarios.push_back(pair->scenario);
    out.variants.push_back(pair->variant);
  }
  return out;
}

Judged judge(const Taken& taken, const Column& column, Scope scope, const std::string& of,
             const CompareOptions& options) {
  Judged out;
  Difference& d = out.difference;
  d.metric = column.metric;
  d.scope = scope;
  d.of = of;
  d.pairs = std::ssize(taken.delta);
  d.a = summary(taken.a);
  d.b = summary(taken.b);
  d.delta = summary(taken.delta);
  const double percent = 100 * d.delta.mean / std::abs(d.a.mean);
  if (std::isfinite(percent)) d.percent = percent;
  d.by_scenario = std::ssize(means_of(taken.delta, taken.scenarios)) >= kLeastScenarios;
  const std::vector<int64_t>& cluster = d.by_scenario ? taken.scenarios : taken.variants;
  const std::vector<double> means = means_of(taken.delta, cluster);
  d.clusters = std::ssize(means);
  std::vector<int64_t> numbered(cluster);  // from 0, so that those of few pairs take no room
  for (int64_t& number : numbered) number -= cluster.front();
  out.mean =
      clustered_mean(taken.delta, numbered,
                     {.confidence = 1 - options.alpha,
                      .resamples = std::max(1, scope == Scope::scenario ? options.resamples / 5 : options.resamples),
                      .seed = options.seed});
  d.low = out.mean.low;
  d.high = out.mean.high;
  d.p = out.mean.p;
  d.p_wilcoxon = signed_rank(means).p;
  return out;
}

// Worse if above 0.
double worsening(const Metric& metric, double delta) { return metric.less_is_better ? delta : -delta; }

Change change_of(const Difference& d, const CompareOptions& options) {
  if (!(*d.low_holm > 0 || *d.high_holm < 0)) return Change::none;
  const auto given = options.threshold.find(std::string(d.metric->name));
  const double percent = given == options.threshold.end() ? default_threshold(*d.metric) : given->second;
  const double least = std::max(least_difference(*d.metric), percent / 100 * std::abs(d.a.mean));
  if (!(std::abs(d.delta.mean) > least)) return Change::small;
  return worsening(*d.metric, d.delta.mean) > 0 ? Change::worse : Change::better;
}

void correct(std::vector<Judged>& all, const CompareOptions& options, Comparison& out) {
  std::vector<Judged*> family;
  std::vector<double> p, p_wilcoxon;
  for (Judged& one : all) {
    if (one.difference.scope == Scope::scenario || one.difference.clusters < kLeastClusters) continue;
    family.push_back(&one);
    p.push_back(one.difference.p);
    p_wilcoxon.push_back(one.difference.p_wilcoxon);
  }
  const std::vector<double> corrected = holm(p), corrected_wilcoxon = holm(p_wilcoxon),
                            levels = holm_levels(p, options.alpha);
  for (size_t i = 0; i < family.size(); ++i) {
    Difference& d = family[i]->difference;
    d.p_holm = corrected[i];
    d.p_wilcoxon_holm = corrected_wilcoxon[i];
    const double half = family[i]->mean.half_width(levels[i]);
    d.low_holm = family[i]->mean.mean - half;
    d.high_holm = family[i]->mean.mean + half;
    d.change = change_of(d, options);
    out.regressions += d.change == Change::worse;
    out.improvements += d.change == Change::better;
  }
  for (Judged& one : all) out.differences.push_back(std::move(one.difference));
}

void compare_figures(const std::vector<Pair>& pairs, const std::vector<Column>& columns, const CompareOptions& options,
                     Comparison& out) {
  std::vector<const Pair*> all;
  std::map<std::string, std::vector<const Pair*>> categories, scenarios;
  for (const Pair& pair : pairs) {
    all.push_back(&pair);
    categories[pair.a->category].push_back(&pair);
    scenarios[pair.a->scenario].push_back(&pair);
  }
  std::vector<Judged> judged;
  const auto add = [&](std::span<const Pair* const> some, Scope scope, const std::string& of) {
    for (const Column& column : columns) {
      Taken taken = take(some, column);
      judged.push_back(judge(taken, column, scope, of, options));
      if (scope == Scope::all) out.figures.push_back({column.metric, std::move(taken.a), std::move(taken.b)});
    }
  };
  add(all, Scope::all, {});
  if (categories.size() > 1) {
    for (const auto& [category, some] : categories) add(some, Scope::category, category);
  }
  for (const auto& [scenario, some] : scenarios) add(some, Scope::scenario, scenario);
  correct(judged, options, out);
}

// 0: it passed, 1: it missed a bound; else the algorithm failed, so that there is no figure.
constexpr int kWithoutFigures = 2;
int failure_rank(const ResultRow& row) {
  if (row.passed) return 0;
  return row.has_figures() ? 1 : kWithoutFigures;
}

NamedPair named_pair(const Pair& pair) {
  return {.scenario = pair.b->scenario,
          .category = pair.b->category,
          .variant = pair.b->variant,
          .seed = pair.b->seed,
          .a = {},
          .b = {},
          .reason = pair.b->reason};
}

void compare_failures(const std::vector<Pair>& pairs, const std::vector<Column>& columns, Comparison& out) {
  std::vector<double> signs;  // 1: got worse
  for (const Pair& pair : pairs) {
    const int a = failure_rank(*pair.a), b = failure_rank(*pair.b);
    out.failed_a += !pair.a->passed;
    out.failed_b += !pair.b->passed;
    const bool failed = pair.a->passed && !pair.b->passed;
    const bool diverged = !pair.a->diverged && pair.b->diverged;
    const bool without = a < kWithoutFigures && b == kWithoutFigures;
    if (a != b) signs.push_back(b > a ? 1 : -1);
    out.newly_failed += failed;
    out.newly_passed += !pair.a->passed && pair.b->passed;
    out.newly_diverged += diverged;
    out.newly_without_figures += without;
    out.left_out += std::ranges::none_of(columns, [&](const Column& c) { return figures_of(pair, c).has_value(); });
    if ((failed || diverged || without) && out.newly_failed_names.size() < kNamedPairs) {
      out.newly_failed_names.push_back(named_pair(pair));
    }
  }
  out.p_failed = signed_rank(signs).p;  // of equal sizes it is the sign test
  const int64_t worse = std::ranges::count(signs, 1), better = std::ranges::count(signs, -1);
  out.failures_regressed = out.same_seeds
                               ? out.newly_failed > 0 || out.newly_diverged > 0 || out.newly_without_figures > 0
                               : worse > better && out.p_failed <= out.alpha;
}

void find_worst(const std::vector<Pair>& pairs, const std::vector<Column>& columns, const CompareOptions& options,
                Comparison& out) {
  const Column* by = &columns[0];
  const Difference* found = nullptr;
  for (const Difference& d : out.differences) {
    if (d.change != Change::worse || (found != nullptr && found->p <= d.p)) continue;
    found = &d;
    by = &column_of(columns, std::string(d.metric->name));
  }
  if (!options.worst_by.empty()) by = &column_of(columns, options.worst_by);
  out.worst_by = by->metric;
  std::vector<std::pair<double, const Pair*>> worse;
  for (const Pair& pair : pairs) {
    const auto figures = figures_of(pair, *by);
    const double by_how_much = figures ? worsening(*by->metric, figures->second - figures->first) : 0;
    if (by_how_much > 0) worse.push_back({by_how_much, &pair});
  }
  std::ranges::stable_sort(worse, std::greater<>(), &std::pair<double, const Pair*>::first);
  for (size_t i = 0; i < std::min(kNamedPairs, worse.size()); ++i) {
    NamedPair& pair = out.worst.emplace_back(named_pair(*worse[i].second));
    std::tie(pair.a, pair.b) = *figures_of(*worse[i].second, *by);
  }
}

void check_options(const CompareOptions& options) {
  if (!(options.alpha > 0 && options.alpha < 1)) fail("alpha {}: expected a number between 0 and 1", options.alpha);
  for (const auto& [metric, percent] : options.threshold) {
    if (find_metric(metric) == nullptr) fail("threshold: no metric \"{}\"", metric);
    if (!(percent >= 0 && percent <= 1e6)) fail("threshold of {}: {} %, expected 0 or more", metric, percent);
  }
}

}  // namespace

double default_threshold(const Metric& metric) {
  return metric.name.ends_with("_max") || metric.name.ends_with("_min") ? 5 : 2;
}

double least_difference(const Metric& metric) {
  for (const std::string_view unit : {"m", "m/s", "m/s^2", "share"}) {
    if (metric.unit == unit) return 0.001;
  }
  return 0.01;
}

std::string_view name(Scope scope) {
  constexpr std::string_view kNames[] = {"all", "category", "scenario"};
  return kNames[static_cast<size_t>(scope)];
}

std::string_view name(Change change) {
  constexpr std::string_view kNames[] = {"none", "small", "better", "worse", "not judged"};
  return kNames[static_cast<size_t>(change)];
}

Comparison compare_runs(const Results& a, const Results& b, const CompareOptions& options, const std::string& name_a,
                        const std::string& name_b) {
  check_options(options);
  Comparison out;
  out.a = a.info;
  out.b = b.info;
  out.alpha = options.alpha;
  std::vector<Pair> pairs = pairs_of(a, b, true, name_a, name_b, out);
  if (pairs.empty() && a.info.seed != b.info.seed) {
    out.same_seeds = false;
    pairs = pairs_of(a, b, false, name_a, name_b, out);
  }
  if (pairs.empty()) fail("{} and {} have no world in common: no scenario with the same variant", name_a, name_b);
  out.pairs = std::ssize(pairs);
  note_differences(out);
  const std::vector<Column> columns = columns_of(out);
  compare_figures(pairs, columns, options, out);
  compare_failures(pairs, columns, out);
  find_worst(pairs, columns, options, out);
  return out;
}

}  // namespace sparkpilot::sim
