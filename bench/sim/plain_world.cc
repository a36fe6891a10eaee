#include "bench/sim/plain_world.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/parallel.h"

#ifndef PLAIN_NAMESPACE
#define PLAIN_NAMESPACE plain
#endif

namespace sparkpilot::sim::PLAIN_NAMESPACE {
namespace {

constexpr float kH = 0.01f, kG = 9.81f, kDegreesOf = 57.29578f;

float table(float x, const float* at, const float* value, int count) {
  if (x <= at[0]) return value[0];
  for (int i = 1; i < count; ++i) {
    if (x < at[i]) return value[i - 1] + (value[i] - value[i - 1]) * (x - at[i - 1]) / (at[i] - at[i - 1]);
  }
  return value[count - 1];
}

struct World {
  // Constants.
  float slip_factor, slip_roll, wheel_curvature, wheel_angle, ratio_inverse, front, rear;
  float slip, force_lateral, force_cross, force_cross_turning, force_turning, steer_lateral, steer_turning;
  float front_load, rear_load, front_limit_inverse, rear_limit_inverse, front_lever, rear_lever, low_speed, drag,
      rolling;
  int steering_delay, drive_delay, frames, jerk_frames;
  float torque_step, lag_gone, wheel_step, accel_factor, friction, lag_left, lag_mean, lateral_delay;
  float control_factor, control_friction, control_offset, dead_zone, kp_fast, ki, jerk_gain, filter, kf;
  float pid_kp[2], pid_ki[2], low_accel, high_accel, stop, stopping_rate, ki_accel;
  float curvature, wave, frequency, turn, turn_at, turn_ramp, speed0, speed_change, change_at, change_ramp, brake,
      keeping, roll, grade, grip0;
  float ice_grip, ice_at, ice_to, side0, side_at, side_to;
  // State.
  float speed, drive = 0, acceleration = 0, lateral = 0, yaw = 0, offset = 0, heading = 0, distance = 0, wheel = 0,
               command = 0;
  float integral = 0, jerk = 0, drive_integral = 0, drive_output = 0, road_curvature = 0, grip = 1, side = 0,
        plan_curvature = 0, target_speed = 0;
  float target = 0, desired = 0, last = 0;
  int drive_state = 2;
  float requests[100] = {}, commands[64] = {}, drives[64] = {};
  double error = 0, jerks = 0, speeds = 0;
  float error_max = 0, offset_max = 0;
  int counted = 0, saturated = 0, diverged = -1;

