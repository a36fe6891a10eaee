#include "sim/run_summary.h"

#include <algorithm>
#include <limits>
#include <map>

#include "sim/metrics.h"

namespace sparkpilot::sim {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The algorithm failed, so that there is no figure.
bool has_failed(const ResultRow& row) { return !row.passed && !row.has_figures(); }

WorstWorld nearest_bound(const ResultRow& row, std::span<const std::string> metrics, const Scenario& scenario) {
  WorstWorld worst;
  if (has_failed(row)) return {0, kInfinite, "", true};
  if (row.diverged) return {0, kInfinite, ""};
  for (const auto& [name, limit] : scenario.bounds) {
    const auto column = static_cast<size_t>(std::ranges::find(metrics, name) - metrics.begin());
    const Metric* metric = find_metric(name);
    if (column >= row.values.size() || !row.values[column] || metric == nullptr) continue;
    const double value = *row.values[column];
    const double above = metric->less_is_better ? value : limit, below = metric->less_is_better ? limit : value;
    const double share = below > 0 ? above / below : above > 0 ? kInfinite : 0;
    if (share > worst.of_bound) worst = {0, share, std::string(name)};
  }
  return worst;
}

void add_bad_plans(const ResultRow& row, const std::optional<double>& unsolved, const std::optional<double>& infeasible,
                   std::vector<BadPlans>& to) {
  if (!(unsolved.value_or(0) > 0) && !(infeasible.value_or(0) > 0)) return;
  auto found = std::ranges::find(to, row.scenario, &BadPlans::scenario);
  if (found == to.end()) found = to.insert(to.end(), {row.scenario, 0, 0, 0});
  ++found->worlds;
  found->unsolved += unsolved.value_or(0);
  found->infeasible += infeasible.value_or(0);
}

}  // namespace

RunSummary summarize_run(std::span<const ResultRow> rows, std::span<const std::string> metrics,
                         std::span<const Scenario> scenarios, size_t most) {
  RunSummary summary;
  std::map<std::string, const Scenario*, std::less<>> by_name;
  for (const Scenario& scenario : scenarios) by_name[scenario.name] = &scenario;
  std::map<std::string, size_t, std::less<>> places;
  std::vector<std::vector<int64_t>> counts;
  const auto figure = [&](const ResultRow& row, const char* metric) {
    const auto column = static_cast<size_t>(std::ranges::find(metrics, metric) - metrics.begin());
    return column < metrics.size() ? row.values[column] : std::nullopt;
  };
  const auto worse = [](const WorstWorld& a, const WorstWorld& b) {
    if (a.failed != b.failed) return a.failed;
    if (a.of_bound != b.of_bound) return a.of_bound > b.of_bound;
    return a.offset != b.offset ? a.offset > b.offset : a.row < b.row;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    const ResultRow& row = rows[i];
    const auto [place, is_new] = places.try_emplace(row.category, summary.categories.size());
    if (is_new) {
      summary.categories.push_back({row.category, 0, 0, 0, std::vector<std::optional<double>>(metrics.size())});
      counts.emplace_back(metrics.size());
    }
    CategorySummary& category = summary.categories[place->second];
    ++category.worlds;
    category.passed += row.passed;
    category.diverged += row.diverged.has_value();
    summary.failed += has_failed(row);
    add_bad_plans(row, figure(row, "unsolved_plans"), figure(row, "infeasible_plans"), summary.bad_plans);
    for (size_t m = 0; m < metrics.size(); ++m) {
      if (!row.values[m]) continue;
      category.means[m] = category.means[m].value_or(0) + *row.values[m];
      ++counts[place->second][m];
    }
    const auto found = by_name.find(row.scenario);
    if (found == by_name.end()) continue;
    WorstWorld world = nearest_bound(row, metrics, *found->second);
    world.row = i;
    if (world.of_bound == 0) world.offset = figure(row, "offset_max").value_or(0);
    if (summary.worst.size() == most && (most == 0 || !worse(world, summary.worst.back()))) continue;
    if (summary.worst.size() == most) summary.worst.pop_back();
    summary.worst.insert(std::ranges::upper_bound(summary.worst, world, worse), std::move(world));
  }
  for (size_t c = 0; c < summary.categories.size(); ++c) {
    CategorySummary& category = summary.categories[c];
    summary.worlds += category.worlds;
    summary.passed += category.passed;
    summary.diverged += category.diverged;
    for (size_t m = 0; m < metrics.size(); ++m) {
      if (category.means[m]) *category.means[m] /= static_cast<double>(counts[c][m]);
    }
  }
  return summary;
}

}  // namespace sparkpilot::sim
