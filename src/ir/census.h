// Counts what a graph contains and what one run of it costs.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/graph.h"

namespace sparkpilot {

struct Census {
  std::map<std::string, int> ops;  // qualified name -> nodes, bodies of If, Loop and Scan included
  int nodes = 0;
  // Constants of a floating type and rank above 0: weights and biases.
  int64_t parameters = 0;
  int64_t constant_bytes = 0;  // all constants
  // Costs of one run, for nodes whose shapes are known; a multiply-add is two FLOPs. Bodies are not counted, since how
  // often they run depends on data.
  double flops = 0;
  double macs = 0;  // multiply-adds in convolutions and matrix products, part of the FLOPs
  int unknown = 0;  // nodes left out because a shape is not known
};

Census take_census(const Graph& graph);

}  // namespace sparkpilot