  World(const WorldSpec& w, const Beginning& begun) {
    const Vehicle& c = w.vehicle;
    const double a = c.center_to_front, b = c.wheelbase - a, cf = c.stiffness_front, cr = c.stiffness_rear, m = c.mass,
                 j = c.inertia, l = c.wheelbase;
    const double sf = m * (cf * a - cr * b) / (l * l * cf * cr), chi = c.steer_ratio_rear;
    const auto f = [](double x) { return static_cast<float>(x); };
    slip_factor = f(sf), slip_roll = f(sf * 9.81), wheel_curvature = f((1 - chi) / (l * c.steer_ratio)),
    wheel_angle = 1 / wheel_curvature;
    ratio_inverse = f(1 / c.steer_ratio), front = f(a), rear = f(b);
    force_lateral = f((cf + cr) / m), force_cross = f((cf * a - cr * b) / m),
    force_cross_turning = f((cf * a - cr * b) / j);
    force_turning = f((cf * a * a + cr * b * b) / j), steer_lateral = f((cf + chi * cr) / m / c.steer_ratio);
    steer_turning = f((cf * a - chi * cr * b) / j / c.steer_ratio);
    slip = f(m * a / (l * cr));
    front_load = f(9.81 * b / l), rear_load = f(9.81 * a / l), front_limit_inverse = f(cf / m / (3 * 9.81 * b / l));
    rear_limit_inverse = f(cr / m / (3 * 9.81 * a / l)), front_lever = f(m * a / j), rear_lever = f(m * b / j);
    low_speed = f(c.low_speed), drag = f(c.drag * (1 - w.powertrain.compensated)),
    rolling = f(c.rolling * (1 - w.powertrain.compensated));
    steering_delay = static_cast<int>(w.steering.delay / 0.01 + 0.5),
    drive_delay = static_cast<int>(w.powertrain.delay / 0.01 + 0.5);
    frames = static_cast<int>(delay_frames(w.lateral_delay)),
    jerk_frames = static_cast<int>(w.lateral.jerk_lookahead / 0.01);
    torque_step = f(w.steering.torque_rate * 0.01), lag_gone = f(1 - std::exp(-0.01 / w.steering.lag));
    wheel_step = f(w.steering.angle_rate * 0.01) / kDegreesOf, accel_factor = f(w.steering.accel_factor);
    friction = f(w.steering.friction * w.steering.accel_factor);
    lag_left = f(std::exp(-0.01 / w.powertrain.lag)),
    lag_mean = f((1 - std::exp(-0.01 / w.powertrain.lag)) * w.powertrain.lag / 0.01);
    lateral_delay = f(w.lateral_delay);
    const LateralTuning& t = w.lateral;
    control_factor = f(t.accel_factor), control_friction = f(t.friction * t.accel_factor),
    control_offset = f(t.accel_offset);
    dead_zone = f(t.dead_zone_degrees) / kDegreesOf, kp_fast = f(t.torque_kp_fast), ki = f(t.torque_ki),
    jerk_gain = f(t.jerk_gain);
    const double rc = 1 / (2 * 3.141592653589793 * t.jerk_cutoff);
    filter = f(0.01 / (rc + 0.01)), kf = f(t.pid_kf);
    for (int i = 0; i < 2; ++i) pid_kp[i] = f(t.pid_kp[i]), pid_ki[i] = f(t.pid_ki[i]);
    low_accel = f(w.longitudinal.min_accel), high_accel = f(w.longitudinal.max_accel),
    stop = f(w.longitudinal.stop_accel);
    stopping_rate = f(w.longitudinal.stopping_rate), ki_accel = f(w.longitudinal.ki[0]);
    const Course& o = w.course;
    curvature = f(o.curvature), wave = f(o.wave), frequency = f(o.frequency), turn = f(o.turn), turn_at = f(o.turn_at),
    turn_ramp = f(o.turn_ramp);
    speed0 = f(o.speed), speed_change = f(o.speed_change), change_at = f(o.change_at), change_ramp = f(o.change_ramp),
    brake = f(o.brake);
    keeping = f(o.lane_keeping), roll = f(o.roll), grade = f(o.grade), grip0 = f(o.grip), ice_grip = f(o.ice_grip),
    ice_at = f(o.ice_at);
    ice_to = f(o.ice_at + o.ice_for), side0 = f(o.side), side_at = f(o.side_at), side_to = f(o.side_at + o.side_for);
    speed = speed0;
    wheel = begun.wheel, command = begun.command, lateral = begun.lateral, yaw = begun.yaw_rate,
    heading = begun.heading;
    desired = begun.desired, last = begun.acceleration;
    std::fill(std::begin(requests), std::end(requests), desired * speed * speed);
    std::fill(std::begin(commands), std::end(commands), begun.command);
  }

  static float ramp(float t, float at, float length) {
    const float x = std::clamp((t - at) / length, 0.0f, 1.0f);
    return x * x * (3 - 2 * x);
  }
  float course(float t) const {
    return curvature + wave * std::sin(frequency * t) + turn * ramp(t, turn_at, turn_ramp);
  }
  void plan(float t) {
    road_curvature = course(t);
    grip = t >= ice_at && t < ice_to ? ice_grip : grip0;
    side = t >= side_at && t < side_to ? side0 : 0;
    const float v = std::max(speed, 5.0f);
    const float direction = heading + rear * road_curvature - slip * (v * v * road_curvature + kG * roll);
    plan_curvature = course(t + lateral_delay) - (keeping * keeping * offset / v + 2 * keeping * direction) / v;
    target_speed = std::max(speed0 + speed_change * ramp(t, change_at, change_ramp), 0.0f);
    const float at[] = {0, 10, 25, 40}, most[] = {1.6f, 1.2f, 0.8f, 0.6f};
    target = std::max(-brake, std::min(target_speed - speed, table(speed, at, most, 4)));
  }

