// Any bytes as a course in CSV: a scenario that can be simulated, or an Error, never anything else.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "sim/scenario_file.h"

using namespace sparkpilot;
using namespace sparkpilot::sim;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Scenario scenario;
  try {
    scenario = parse_scenario({reinterpret_cast<const char*>(data), size}, "course.csv");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
    return 0;
  }
  check_world(scenario_world(scenario, 1, 1, preset_vehicle("civic")));  // an Error here is a fault
  return 0;
}
