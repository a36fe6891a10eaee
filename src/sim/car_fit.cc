#include "sim/car_fit.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "sim/bicycle_fit.h"
#include "sim/drive_grid.h"
#include "sim/steering_fit.h"

namespace sparkpilot::sim {
namespace {

constexpr double kLeastDriven = 30, kLeastTurning = 10, kLeastSteered = 30;  // s
constexpr double kLeastSpan = 2;                                             // m/s: of the speeds of turns
constexpr double kLeastLateral = 0.15;   // m/s^2: standard deviation while openpilot steers
constexpr double kLeastExplained = 0.5;  // share of that variance

// How wide an interval may be for a number to be called identified: half of it, in the number's unit or as a share.
struct Width {
  const char* name;
  const char* unit;
  double half;
  bool share;
};
constexpr Width kWidths[] = {{"steer_ratio", "", 0.1, true},        {"stiffness_factor", "", 0.3, true},
                             {"angle_offset_deg", "deg", 1, false}, {"steering_delay_s", "s", 0.05, false},
                             {"steering_lag_s", "s", 0.1, false},   {"accel_factor_m_per_s2", "m/s^2", 0.25, true},
                             {"friction", "", 0.05, false},         {"accel_offset_m_per_s2", "m/s^2", 0.2, false}};
constexpr std::string_view kBicycle[] = {"steer_ratio", "stiffness_factor", "angle_offset_deg"};
constexpr std::string_view kSteering[] = {"steering_delay_s", "steering_lag_s"};
constexpr std::string_view kTorqueNames[] = {"accel_factor_m_per_s2", "friction", "accel_offset_m_per_s2"};

FittedNumber& at(CarFit& fit, std::string_view name) {
  return fit.numbers[static_cast<size_t>(&fit[name] - fit.numbers.data())];
}

void refuse(CarFit& fit, std::span<const std::string_view> names, const std::string& reason) {
  for (const std::string_view name : names) {
    if (at(fit, name).reason.empty()) at(fit, name).reason = reason;
  }
}
void refuse_all(CarFit& fit, const std::string& reason) {
  refuse(fit, kBicycle, reason);
  refuse(fit, kSteering, reason);
  refuse(fit, kTorqueNames, reason);
}

// Enters an estimate, if its interval is narrow enough to say something. `scale`: of the unit that is told.
void answer(CarFit& fit, std::string_view name, const FitResult& from, size_t which, double scale,
            const std::string& hint) {
  FittedNumber& out = at(fit, name);
  const auto* width = std::ranges::find(kWidths, name, [](const Width& w) { return std::string_view(w.name); });
  const double value = from.values[which] * scale, low = from.low[which] * scale, high = from.high[which] * scale;
  if (!from.converged) {
    out.reason = "the drive does not determine it: the search did not settle" + hint;
  } else if (!std::isfinite(low) || !std::isfinite(high)) {
    out.reason = "the drive does not determine it" + hint;
  } else if ((high - low) / 2 > width->half * (width->share ? std::abs(value) : 1)) {
    out.reason = fmt::format(
        "its interval would be {:.3g} to {:.3g}, wider than {} either side{}", low, high,
        width->share ? fmt::format("{:g} %", width->half * 100) : fmt::format("{:g} {}", width->half, width->unit),
        hint);
  } else {
    out.value = value;
    out.low = low;
    out.high = high;
  }
}

FitOptions fit_options(const CarFitOptions& options) {
  return {.seed = options.seed, .confidence = options.confidence};
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, nth);
  return *nth;
}

// Widens an interval by what else may shift the estimate, as far as that goes at the same confidence.
void widen(FitResult& fit, size_t which, double half) {
  const double value = fit.values[which], own = fit.high[which] - value;
  fit.low[which] = value - std::hypot(own, half);
  fit.high[which] = value + std::hypot(own, half);
}
// A delay or a lag is known no better than half a step of the grid that messages are put on.
void widen_times(FitResult& fit) {
  widen(fit, kDelay, kStep / 2);
  widen(fit, kLag, kStep / 2);
}

void put(FittedNumber& number, const std::optional<double>& value, const char* source) {
  if (number.logged || !value) return;
  number.logged = *value;
  number.logged_source = source;
}

void enter_logged(const drive::CarSignals& signals, CarFit& fit) {
  if (!signals.parameters.empty()) {
    const drive::ParameterSample& last = std::prev(signals.parameters.end())->second;
    put(at(fit, "steer_ratio"), last.steer_ratio, "liveParameters");
    put(at(fit, "stiffness_factor"), last.stiffness, "liveParameters");
    put(at(fit, "angle_offset_deg"), last.angle_offset * kDegrees, "liveParameters");
  }
  put(at(fit, "accel_factor_m_per_s2"), signals.live_accel_factor, "liveTorqueParameters");
  put(at(fit, "friction"), signals.live_friction, "liveTorqueParameters");
  if (!signals.car) return;
  put(at(fit, "steer_ratio"), signals.car->steer_ratio, "carParams");
  put(at(fit, "steering_delay_s"), signals.car->steer_delay, "carParams");
  put(at(fit, "accel_factor_m_per_s2"), signals.car->accel_factor, "carParams");
  put(at(fit, "friction"), signals.car->friction, "carParams");
}

// Seconds and speeds, and what of all this is too little.
void measure(const std::vector<DriveStretch>& stretches, CarFit& fit) {
  std::vector<double> turning;
  for (const DriveStretch& s : stretches) {
    fit.driven_seconds += static_cast<double>(s.speed.size()) * kStep;
    for (size_t i = 0; i < s.speed.size(); ++i) {
      if (std::abs(s.yaw_rate[i]) * s.speed[i] >= kTurning) turning.push_back(s.speed[i]);
    }
  }
  fit.turning_seconds = static_cast<double>(turning.size()) * kStep;
  if (turning.empty()) return;
  fit.slowest_turn = quantile(turning, 0.05);
  fit.fastest_turn = quantile(turning, 0.95);
}

std::string reason_for_nothing(const drive::CarSignals& signals, const CarFit& fit, bool facts) {
  if (signals.motion.empty()) return "the log has no carState";
  if (fit.rate < kLeastRate) {
    return fmt::format("carState comes at {:.3g} Hz, expected {:g} Hz or more: a decimated log (qlog)?", fit.rate,
                       kLeastRate);
  }
  if (!facts) return "the log has no carParams, whose mass and lengths are needed";
  if (fit.driven_seconds < kLeastDriven) {
    return fmt::format("{:.3g} s of driving forwards at {:g} m/s or more, expected {:g} s", fit.driven_seconds,
                       kSlowest, kLeastDriven);
  }
  return "";
}

std::string reason_against_bicycle(const drive::CarSignals& signals, const CarFit& fit) {
  if (signals.yaw_rate.empty()) return "the log has no yaw rate (livePose, liveLocationKalman, gyroscope, carState)";
  const double seconds =
      signals.yaw_rate.size() < 2
          ? 0
          : static_cast<double>(std::prev(signals.yaw_rate.end())->first - signals.yaw_rate.begin()->first) * 1e-9;
  const double rate = seconds > 0 ? static_cast<double>(signals.yaw_rate.size()) / seconds : 0;
  if (rate < 9) {
    return fmt::format("the yaw rate ({}) comes at {:.3g} Hz, expected 9 Hz or more", signals.yaw_source, rate);
  }
  if (fit.turning_seconds < kLeastTurning) {
    return fmt::format("too straight: {:.3g} s with a lateral acceleration of {:g} m/s^2 or more, expected {:g} s",
                       fit.turning_seconds, kTurning, kLeastTurning);
  }
  return "";
}

void enter_bicycle(const std::vector<DriveStretch>& stretches, const Vehicle& base, double offset,
                   const CarFitOptions& options, CarFit& fit) {
  const FitResult bicycle = fit_bicycle(stretches, base, offset, fit.yaw_source, fit_options(options));
  if (bicycle.values.empty()) return refuse(fit, kBicycle, "no yaw rate was measured while driving");
  fit.yaw_deviation = bicycle.deviation;
  const std::string hint = fmt::format("; it was turning at {:.3g} to {:.3g} m/s", fit.slowest_turn.value_or(0),
                                       fit.fastest_turn.value_or(0));
  // At one speed only how fast the car answers tells them apart, and so does all that the model leaves out.
  if (fit.fastest_turn.value_or(0) - fit.slowest_turn.value_or(0) < kLeastSpan) {
    const std::string_view both[] = {kBicycle[0], kBicycle[1]};
    refuse(fit, both, fmt::format("its turns are at one speed{}, expected {:g} m/s between them", hint, kLeastSpan));
  } else {
    answer(fit, "steer_ratio", bicycle, kRatio, 1, hint);
    answer(fit, "stiffness_factor", bicycle, kStiffness, 1, hint);
  }
  answer(fit, "angle_offset_deg", bicycle, kOffset, kDegrees, "");
}

// The model of the car that the steering's fit rests on, and how far off it may be.
struct Basis {
  double ratio, ratio_half, stiffness, stiffness_half, offset, offset_half;  // offset in rad
};
Basis basis_of(const CarFit& fit, double base_ratio) {
  const auto half = [](const FittedNumber& number, double without) {
    return number.value ? (number.high - number.low) / 2 : without;
  };
  const FittedNumber &ratio = fit["steer_ratio"], &stiffness = fit["stiffness_factor"],
                     &offset = fit["angle_offset_deg"];
  Basis basis{};
  basis.ratio = ratio.value.value_or(ratio.logged.value_or(base_ratio));
  basis.ratio_half = half(ratio, 0.05 * basis.ratio);
  basis.stiffness = stiffness.value.value_or(stiffness.logged.value_or(1));
  basis.stiffness_half = half(stiffness, 0.2 * basis.stiffness);
  basis.offset = offset.value.value_or(offset.logged.value_or(0)) / kDegrees;
  basis.offset_half = half(offset, 1) / kDegrees;
  return basis;
}

void enter_torque(const std::vector<SteeredRun>& runs, const Vehicle& base, const Basis& basis,
                  const CarFitOptions& options, CarFit& fit) {
  const TorqueModel model(runs, adjusted(base, basis.ratio, basis.stiffness), basis.offset);
  const std::vector<double> forces = model.forces();
  double sum = 0, squares = 0;
  for (const double f : forces) sum += f, squares += f * f;
  const double count = static_cast<double>(forces.size()), variance = squares / count - sum * sum / (count * count);
  const auto refuse_steering = [&](const std::string& reason) {
    refuse(fit, kSteering, reason);
    refuse(fit, kTorqueNames, reason);
  };
  if (!(variance > kLeastLateral * kLeastLateral)) {
    return refuse_steering(
        fmt::format("too straight: while openpilot steered, lateral acceleration varied by {:.2g} m/s^2, expected {:g}",
                    std::sqrt(std::max(variance, 0.0)), kLeastLateral));
  }
  FitResult torque = fit_torque(model, fit_options(options));
  std::vector<double> left;
  model(torque.values, left);
  double remaining = 0;
  for (const double r : left) remaining += r * r;
  fit.wheel_deviation = torque.deviation;
  fit.explained = 1 - remaining / count / variance;
  if (!(*fit.explained >= kLeastExplained)) {
    return refuse_steering(
        fmt::format("the wheel does not follow the torque as a lag with friction would: that explains {:.0f} % of the "
                    "lateral acceleration, expected {:g} %",
                    std::max(*fit.explained, 0.0) * 100, kLeastExplained * 100));
  }
  const TorqueModel others[] = {
      {runs, adjusted(base, basis.ratio + basis.ratio_half, basis.stiffness), basis.offset},
      {runs, adjusted(base, basis.ratio, basis.stiffness + basis.stiffness_half), basis.offset},
      {runs, adjusted(base, basis.ratio, basis.stiffness), basis.offset + basis.offset_half}};
  for (const TorqueModel& other : others) {
    const std::vector<double> shifted = fit_torque_again(other, torque);
    for (size_t p = 0; p < shifted.size(); ++p) widen(torque, p, shifted[p] - torque.values[p]);
  }
  widen_times(torque);
  answer(fit, "steering_delay_s", torque, kDelay, 1, "");
  answer(fit, "steering_lag_s", torque, kLag, 1, "");
  answer(fit, "accel_factor_m_per_s2", torque, kFactor, 1, "");
  answer(fit, "friction", torque, kFriction, 1, "");
  answer(fit, "accel_offset_m_per_s2", torque, kAccelOffset, 1, "");
}

// Whether the measured wheel is the command of the same step, as in logs that were made up.
bool follows_at_once(const std::vector<SteeredRun>& runs) {
  constexpr double kSame = 1e-4;  // rad: less than a sensor's step
  for (const SteeredRun& run : runs) {
    for (size_t i = run.begin + 1; i < run.end; ++i) {
      const double moved = std::abs(run.in->wheel[i] - run.in->wheel[i - 1]);
      if (std::abs(run.in->wheel[i] - run.in->angle[i]) > kSame + moved) return false;
    }
  }
  return true;
}

void enter_steering(const drive::CarSignals& signals, const std::vector<DriveStretch>& stretches, const Vehicle& base,
                    const CarFitOptions& options, CarFit& fit) {
  const auto control = signals.car ? signals.car->control : drive::SteerControl::torque;
  if (!fit.torque) refuse(fit, kTorqueNames, "the car takes no torque");
  const auto refuse_steering = [&](const std::string& reason) {
    refuse(fit, kSteering, reason);
    refuse(fit, kTorqueNames, reason);
  };
  if (control == drive::SteerControl::curvature)
    return refuse_steering("the car takes curvature, which has no model here");
  if (signals.command.empty() || signals.active.empty()) return refuse_steering("no steering command in the log");
  const std::vector<SteeredRun> runs = steered_runs(stretches);
  for (const SteeredRun& run : runs) fit.steered_seconds += static_cast<double>(run.end - run.begin) * kStep;
  if (fit.steered_seconds < kLeastSteered) {
    return refuse_steering(fmt::format("openpilot steered without the driver for {:.3g} s, expected {:g} s",
                                       fit.steered_seconds, kLeastSteered));
  }
  if (fit.torque) return enter_torque(runs, base, basis_of(fit, base.steer_ratio), options, fit);
  if (follows_at_once(runs)) return refuse_steering("the wheel is where the command wants it at once");
  FitResult angle = fit_angle(runs, fit_options(options));
  widen_times(angle);
  answer(fit, "steering_delay_s", angle, kDelay, 1, "");
  answer(fit, "steering_lag_s", angle, kLag, 1, "");
}

// The car to simulate.
void enter_car(const drive::CarSignals& signals, const CarFitOptions& options, CarFit& fit) {
  Car& car = fit.car;
  if (options.base) car = *options.base;
  const auto from_log = [&](const char* key, double& to, const std::optional<double>& value) {
    if (!value || options.base) return;
    to = *value;
    fit.logged.emplace_back(key);
  };
  if (signals.car) {
    const drive::CarFacts& facts = *signals.car;
    from_log("mass_kg", car.vehicle.mass, facts.mass);
    from_log("inertia_kg_m2", car.vehicle.inertia, facts.inertia);
    from_log("wheelbase_m", car.vehicle.wheelbase, facts.wheelbase);
    from_log("center_to_front_m", car.vehicle.center_to_front, facts.center_to_front);
    from_log("stiffness_front_n_per_rad", car.vehicle.stiffness_front, facts.stiffness_front);
    from_log("stiffness_rear_n_per_rad", car.vehicle.stiffness_rear, facts.stiffness_rear);
    from_log("steer_ratio", car.vehicle.steer_ratio, facts.steer_ratio);
    from_log("steer_ratio_rear", car.vehicle.steer_ratio_rear, facts.steer_ratio_rear);
    from_log("steering_delay_s", car.steering.delay, std::min(facts.steer_delay, 0.63));
    from_log("accel_factor_m_per_s2", car.steering.accel_factor, fit["accel_factor_m_per_s2"].logged);
    from_log("friction", car.steering.friction, fit["friction"].logged);
    car.name = facts.fingerprint.substr(0, 100);
  }
  const auto from_fit = [&](const char* key, double& to, const FittedNumber& number, double base) {
    if (!number.value) return;
    to = base * *number.value;
    std::erase(fit.logged, key);
    fit.fitted.emplace_back(key);
  };
  Vehicle& v = car.vehicle;
  from_fit("steer_ratio", v.steer_ratio, fit["steer_ratio"], 1);
  from_fit("stiffness_front_n_per_rad", v.stiffness_front, fit["stiffness_factor"], v.stiffness_front);
  from_fit("stiffness_rear_n_per_rad", v.stiffness_rear, fit["stiffness_factor"], v.stiffness_rear);
  from_fit("steering_delay_s", car.steering.delay, fit["steering_delay_s"], 1);
  from_fit("steering_lag_s", car.steering.lag, fit["steering_lag_s"], 1);
  from_fit("accel_factor_m_per_s2", car.steering.accel_factor, fit["accel_factor_m_per_s2"], 1);
  from_fit("friction", car.steering.friction, fit["friction"], 1);
  // Light cars on stiff tyres need slip to be computed as if at a higher speed, for steps of 10 ms to be stable.
  const double rear = v.wheelbase - v.center_to_front, front = v.center_to_front;
  const double fastest = std::max((v.stiffness_front + v.stiffness_rear) / v.mass,
                                  (v.stiffness_front * front * front + v.stiffness_rear * rear * rear) / v.inertia);
  v.low_speed = std::max(v.low_speed, 0.51 * fastest * kStep);
}

}  // namespace

