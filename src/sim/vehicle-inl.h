// Cars as steps of 10 ms over a number type: openpilot's steady state, three bicycles, and the longitudinal motion.
//
// Signs are those of openpilot's VehicleModel: angles, curvature, yaw rate and lateral speed are positive to the left;
// positive roll of the road lets the car drift to the right.
#if defined(SPARKPILOT_SIM_VEHICLE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_VEHICLE_INL_H_
#undef SPARKPILOT_SIM_VEHICLE_INL_H_
#else
#define SPARKPILOT_SIM_VEHICLE_INL_H_
#endif

#include <type_traits>

#include "sim/math-inl.h"
#include "sim/vehicle.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

// What follows from a Vehicle alone.
template <class N>
struct CarConstants {
  N slip_factor;      // s^2/m^2: m (Cf aF - Cr aR) / (L^2 Cf Cr), positive for an oversteering car
  N slip_roll;        // slip_factor g
  N wheel_curvature;  // (1 - chi) / (L sR): curvature per angle of the steering wheel, at rest
  N wheel_angle;      // its inverse
  N steer_ratio_inverse;
  N wheelbase_inverse, center_to_rear, center_to_front;
  N force_lateral, force_cross, force_cross_turning, force_turning;  // the matrix of the linear bicycle, times -speed
  N steer_lateral, steer_turning;                                    // and what the steering wheel adds
  N front_load, rear_load;                    // the most lateral force of each axle per mass at grip 1, m/s^2
  N front_limit_inverse, rear_limit_inverse;  // 1 / tan of the slip angle at which it is reached at grip 1
  N front_lever, rear_lever;                  // m aF / J and m aR / J
  N low_speed;
  N drag, rolling;
};

SIM_FN CarConstants<double> car_constants(const Vehicle& c) {
  const double front = c.center_to_front, rear = c.wheelbase - front, cf = c.stiffness_front, cr = c.stiffness_rear;
  const double chi = c.steer_ratio_rear, m = c.mass, j = c.inertia, l = c.wheelbase;
  CarConstants<double> k;
  k.slip_factor = m * (cf * front - cr * rear) / (l * l * cf * cr);
  k.slip_roll = k.slip_factor * kGravity;
  k.wheel_curvature = (1 - chi) / (l * c.steer_ratio);
  k.wheel_angle = 1 / k.wheel_curvature;
  k.steer_ratio_inverse = 1 / c.steer_ratio;
  k.wheelbase_inverse = 1 / l;
  k.center_to_rear = rear;
  k.center_to_front = front;
  k.force_lateral = (cf + cr) / m;
  k.force_cross = (cf * front - cr * rear) / m;
  k.force_cross_turning = (cf * front - cr * rear) / j;
  k.force_turning = (cf * front * front + cr * rear * rear) / j;
  k.steer_lateral = (cf + chi * cr) / m / c.steer_ratio;
  k.steer_turning = (cf * front - chi * cr * rear) / j / c.steer_ratio;
  k.front_load = kGravity * rear / l;
  k.rear_load = kGravity * front / l;
  k.front_limit_inverse = cf / m / (3 * k.front_load);
  k.rear_limit_inverse = cr / m / (3 * k.rear_load);
  k.front_lever = m * front / j;
  k.rear_lever = m * rear / j;
  k.low_speed = c.low_speed;
  k.drag = c.drag;
  k.rolling = c.rolling;
  return k;
}

// openpilot's VehicleModel. Angles of the steering wheel in radians, speed in m/s, roll in radians, curvature in 1/m.

// Curvature per angle of the front wheels: (1 - chi) / ((1 - slip_factor u^2) L).
template <class N>
SIM_FN N curvature_factor(const CarConstants<N>& car, N speed) {
  return car.wheel_curvature / (car.steer_ratio_inverse * neg_mul_add(car.slip_factor, speed * speed, N(1)));
}
// Upstream's g roll / (1 / slip_factor - u^2), written so that a neutral car needs no separate case.
template <class N>
SIM_FN N roll_compensation(const CarConstants<N>& car, N speed, N roll) {
  return car.slip_roll * roll / neg_mul_add(car.slip_factor, speed * speed, N(1));
}
template <class N>
SIM_FN N curvature_of(const CarConstants<N>& car, N wheel, N speed, N roll) {
  return mul_add(car.wheel_curvature, wheel, car.slip_roll * roll) / neg_mul_add(car.slip_factor, speed * speed, N(1));
}
template <class N>
SIM_FN N steer_from_curvature(const CarConstants<N>& car, N curvature, N speed, N roll) {
  const N flexible = neg_mul_add(car.slip_factor, speed * speed, N(1));
  return neg_mul_add(car.slip_roll, roll, curvature * flexible) * car.wheel_angle;
}

// What the road does to a car.
template <class N>
struct Road {
  N curvature;  // 1/m
  N roll;       // rad
  N grade;      // sin of the slope, positive uphill
  N side;       // m/s^2: what crosswind adds, positive to the left
  N grip;       // share of the load that a tyre takes sideways: 1 dry, 0.15 ice
};

