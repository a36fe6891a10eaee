#include "sim/vehicle.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/error.h"

namespace sparkpilot::sim {
namespace {

constexpr Vehicle kCivic;

// Mass, wheelbase and steer ratio are typical of the class, not any one car's.
const std::array<Preset, 6>& presets() {
  static const std::array<Preset, 6> table = [] {
    std::array<Preset, 6> cars{{{"civic", kCivic},
                                {"compact", scaled_vehicle(1250, 2.55, 0.40, 15.0, 0.90)},
                                {"sedan", scaled_vehicle(1650, 2.83, 0.44, 15.5, 1.00)},
                                {"sports", scaled_vehicle(1500, 2.50, 0.47, 13.0, 1.30)},
                                {"suv", scaled_vehicle(2100, 2.85, 0.45, 16.5, 0.85)},
                                {"truck", scaled_vehicle(2600, 3.68, 0.42, 18.5, 0.75)}}};
    cars[4].vehicle.drag = 0.00033;
    cars[5].vehicle.drag = 0.00036;
    return cars;
  }();
  return table;
}

void check_range(double value, double low, double high, std::string_view name) {
  if (!(value >= low && value <= high)) {
    fail("vehicle: {} is {}, expected {} to {}", name, value, low, high);
  }
}

}  // namespace

Vehicle scaled_vehicle(double mass, double wheelbase, double front, double steer_ratio, double stiffness) {
  Vehicle car = kCivic;
  car.mass = mass;
  car.wheelbase = wheelbase;
  car.center_to_front = front * wheelbase;
  car.steer_ratio = steer_ratio;
  const double heavier = mass / kCivic.mass, civic_front = kCivic.center_to_front / kCivic.wheelbase;
  car.inertia = kCivic.inertia * heavier * (wheelbase * wheelbase) / (kCivic.wheelbase * kCivic.wheelbase);
  car.stiffness_front = kCivic.stiffness_front * stiffness * heavier * (1 - front) / (1 - civic_front);
  car.stiffness_rear = kCivic.stiffness_rear * stiffness * heavier * front / civic_front;
  return car;
}

std::span<const Preset> vehicle_presets() { return presets(); }

bool is_preset(std::string_view name) {
  return std::ranges::find(presets(), name, &Preset::name) != std::ranges::end(presets());
}

const Vehicle& preset_vehicle(std::string_view name) {
  std::string names;
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset.vehicle;
    names += (names.empty() ? "" : ", ") + std::string(preset.name);
  }
  fail("vehicle: no preset \"{}\", expected one of {}", name, names);
}

void check_vehicle(const Vehicle& car) {
  check_range(car.mass, 100, 60000, "mass [kg]");
  check_range(car.inertia, 10, 1e6, "inertia [kg m^2]");
  check_range(car.wheelbase, 0.5, 15, "wheelbase [m]");
  check_range(car.center_to_front / car.wheelbase, 0.05, 0.95, "center_to_front per wheelbase");
  check_range(car.stiffness_front, 1e3, 1e7, "stiffness_front [N/rad]");
  check_range(car.stiffness_rear, 1e3, 1e7, "stiffness_rear [N/rad]");
  check_range(car.steer_ratio, 1, 60, "steer_ratio");
  check_range(car.steer_ratio_rear, -0.5, 0.5, "steer_ratio_rear");
  check_range(car.drag, 0, 0.01, "drag [1/m]");
  check_range(car.rolling, 0, 1, "rolling [m/s^2]");
  check_range(car.low_speed, 0.5, 20, "low_speed [m/s]");
  // Runge and Kutta's fourth-order steps are stable to 2.78 of rate times step, and accurate far below that.
  const double rear = car.wheelbase - car.center_to_front, front = car.center_to_front;
  const double lateral = (car.stiffness_front + car.stiffness_rear) / car.mass;
  const double turning = (car.stiffness_front * front * front + car.stiffness_rear * rear * rear) / car.inertia;
  const double rate = std::max(lateral, turning) / car.low_speed * kStep;
  if (rate > 2) {
    fail("vehicle: tyres of {} N/rad and a mass of {} kg need a low_speed of {:.2g} m/s or more, got {}",
         car.stiffness_front + car.stiffness_rear, car.mass, car.low_speed * rate / 2, car.low_speed);
  }
}

}  // namespace sparkpilot::sim