  static float pid(float kp, float ki, float e, float ff, float low, float high, bool frozen, float& i) {
    const float p = kp * e;
    if (!frozen) {
      const float moved = i + ki * kH * e, all = p + moved + ff;
      const float upper = all > high ? i : high, lower = all < low ? i : low;
      i = std::min(std::max(moved, lower), upper);
    }
    return std::min(std::max(p + i + ff, low), high);
  }
  void clip_curvature() {
    const float v = std::max(speed, 1.0f), v2 = v * v, step = 5 * kH / v2;
    float c = std::clamp(-plan_curvature, desired - step, desired + step);
    c = std::clamp(c, (roll * kG - 3) / v2, (roll * kG + 3) / v2);
    desired = std::clamp(c, -0.2f, 0.2f);
  }
  float control_pid(bool& at_limit) {
    const float v2 = speed * speed;
    const float wanted = (-desired * (1 - slip_factor * v2) - slip_roll * roll) * wheel_angle * kDegreesOf;
    const float at[] = {0, 35};
    const float out = pid(table(speed, at, pid_kp, 2), table(speed, at, pid_ki, 2), wanted - wheel * kDegreesOf,
                          kf * wanted * v2, -1, 1, speed < 5, integral);
    at_limit = 1 - std::fabs(out) < 1e-3f;
    return out;
  }
  float control_torque(int step, bool& at_limit) {
    const float v2 = speed * speed, flexible = 1 - slip_factor * v2;
    const float measured = -(wheel_curvature * wheel + slip_roll * roll) / flexible * v2, wanted = desired * v2;
    requests[step % 100] = wanted;
    const auto back = [&](int n) { return requests[(step + 100 - n) % 100]; };
    const int at = std::clamp(frames - jerk_frames, 2, 99);
    const float raw = (back(at - 2) - back(at)) / (2 * kH);
    jerk += filter * (raw - jerk);
    const float e = back(frames - 1) - measured;
    float push = e + jerk_gain * jerk;
    const float still = std::fabs(wheel_curvature * dead_zone / flexible) * v2;
    if (push > -still && push < still) push = 0;
    const float ff = wanted - roll * kG - control_offset + std::clamp(push / 0.2f, -1.0f, 1.0f) * control_friction;
    const float speeds[] = {1, 1.5f, 2, 3, 5, 7.5f, 10, 15, 30},
                gains[] = {250, 120, 65, 30, 11.5f, 5.5f, 3.5f, 2, kp_fast};
    const float out =
        pid(table(speed, speeds, gains, 9), ki, e, ff, -control_factor, control_factor, speed < 5, integral) /
        control_factor;
    at_limit = 1 - std::fabs(out) < 1e-3f;
    return -out;
  }
  float control_drive() {
    const bool should_stop = speed < 0.3f && target < 0.1f;
    if (drive_state < 2) {
      drive_state = should_stop ? 1 : 2;
    } else if (should_stop) {
      drive_state = 1;
    }
    float out;
    if (drive_state == 2) {
      out = pid(0, ki_accel, target - acceleration, target, low_accel, high_accel, false, drive_integral);
    } else {
      drive_integral = 0;
      out = drive_output;
      if (out > stop) out = std::min(out, 0.0f) - stopping_rate * kH;
    }
    drive_output = std::clamp(out, low_accel, high_accel);
    return drive_output;
  }
  void steer(int step, float wish) {
    command = std::clamp(std::clamp(wish, -1.0f, 1.0f), command - torque_step, command + torque_step);
    commands[step % 64] = command;
    const float torque = commands[(step + 64 - steering_delay) % 64];
    const float u = std::max(speed, 5.0f), per = wheel_angle / (u * u), flexible = (1 - slip_factor * u * u) * per;
    float difference = accel_factor * torque * flexible - kG * roll * per - wheel;
    const float band = friction * flexible;
    if (std::fabs(difference) <= band) return;
    difference -= difference > 0 ? band : -band;
    wheel += std::clamp(lag_gone * difference, -wheel_step, wheel_step);
  }
  void accelerate(int step, float wish) {
    drives[step % 64] = wish;
    const float asked = drives[(step + 64 - drive_delay) % 64];
    const float constant = asked + (drive - asked) * lag_mean - rolling - kG * grade;
    drive = asked + (drive - asked) * lag_left;
    const float middle = speed + 0.5f * kH * (constant - drag * speed * speed);
    const float next = std::max(speed + kH * (constant - drag * middle * middle), 0.0f);
    acceleration = (next - speed) / kH;
    speed = next;
  }

