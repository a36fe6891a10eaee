// The cheapest way to give each of many things one of two labels, where pairs with different labels cost something.
#pragma once

#include <cstddef>
#include <vector>

namespace sparkpilot {

// Minimum cut between a source and a sink (Dinic's algorithm). Among equally cheap cuts the source side is the
// smallest.
class MinCut {
 public:
  static constexpr double kNever = 1e30;

  MinCut() : edges_of_(2) {}
  int source() const { return 0; }
  int sink() const { return 1; }
  int add_node();
  // Costs `cost` when `from` is on the source's side and `to` on the sink's.
  void add_edge(int from, int to, double cost);
  // For each node whether it is on the source's side.
  std::vector<bool> solve();

 private:
  struct Edge {
    int to;
    double rest;  // capacity that is left
  };
  bool find_levels();
  double push(double limit);

  std::vector<Edge> edges_;  // an edge and its reverse are neighbours
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace sparkpilot
