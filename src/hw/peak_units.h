// Loops of multiply-adds in registers alone, one for each unit that the processor has for them.
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

// Of the units that cpu_features() tells of, and that the system lets this process use. The first is for f32. Asks the
// system for the tiles of AMX where there are any.
std::vector<UnitLoop> unit_loops();

}  // namespace sparkpilot
