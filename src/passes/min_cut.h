// Assigns one of two labels to each node at the least total cost, when pairs of nodes with different labels cost
// something.
#pragma once

#include <cstddef>
#include <vector>

namespace sparkpilot {

// Minimum cut between a source and a sink (Dinic's algorithm). Of several cuts with the least cost, takes the one with
// the smallest source side.
class MinCut {
 public:
  static constexpr double kNever = 1e30;

  MinCut() : edges_of_(2) {}
  int source() const { return 0; }
  int sink() const { return 1; }
  int add_node();
  // Costs `cost` if `from` is on the source's side and `to` on the sink's.
  void add_edge(int from, int to, double cost);
  // By node: whether it is on the source's side.
  std::vector<bool> solve();

 private:
  struct Edge {
    int to;
    double rest;  // remaining capacity
  };
  bool find_levels();
  double push(double limit);

  std::vector<Edge> edges_;  // an edge and its reverse are adjacent
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> level_;
  std::vector<size_t> next_;
};

}  // namespace sparkpilot
