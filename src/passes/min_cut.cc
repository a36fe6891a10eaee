#include "passes/min_cut.h"

#include <algorithm>

namespace sparkpilot {
namespace {
constexpr double kNothing = 1e-6;
}

int MinCut::add_node() {
  edges_of_.emplace_back();
  return static_cast<int>(edges_of_.size()) - 1;
}

void MinCut::add_edge(int from, int to, double cost) {
  if (from == to || cost <= 0) return;
  edges_of_[static_cast<size_t>(from)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({to, cost});
  edges_of_[static_cast<size_t>(to)].push_back(static_cast<int>(edges_.size()));
  edges_.push_back({from, 0});
}

bool MinCut::find_levels() {
  level_.assign(edges_of_.size(), -1);
  std::vector<int> queue{source()};
  level_[static_cast<size_t>(source())] = 0;
  for (size_t at = 0; at < queue.size(); ++at) {
    for (const int e : edges_of_[static_cast<size_t>(queue[at])]) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      int& level = level_[static_cast<size_t>(edge.to)];
      if (edge.rest <= kNothing || level >= 0) continue;
      level = level_[static_cast<size_t>(queue[at])] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[static_cast<size_t>(sink())] >= 0;
}

// Pushes along one augmenting path through the levels. Not recursive, since a chain of layers may be long.
double MinCut::push(double limit) {
  std::vector<int> path;
  int at = source();
  while (at != sink()) {
    size_t& next = next_[static_cast<size_t>(at)];
    const std::vector<int>& edges = edges_of_[static_cast<size_t>(at)];
    bool moved = false;
    for (; next < edges.size(); ++next) {
      const Edge& edge = edges_[static_cast<size_t>(edges[next])];
      if (edge.rest <= kNothing || level_[static_cast<size_t>(edge.to)] != level_[static_cast<size_t>(at)] + 1)
        continue;
      path.push_back(edges[next]);
      at = edge.to;
      moved = true;
      break;
    }
    if (moved) continue;
    if (path.empty()) return 0;
    at = edges_[static_cast<size_t>(path.back() ^ 1)].to;
    ++next_[static_cast<size_t>(at)];
    path.pop_back();
  }
  for (const int e : path) limit = std::min(limit, edges_[static_cast<size_t>(e)].rest);
  for (const int e : path) {
    edges_[static_cast<size_t>(e)].rest -= limit;
    edges_[static_cast<size_t>(e ^ 1)].rest += limit;
  }
  return limit;
}

std::vector<bool> MinCut::solve() {
  while (find_levels()) {
    next_.assign(edges_of_.size(), 0);
    while (push(kNever) > 0) {
    }
  }
  std::vector<bool> side;
  for (const int level : level_) side.push_back(level >= 0);
  return side;
}

}  // namespace sparkpilot