// A car's motion along a road: `offset` from its middle (left positive) and `heading` against it.
template <class N>
struct Motion {
  N speed;         // m/s, along the car; never below 0
  N drive;         // m/s^2, what the powertrain and the brakes give
  N acceleration;  // m/s^2, of the last step
  N lateral;       // m/s, at the centre of gravity
  N yaw_rate;      // rad/s
  N offset;        // m
  N heading;       // rad
  N passed;        // m, along the road in the last step
};

struct LinearTyres {};      // openpilot's dynamic bicycle: forces in proportion to slip angles
struct SaturatingTyres {};  // the brush model (E. Fiala, 1954) with exact slip angles: grip limits the force
struct NoSlip {};           // the kinematic bicycle
// One of them, chosen at run time for all worlds: a branch in each step, where a type would be compiled three times.
struct AnyTyres {
  Tyres kind;
};

// v' and r' of the tyres' models. The speed that slip is computed with, `u`, is at least the car's low_speed.
template <class N, class Tyres>
struct Forces;

template <class N>
struct Forces<N, LinearTyres> {
  N vv, vr, rv, rr, v0, r0;
  SIM_FN Forces(const CarConstants<N>& car, N wheel, N u, const Road<N>& road) {
    const N inverse = N(1) / u;
    vv = -car.force_lateral * inverse;
    vr = neg_mul_add(car.force_cross, inverse, -u);
    rv = -car.force_cross_turning * inverse;
    rr = -car.force_turning * inverse;
    v0 = mul_add(car.steer_lateral, wheel, neg_mul_add(N(kGravity), road.roll, road.side));
    r0 = car.steer_turning * wheel;
  }
  SIM_FN void operator()(const CarConstants<N>&, N v, N r, N& dv, N& dr) const {
    dv = mul_add(vv, v, mul_add(vr, r, v0));
    dr = mul_add(rv, v, mul_add(rr, r, r0));
  }
};

// Force per mass of an axle for t = tan of its slip angle: C t (1 - s + s^2 / 3) with s = |t| / T up to T = 3 peak / C,
// then the peak.
template <class N>
SIM_FN N brush(N peak, N limit_inverse, N t) {
  const N s = min(abs(t) * limit_inverse, N(1));
  const N force = peak * s * mul_add(s, s - N(3), N(3));
  return select(t < N(0), -force, force);
}

template <class N>
struct Forces<N, SaturatingTyres> {
  N steer, cosine, front_peak, rear_peak, front_inverse, rear_inverse, u, inverse, v0;
  SIM_FN Forces(const CarConstants<N>& car, N wheel, N u_, const Road<N>& road) : u(u_) {
    N s;
    sin_cos_small(clip(wheel * car.steer_ratio_inverse, N(-0.78), N(0.78)), s, cosine);
    steer = s / cosine;
    inverse = N(1) / u;
    const N grip = max(road.grip, N(0.01)), grip_inverse = N(1) / grip;
    front_peak = grip * car.front_load;
    rear_peak = grip * car.rear_load;
    front_inverse = grip_inverse * car.front_limit_inverse;
    rear_inverse = grip_inverse * car.rear_limit_inverse;
    v0 = neg_mul_add(N(kGravity), road.roll, road.side);
  }
  SIM_FN void operator()(const CarConstants<N>& car, N v, N r, N& dv, N& dr) const {
    const N front = mul_add(car.center_to_front, r, v) * inverse,
            rear = neg_mul_add(car.center_to_rear, r, v) * inverse;
    // tan(a - b); beyond a right angle, where a car spins, the slip stays large.
    const N slip = (steer - front) / max(mul_add(steer, front, N(1)), N(0.05));
    const N f = brush(front_peak, front_inverse, slip) * cosine;
    const N b = brush(rear_peak, rear_inverse, -rear);
    dv = neg_mul_add(u, r, f + b + v0);
    dr = neg_mul_add(car.rear_lever, b, car.front_lever * f);
  }
};

// One step of the lateral motion at the step's mean speed. Runge and Kutta's fourth order: the exact step of a linear
// bicycle would need two exponentials and serve linear tyres only, while this one serves all; at 10 ms its error is
// below 1e-6 of the state from 10 m/s on, and it is stable from low_speed on, below which motion is that of low_speed
// scaled to the speed (tyres there roll without slip). Turns of the wheel and of the road within a step are not seen.
template <class N, class Tyres>
SIM_FN void lateral_rates(const CarConstants<N>& car, N wheel, N u, const Road<N>& road, double step, Motion<N>& m,
                          N& turned) {
  const N h = N(step), half = N(step / 2), sixth = N(step / 6);
  const Forces<N, Tyres> forces(car, wheel, u, road);
  const N v = m.lateral, r = m.yaw_rate;
  N v1, r1, v2, r2, v3, r3, v4, r4;
  forces(car, v, r, v1, r1);
  forces(car, mul_add(half, v1, v), mul_add(half, r1, r), v2, r2);
  forces(car, mul_add(half, v2, v), mul_add(half, r2, r), v3, r3);
  forces(car, mul_add(h, v3, v), mul_add(h, r3, r), v4, r4);
  m.lateral = mul_add(sixth, mul_add(N(2), v2 + v3, v1 + v4), v);
  m.yaw_rate = mul_add(sixth, mul_add(N(2), r2 + r3, r1 + r4), r);
  turned = h * mul_add(sixth, r1 + r2 + r3, r);  // the same stages for the angle
}

