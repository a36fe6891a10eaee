// Any bytes as a car's file: a car that can be simulated, or an Error, never anything else.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "sim/car_file.h"

using namespace sparkpilot;
using namespace sparkpilot::sim;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Car car;
  try {
    car = parse_car({reinterpret_cast<const char*>(data), size}, "car.json");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::user) __builtin_trap();
    return 0;
  }
  const Car again = parse_car(car_text(car, {}), "again.json");  // an Error here is a fault
  if (again.vehicle.mass != car.vehicle.mass || again.steering.delay != car.steering.delay ||
      again.powertrain.compensated != car.powertrain.compensated) {
    __builtin_trap();
  }
  return 0;
}
