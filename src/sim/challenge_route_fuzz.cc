// Any bytes as a route of the controls challenge: finite values that fit together, or an Error, never anything else.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "sim/challenge_route.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot;
  try {
    const auto route = sim::parse_challenge_route({reinterpret_cast<const char*>(data), size}, "fuzz.csv");
    for (const auto* column : {&route.roll_lataccel, &route.v_ego, &route.a_ego, &route.target}) {
      if (column->size() != route.steer.size()) __builtin_trap();
      for (const double value : *column)
        if (!std::isfinite(value)) __builtin_trap();
    }
    for (size_t i = 0; i < route.steer.size(); ++i) {
      if (std::isnan(route.steer[i]) && i < static_cast<size_t>(sim::kChallengeStart)) __builtin_trap();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
  }
  return 0;
}