  struct Linear {
    float vv, vr, rv, rr, v0, r0;
    Linear(const World& w, float u) {
      const float inverse = 1 / u;
      vv = -w.force_lateral * inverse, vr = -w.force_cross * inverse - u, rv = -w.force_cross_turning * inverse,
      rr = -w.force_turning * inverse;
      v0 = w.steer_lateral * w.wheel - kG * w.roll + w.side, r0 = w.steer_turning * w.wheel;
    }
    void operator()(const World&, float v, float r, float& dv, float& dr) const {
      dv = vv * v + vr * r + v0, dr = rv * v + rr * r + r0;
    }
  };
  static float brush(float peak, float inverse, float t) {
    const float s = std::fabs(t) * inverse;
    const float force = s >= 1 ? peak : peak * s * (3 + s * (s - 3));
    return t < 0 ? -force : force;
  }
  struct Saturating {
    float steer, cosine, front_peak, rear_peak, front_inverse, rear_inverse, u, inverse, v0;
    Saturating(const World& w, float speed) : u(speed) {
      const float angle = std::clamp(w.wheel * w.ratio_inverse, -0.78f, 0.78f), grip = std::max(w.grip, 0.01f);
      steer = std::tan(angle), cosine = std::cos(angle), inverse = 1 / u;
      front_peak = grip * w.front_load, rear_peak = grip * w.rear_load, front_inverse = w.front_limit_inverse / grip,
      rear_inverse = w.rear_limit_inverse / grip;
      v0 = w.side - kG * w.roll;
    }
    void operator()(const World& w, float v, float r, float& dv, float& dr) const {
      const float f = (v + w.front * r) * inverse, b = (v - w.rear * r) * inverse;
      const float ff = brush(front_peak, front_inverse, (steer - f) / std::max(1 + steer * f, 0.05f)) * cosine,
                  fb = brush(rear_peak, rear_inverse, -b);
      dv = ff + fb + v0 - u * r, dr = w.front_lever * ff - w.rear_lever * fb;
    }
  };
  template <class Forces>
  void move(float before) {
    const float mean = 0.5f * (before + speed), length = mean * kH, u = std::max(mean, low_speed), v = lateral, r = yaw;
    const Forces forces(*this, u);
    float v1, r1, v2, r2, v3, r3, v4, r4;
    forces(*this, v, r, v1, r1);
    forces(*this, v + kH / 2 * v1, r + kH / 2 * r1, v2, r2);
    forces(*this, v + kH / 2 * v2, r + kH / 2 * r2, v3, r3);
    forces(*this, v + kH * v3, r + kH * r3, v4, r4);
    lateral = v + kH / 6 * (v1 + 2 * (v2 + v3) + v4);
    yaw = r + kH / 6 * (r1 + 2 * (r2 + r3) + r4);
    const float scale = mean / u, turned = kH * (r + kH / 6 * (r1 + r2 + r3)) * scale,
                aside = kH / 2 * (v + lateral) * scale;
    const float angle = heading + 0.5f * (turned - road_curvature * length), s = std::sin(angle), c = std::cos(angle);
    const float passed = (length * c - aside * s) / std::max(1 - road_curvature * offset, 0.1f);
    offset += aside * c + length * s;
    heading += turned - road_curvature * passed;
    distance += passed;
  }
  void measure(int step, int warm_up, bool at_limit) {
    const float a = yaw * (speed / std::max(speed, low_speed)) * speed, j = (a - last) / kH;
    if (!(std::fabs(lateral) < 100 && std::fabs(yaw) < 20 && std::fabs(offset) < 1e5f && std::fabs(heading) < 1e4f &&
          speed < 200)) {
      diverged = step;
      return;
    }
    last = a;
    if (step < warm_up) return;
    const float e = a - road_curvature * speed * speed, s = target_speed - speed;
    ++counted;
    error += e * e, jerks += j * j, speeds += s * s;
    error_max = std::max(error_max, std::fabs(e)), offset_max = std::max(offset_max, std::fabs(offset));
    saturated += at_limit;
  }

  template <class Forces, bool kTorque>
  WorldResult run(const BatchOptions& o) {
    for (int step = 0; step < o.steps && diverged < 0; ++step) {
      if (step % kStepsPerPlan == 0) plan(static_cast<float>(step) * kH);
      clip_curvature();
      bool at_limit;
      const float wish = kTorque ? control_torque(step, at_limit) : control_pid(at_limit), push = control_drive(),
                  before = speed;
      steer(step, wish);
      accelerate(step, push);
      move<Forces>(before);
      measure(step, o.warm_up, at_limit);
    }
    WorldResult r;
    const double each = counted ? 1.0 / counted : 0;
    r.steps = counted, r.tracking_rmse = std::sqrt(error * each), r.tracking_max = error_max,
    r.jerk_rms = std::sqrt(jerks * each);
    r.saturated = saturated * each, r.offset_max = offset_max, r.speed_rmse = std::sqrt(speeds * each);
    if (diverged >= 0) r.diverged = diverged;
    r.speed = speed, r.offset = offset, r.distance = distance;
    return r;
  }
};

}  // namespace

std::vector<WorldResult> run_worlds(int64_t count, const std::function<WorldSpec(int64_t)>& spec, const BatchOptions& o,
                                    const std::vector<Beginning>& begun) {
  std::vector<WorldResult> results(static_cast<size_t>(count));
  parallel_for(count, 128, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      World world(spec(i), begun[static_cast<size_t>(i)]);
      const bool linear = o.tyres == Tyres::linear, torque = o.lateral == Lateral::torque;
      results[static_cast<size_t>(i)] =
          linear   ? torque ? world.run<World::Linear, true>(o) : world.run<World::Linear, false>(o)
            : torque ? world.run<World::Saturating, true>(o)
                   : world.run<World::Saturating, false>(o);
    }
  });
  return results;
}

}  // namespace sparkpilot::sim::PLAIN_NAMESPACE
