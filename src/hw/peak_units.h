// Loops of multiply-adds in registers only, one for each unit that the processor has for them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "hw/peak.h"

namespace sparkpilot {

struct UnitLoop {
  std::string_view name;
  Arithmetic arithmetic = Arithmetic::f32;
  double flops_a_round = 0;
  int64_t rounds = 0;  // about a quarter of a millisecond
  void (*run)(int64_t rounds) = nullptr;
};

// Loops for the units that cpu_features() reports and that the system lets this process use. The first is for f32.
// Requests AMX's tiles from the system if there are any.
std::vector<UnitLoop> unit_loops();

}  // namespace sparkpilot