// The state that `lateral` and `yaw_rate` hold is that at the speed max(speed, low_speed); this is their scale.
template <class N>
SIM_FN N motion_scale(const CarConstants<N>& car, N speed) {
  return speed / max(speed, car.low_speed);
}

// What a step of `h` seconds at the mean speed `speed` turns the car by, and moves it aside.
template <class N, class Tyres>
SIM_FN void turn(Tyres, const CarConstants<N>& car, N wheel, N speed, const Road<N>& road, double h, Motion<N>& m,
                 N& turned, N& lateral) {
  const N u = max(speed, car.low_speed), v = m.lateral;
  lateral_rates<N, Tyres>(car, wheel, u, road, h, m, turned);
  const N scale = speed / u;
  turned = turned * scale;
  lateral = N(h / 2) * (v + m.lateral) * scale;
}
template <class N>
SIM_FN void turn(NoSlip, const CarConstants<N>& car, N wheel, N speed, const Road<N>&, double h, Motion<N>& m,
                 N& turned, N& lateral) {
  // yaw += k (v t + a t^2 / 2), |k| <= 0.3; the rear axle does not slip.
  N s, c;
  sin_cos_small(clip(wheel * car.steer_ratio_inverse, N(-0.78), N(0.78)), s, c);
  const N curvature = clip(s / c * car.wheelbase_inverse, N(-0.3), N(0.3));
  turned = curvature * (speed * N(h));
  m.yaw_rate = curvature * max(m.speed, car.low_speed);
  m.lateral = car.center_to_rear * m.yaw_rate;
  lateral = car.center_to_rear * turned;
}
template <class N>
SIM_FN void turn(AnyTyres any, const CarConstants<N>& car, N wheel, N speed, const Road<N>& road, double h,
                 Motion<N>& m, N& turned, N& lateral) {
  switch (any.kind) {
    case Tyres::none: return turn(NoSlip(), car, wheel, speed, road, h, m, turned, lateral);
    case Tyres::linear: return turn(LinearTyres(), car, wheel, speed, road, h, m, turned, lateral);
    case Tyres::saturating: break;
  }
  turn(SaturatingTyres(), car, wheel, speed, road, h, m, turned, lateral);
}

// A step of lateral motion and position. `wheel`: angle of the steering wheel; `before`: the speed at the step's
// beginning; `h`: its length in seconds.
template <class N, class Tyres>
SIM_FN void move(Tyres tyres, const CarConstants<N>& car, N wheel, N before, const Road<N>& road, Motion<N>& m,
                 double h = kStep) {
  const N speed = N(0.5) * (before + m.speed), length = speed * N(h);
  N turned, lateral;
  turn(tyres, car, wheel, speed, road, h, m, turned, lateral);
  // Midpoint: second order.
  N s, c;
  sin_cos(mul_add(N(0.5), neg_mul_add(road.curvature, length, turned), m.heading), s, c);
  const N along = neg_mul_add(lateral, s, length * c), aside = mul_add(lateral, c, length * s);
  m.passed = along / max(neg_mul_add(road.curvature, m.offset, N(1)), N(0.1));
  m.offset = m.offset + aside;
  m.heading = m.heading + neg_mul_add(road.curvature, m.passed, turned);
}

// A step of the longitudinal motion: the drive follows `command` (m/s^2) with a first-order lag, drag, rolling
// resistance and grade brake. The drive is exact, the speed of second order. `lag_left` = exp(-h / lag), `lag_mean` =
// (1 - lag_left) lag / h: the mean of that over a step. A car at rest stays there until it is driven; it does not roll
// back.
template <class N>
SIM_FN void accelerate(const CarConstants<N>& car, N lag_left, N lag_mean, N command, N grade, Motion<N>& m,
                       double step = kStep) {
  const N h = N(step);
  const N mean = mul_add(m.drive - command, lag_mean, command);
  m.drive = mul_add(m.drive - command, lag_left, command);
  const N constant = neg_mul_add(N(kGravity), grade, mean - car.rolling);
  const N first = neg_mul_add(car.drag * m.speed, m.speed, constant);
  const N middle = mul_add(N(0.5) * h, first, m.speed);
  const N next = max(mul_add(h, neg_mul_add(car.drag * middle, middle, constant), m.speed), N(0));
  m.acceleration = (next - m.speed) * N(1 / step);
  m.speed = next;
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
