// A car's numbers from a recorded drive: steer ratio and tyre stiffness from yaw rate, speed and wheel angle; delay,
// lag and, of a car that takes torque, lateral acceleration at full torque and friction from commands and wheel angle.
// docs/sim_fit.md has the models.
//
// Nothing is answered without a basis: each number is there with its interval, or there is the reason why it is not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "route/log/car_signals.h"
#include "sim/car_file.h"

namespace sparkpilot::sim {

struct FittedNumber {
  std::string name, unit;
  std::optional<double> value;     // empty: not identifiable
  double low = 0, high = 0;        // the interval, if there is a value
  std::string reason;              // if absent, why
  std::optional<double> logged;    // what the log itself says
  std::string logged_source = {};  // and where: carParams, liveParameters, liveTorqueParameters
};

struct CarFit {
  // steer_ratio, stiffness_factor (of carParams' tyre stiffness), angle_offset_deg; steering_delay_s, steering_lag_s,
  // accel_factor_m_per_s2, friction, accel_offset_m_per_s2.
  std::vector<FittedNumber> numbers;
  double seconds = 0;                                    // of carState
  double rate = 0;                                       // of carState, Hz; 0: none
  double driven_seconds = 0;                             // forwards, from kSlowest on, without a gap
  double turning_seconds = 0;                            // of those, with a lateral acceleration of kTurning or more
  double steered_seconds = 0;                            // of those, by openpilot and not by the driver
  std::optional<double> slowest_turn, fastest_turn;      // m/s: the 5th and 95th percentile of speed while turning
  std::optional<double> yaw_deviation, wheel_deviation;  // rad/s, m/s^2: of what the models leave
  std::optional<double> explained;                       // share of the lateral acceleration's variance
  std::string yaw_source, command_source, fingerprint;
  bool torque = true;               // the car takes torque, not angles
  Car car;                          // to simulate: the log's, with what is identified
  std::vector<std::string> fitted;  // keys of the car's file (car_file.h) that are from the fit, not from the log
  std::vector<std::string> logged;  // and those that are the log's; the rest are the Civic's
  const FittedNumber& operator[](std::string_view name) const;  // fails (internal) on another name
};

inline constexpr double kSlowest = 5, kTurning = 0.3;  // m/s, m/s^2
inline constexpr double kLeastRate = 40;               // Hz of carState

struct CarFitOptions {
  double confidence = 0.95;
  uint64_t seed = 0;        // of the bootstrap
  std::optional<Car> base;  // instead of the log's carParams: mass, lengths, stiffness of factor 1
};

CarFit fit_car(const drive::CarSignals& signals, const CarFitOptions& options = {});

}  // namespace sparkpilot::sim
