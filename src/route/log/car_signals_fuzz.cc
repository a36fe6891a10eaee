// Any bytes as a log: what it says of the car is finite and within bounds, or there is an Error.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "base/error.h"
#include "route/log/car_signals.h"
#include "route/log/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace sparkpilot::drive;
  try {
    LogReader log(memory_source({reinterpret_cast<const std::byte*>(data), size}), "fuzz");
    CarSignalsReader reader;
    reader.add(log, {}, 200);
    const CarSignals signals = reader.take();
    for (const auto& [time, motion] : signals.motion) {
      if (!std::isfinite(motion.speed + motion.acceleration + motion.wheel)) __builtin_trap();
    }
    for (const auto& [time, rate] : signals.yaw_rate) {
      if (!std::isfinite(rate)) __builtin_trap();
    }
    for (const auto& [time, command] : signals.command) {
      if (!std::isfinite(command.torque + command.wheel)) __builtin_trap();
    }
  } catch (const sparkpilot::Error& error) {
    if (error.kind() != sparkpilot::ErrorKind::user) __builtin_trap();
  }
  return 0;
}