const FittedNumber& CarFit::operator[](std::string_view name) const {
  const auto found = std::ranges::find(numbers, name, &FittedNumber::name);
  if (found == numbers.end()) fail_internal("sim: a fit has no number {}", name);
  return *found;
}

CarFit fit_car(const drive::CarSignals& signals, const CarFitOptions& options) {
  CarFit fit;
  for (const Width& width : kWidths) fit.numbers.push_back({.name = width.name, .unit = width.unit});
  fit.rate = motion_rate(signals);
  fit.yaw_source = signals.yaw_source;
  fit.command_source = signals.command_source;
  if (signals.car) {
    fit.fingerprint = signals.car->fingerprint;
    fit.torque = signals.car->control == drive::SteerControl::torque;
  }
  if (!signals.motion.empty()) {
    fit.seconds = static_cast<double>(std::prev(signals.motion.end())->first - signals.motion.begin()->first) * 1e-9;
  }
  enter_logged(signals, fit);
  std::vector<DriveStretch> stretches;
  if (fit.rate >= kLeastRate) stretches = drive_stretches(signals, kSlowest, 3 * kSettled);
  measure(stretches, fit);

  const bool facts = signals.car || options.base;
  const std::string nothing = reason_for_nothing(signals, fit, facts);
  if (!nothing.empty()) {
    refuse_all(fit, nothing);
    enter_car(signals, options, fit);
    return fit;
  }
  CarFit bare;  // the log's car alone
  for (const FittedNumber& number : fit.numbers) bare.numbers.push_back({.name = number.name, .unit = number.unit});
  enter_car(signals, options, bare);
  const Vehicle base = bare.car.vehicle;
  const double logged_offset = fit["angle_offset_deg"].logged.value_or(0) / kDegrees;

  const std::string against = reason_against_bicycle(signals, fit);
  if (against.empty()) enter_bicycle(stretches, base, logged_offset, options, fit);
  else refuse(fit, kBicycle, against);

  enter_steering(signals, stretches, base, options, fit);
  enter_car(signals, options, fit);
  return fit;
}

}  // namespace sparkpilot::sim
