// Numbers of openpilot's controllers (sim/control-inl.h), in doubles. [f]: read in a fork that follows upstream.
#pragma once

namespace sparkpilot::sim {

inline constexpr int kRequests = 100;  // the torque controller's buffer: 1 s
inline constexpr double kFrictionThreshold = 0.2;
inline constexpr double kMaxLateralJerk = 5, kMaxLateralAcceleration = 3, kMaxCurvature = 0.2;

// Of a delay in seconds: int(delay / step + 1), 1 to kRequests, which counts back from the newest request as 1.
inline double delay_frames(double delay) {
  const double frames = delay / 0.01 + 1;
  return !(frames > 1) ? 1 : frames >= kRequests ? kRequests : static_cast<int>(frames);
}

struct LateralTuning {
  // Torque, version 1 [f]; version 0 is torque_version_0(). Factor and friction: opendbc's for the Honda Civic.
  double torque_kp = 1;         // a factor of the whole table of kp
  double torque_kp_fast = 0.8;  // the last value of the table of kp, at 30 m/s
  double torque_ki = 0.15;
  double jerk_gain = 0.3, jerk_lookahead = 0.19, jerk_cutoff = 1.2;  // -, s, Hz
  double accel_factor = 1.653;                                       // m/s^2 at full torque
  double accel_offset = 0;                                           // m/s^2
  double friction = 0.2546;                                          // of full torque
  double dead_zone_degrees = 0;
  // PID on the angle of the wheel, in torque per degree, at 0 and 35 m/s; these suit the defaults of Steering
  // (sim/world.h). opendbc's for the Civic are 0.8, 0.24 and 0.00006 [f], for a steering whose torque turns the wheel a
  // few degrees.
  double pid_kp[2] = {0.005, 0.1}, pid_ki[2] = {0.005, 0.1}, pid_kf = 0.0002;
  // MPPI (sim/mppi-inl.h), with accel_factor and friction as above: size of its noise in torque, temperature as a share
  // of the samples' mean cost above the least, weight of changes, share of the model's error that is believed at once,
  // and the part of lateral_delay that is a lag of the first order, in s.
  double mppi_noise = 0.1, mppi_temperature = 0.05, mppi_change = 0.03, mppi_observer = 0.05, mppi_lag = 0.1;
  // Angle [f]: beyond this many degrees the car does not follow.
  double angle_limit = 2.5;
};
inline LateralTuning torque_version_0() {
  LateralTuning tuning;
  tuning.torque_kp_fast = 1.0;
  tuning.torque_ki = 0.3;
  return tuning;
}

struct LongitudinalTuning {
  double kp[3] = {0, 0, 0}, ki[3] = {0, 0, 0}, kf = 1;  // at 0, 5 and 35 m/s
  bool speed_error = false;
  double stop_accel = -2, stopping_rate = 1;  // m/s^2, m/s^3
  bool starting_state = false;
  double start_accel = 0, starting_speed = 0.5;  // m/s^2, m/s
  double min_accel = -3.5, max_accel = 2;        // m/s^2
};
// As older versions had it: a gain on speed and a state "starting"; numbers of opendbc's defaults [m].
inline LongitudinalTuning older_longitudinal() {
  LongitudinalTuning tuning;
  tuning.kp[0] = 3.6, tuning.kp[1] = 2.4, tuning.kp[2] = 1.5;
  tuning.ki[0] = 0.54, tuning.ki[1] = 0.50, tuning.ki[2] = 0.36;
  tuning.speed_error = true;
  tuning.starting_state = true;
  tuning.start_accel = 1.2;
  return tuning;
}

}  // namespace sparkpilot::sim
