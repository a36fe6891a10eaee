// openpilot's longitudinal MPC over a number type, as published to 2025 (selfdrive/controls/lib/longitudinal_mpc_lib,
// MIT): state distance x, speed v, acceleration a; input jerk j, constant in each of 12 intervals that grow with time.
//
//   minimise  sum_i h_i/2 [ 3 r_i^2 + 200 f_i (a_i - before_i)^2 + 5 f j_i^2 + 1e6 (slacks of v >= 0, least <= a <=
//   most)^2
//                          + 100 (slack of danger)^2 ]
//   r = (o - x - safe(v)) / (v + 10),  safe(v) = v^2 / 5 + t_follow v + 6,  danger: o - x >= 0.75 safe(v), over v + 10
//
// with h the lengths of the intervals, 1 for the last point (as acados scales costs [m]), o the nearest obstacle, f 1
// up to 1 s and 0 from 2 s on. One step of sequential quadratic programming a call, as in openpilot: r and danger are
// linear about the solution before. openpilot gives the quadratic program to HPIPM; so here: an interior-point method
// with Mehrotra's predictor and corrector (SIAM J. Optim. 2(4), 1992), whose linear systems are solved by a Riccati
// recursion over the intervals. A quadratic slack needs no separate variable: with its multiplier l the slack is l
// over its weight. All constraints have one, so there always is a solution; what it cannot keep is told.
//
// kMpcIterations suffice for 1,000 random problems (sim/mpc_test.cc); they end when all worlds of a vector are solved,
// which changes none of them.
#if defined(SPARKPILOT_SIM_MPC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SPARKPILOT_SIM_MPC_INL_H_
#undef SPARKPILOT_SIM_MPC_INL_H_
#else
#define SPARKPILOT_SIM_MPC_INL_H_
#endif

#include "sim/math-inl.h"
#include "sim/mpc.h"

SIM_BEFORE();
namespace SIM_NAMESPACE {

template <class N>
struct MpcPoint {
  N x, v, a;  // m, m/s, m/s^2
};

// The solution before, which the next program is made about: state of a world. Zeros to begin with.
template <class N>
struct MpcState {
  MpcPoint<N> at[kMpcSteps + 1];
};

template <class N>
struct MpcConstants {
  N t_follow, jerk, obstacle, accel_change, limit, danger, danger_factor, min_accel;
};
inline MpcConstants<double> mpc_constants(const MpcTuning& t) {
  return {t.t_follow,      t.jerk_factor * t.jerk_cost,
          t.obstacle_cost, t.jerk_factor * t.accel_change_cost,
          t.limit_cost,    t.danger_cost,
          t.danger_factor, t.min_accel};
}

template <class N>
struct MpcInput {
  N speed, acceleration;      // now
  N max_accel;                // m/s^2
  N obstacle[kMpcSteps + 1];  // m ahead, with the way that it still brakes
  N before[kMpcSteps + 1];    // m/s^2: the accelerations of the solution before, 0.05 s later
};

template <class N>
struct MpcResult {
  N jerk[kMpcSteps];  // m/s^3
  N cost;             // of the quadratic program
  N broken;           // the largest slack of a limit: more than kMpcTolerance if the limits cannot be kept
  N danger;           // the largest slack of the danger constraint
  MaskOf<N> solved;   // else the iterations were over first
};

template <class N>
SIM_FN N mpc_safe(N v, N t_follow) {
  return mul_add(v, mul_add(v, N(1 / (2 * kComfortBrake)), t_follow), N(kStopDistance));
}

// A lead car's obstacle at the times of the MPC: it keeps `acceleration` times exp(-tau t^2 / 2), does not reverse, and
// is no nearer than what full braking can still avoid.
template <class N>
SIM_FN void mpc_lead(N distance, N speed, N acceleration, N tau, N own_speed, N min_accel,
                     N (&obstacle)[kMpcSteps + 1]) {
  const N nearest = (own_speed + speed) * N(0.5) * (own_speed - speed) / (N(-2) * min_accel);
  N x = clip(distance, nearest, N(1e8)), v = max(speed, N(0)), moved = N(0);
  const N a = clip(acceleration, N(-10), N(5)), v0 = v;
  for (int i = 0; i <= kMpcSteps; ++i) {
    const double t = mpc_time(i), dt = i == 0 ? 0 : t - mpc_time(i - 1);
    moved = mul_add(a * exp(max(N(-0.5 * t * t) * tau, N(-80))), N(dt), moved);
    v = max(v0 + moved, N(0));
    x = mul_add(v, N(dt), x);
    obstacle[i] = mul_add(v, v * N(1 / (2 * kComfortBrake)), x);
  }
}

// The speed that is set as an obstacle.
template <class N>
SIM_FN void mpc_cruise(N cruise, N own_speed, N min_accel, N max_accel, N t_follow, N (&obstacle)[kMpcSteps + 1]) {
  N x = N(0);
  for (int i = 0; i <= kMpcSteps; ++i) {
    const double t = mpc_time(i), dt = i == 0 ? 0 : t - mpc_time(i - 1);
    const N low = mul_add(min_accel, N(1.05 * t), own_speed), high = mul_add(max_accel, N(1.05 * t), own_speed);
    const N v = min(max(cruise, low), high);
    x = mul_add(v, N(dt), x);
    obstacle[i] = x + mpc_safe(v, t_follow);
  }
}

// The acceleration of a solution `seconds` after its beginning.
template <class N>
SIM_FN N mpc_accel_at(const MpcState<N>& s, double seconds) {
  for (int i = 0; i < kMpcSteps; ++i) {
    const double t = mpc_time(i), next = mpc_time(i + 1);
    if (seconds > next) continue;
    return mul_add(s.at[i + 1].a - s.at[i].a, N((seconds - t) / (next - t)), s.at[i].a);
  }
  return s.at[kMpcSteps].a;
}

// Its speed after `seconds`.
template <class N>
SIM_FN N mpc_speed_at(const MpcState<N>& s, N seconds) {
  double times[kMpcSteps + 1];
  N speeds[kMpcSteps + 1];
  for (int i = 0; i <= kMpcSteps; ++i) times[i] = mpc_time(i), speeds[i] = s.at[i].v;
  return interpolate(seconds, times, speeds);
}

namespace mpc {

// Of the cost to the best, where the iterations end; closer, the roundings of floats take over.
template <class N>
inline constexpr double kGap = kIsDouble<N> ? 1e-8 : 1e-5;

// The parts of a point's cost: weights, and a residual c + gx x + gv v of the distance, another of the danger.
template <class N>
struct Stage {
  N c, gx, gv;           // r
  N danger_c, danger_v;  // of the danger constraint, whose gx is the same
  N before, accel;       // f_i and its weight
};

// Of each point: v >= 0, least <= a, a <= most, danger.
inline constexpr int kLimits = 4;
template <class N>
using Limits = N[kMpcSteps + 1][kLimits];

template <class N>
SIM_FN N length_of(int i) {
  return i == kMpcSteps ? N(1) : N(mpc_time(i + 1) - mpc_time(i));
}

template <class N>
SIM_FN N danger_at(const Stage<N>& s, const MpcPoint<N>& p) {
  return mul_add(s.danger_v, p.v, mul_add(s.gx, p.x, s.danger_c));
}

// What is 0 or more where a limit is kept; nothing is asked of the first point.
template <class N>
SIM_FN void limits_of(const Stage<N> (&stages)[kMpcSteps + 1], const MpcConstants<N>& k, N max_accel,
                      const MpcPoint<N> (&p)[kMpcSteps + 1], Limits<N>& to) {
  for (int i = 1; i <= kMpcSteps; ++i) {
    to[i][0] = p[i].v;
    to[i][1] = p[i].a - k.min_accel;
    to[i][2] = max_accel - p[i].a;
    to[i][3] = danger_at(stages[i], p[i]);
  }
}

// Of a trajectory, doubled.
template <class N>
SIM_FN N cost_of(const Stage<N> (&stages)[kMpcSteps + 1], const MpcConstants<N>& k, N max_accel,
                 const MpcPoint<N> (&p)[kMpcSteps + 1], const N (&jerk)[kMpcSteps]) {
  N sum = N(0);
  for (int i = 0; i <= kMpcSteps; ++i) {
    const Stage<N>& s = stages[i];
    const N r = mul_add(s.gv, p[i].v, mul_add(s.gx, p[i].x, s.c));
    const N danger = min(danger_at(s, p[i]), N(0));
    N each = k.obstacle * square(r);
    each = mul_add(s.accel, square(p[i].a - s.before), each);
    each = mul_add(k.danger, square(danger), each);
    const N over =
        square(min(p[i].v, N(0))) + square(min(p[i].a - k.min_accel, N(0))) + square(max(p[i].a - max_accel, N(0)));
    each = mul_add(k.limit, over, each);
    if (i < kMpcSteps) each = mul_add(k.jerk, square(jerk[i]), each);
    sum = mul_add(each, length_of<N>(i), sum);
  }
  return sum;
}

// The next point with the jerk of interval i.
template <class N>
SIM_FN MpcPoint<N> advance(const MpcPoint<N>& p, int i, N jerk) {
  const double h = mpc_time(i + 1) - mpc_time(i);
  return {mul_add(jerk, N(h * h * h / 6), mul_add(p.a, N(h * h / 2), mul_add(p.v, N(h), p.x))),
          mul_add(jerk, N(h * h / 2), mul_add(p.a, N(h), p.v)), mul_add(jerk, N(h), p.a)};
}

// Of the linear systems: the parts that the right-hand sides share.
template <class N>
struct Factors {
  N x[kMpcSteps], v[kMpcSteps], a[kMpcSteps], inverse[kMpcSteps];  // B'PA; 1 / (R + B'PB)
};

// Riccati's recursion from the last point, where each limit counts with its weight times its square over 2.
template <class N>
SIM_FN void factor(const Stage<N> (&stages)[kMpcSteps + 1], const MpcConstants<N>& k, const Limits<N>& weights,
                   Factors<N>& to) {
  N xx = N(0), xv = N(0), xa = N(0), vv = N(0), va = N(0), aa = N(0);  // P: the cost from a point on
  for (int i = kMpcSteps; i > 0; --i) {
    const Stage<N>& s = stages[i];
    const N h = length_of<N>(i), wx = h * k.obstacle * s.gx, wv = h * k.obstacle * s.gv;
    const N dx = weights[i][3] * s.gx, dv = weights[i][3] * s.danger_v;
    xx = xx + mul_add(wx, s.gx, dx * s.gx);
    xv = xv + mul_add(wx, s.gv, dx * s.danger_v);
    vv = vv + mul_add(wv, s.gv, mul_add(dv, s.danger_v, weights[i][0]));
    aa = aa + mul_add(h, s.accel, weights[i][1] + weights[i][2]);
    // To the point before, with A = (1 t t^2/2, 0 1 t, 0 0 1) and B = (t^3/6, t^2/2, t).
    const double t = mpc_time(i) - mpc_time(i - 1);
    const N h1(t), h2(t * t / 2), h3(t * t * t / 6);
    const N bx = mul_add(xx, h3, mul_add(xv, h2, xa * h1));
    const N bv = mul_add(xv, h3, mul_add(vv, h2, va * h1));
    const N ba = mul_add(xa, h3, mul_add(va, h2, aa * h1));
    const N inverse = N(1) / mul_add(h3, bx, mul_add(h2, bv, mul_add(h1, ba, h1 * k.jerk)));
    const N gx = bx, gv = mul_add(bx, h1, bv), ga = mul_add(bx, h2, mul_add(bv, h1, ba));
    to.x[i - 1] = gx, to.v[i - 1] = gv, to.a[i - 1] = ga, to.inverse[i - 1] = inverse;
    // A'PA - (B'PA)'(B'PA) / (R + B'PB).
    const N xv1 = mul_add(xx, h1, xv), xa1 = mul_add(xx, h2, mul_add(xv, h1, xa));
    const N vv1 = mul_add(xv, h1, vv), va1 = mul_add(xv, h2, mul_add(vv, h1, va));
    const N aa1 = mul_add(xa, h2, mul_add(va, h1, aa));
    const N x = gx * inverse, v = gv * inverse, a = ga * inverse;
    aa = neg_mul_add(a, ga, mul_add(h2, xa1, mul_add(h1, va1, aa1)));
    va = neg_mul_add(v, ga, mul_add(h1, xa1, va1));
    vv = neg_mul_add(v, gv, mul_add(h1, xv1, vv1));
    xa = neg_mul_add(x, ga, xa1);
    xv = neg_mul_add(x, gv, xv1);
    xx = neg_mul_add(x, gx, xx);
  }
}

// The trajectory from p[0] with the least cost, where each limit L counts with weight L^2 / 2 - pull L.
template <class N>
SIM_FN void solve(const Stage<N> (&stages)[kMpcSteps + 1], const MpcConstants<N>& k, N max_accel,
                  const Limits<N>& weights, const Limits<N>& pulls, const Factors<N>& f,
                  MpcPoint<N> (&p)[kMpcSteps + 1], N (&jerk)[kMpcSteps]) {
  N qx = N(0), qv = N(0), qa = N(0), feed[kMpcSteps];
  for (int i = kMpcSteps; i > 0; --i) {
    const Stage<N>& s = stages[i];
    const N h = length_of<N>(i), r = h * k.obstacle * s.c, d = mul_add(weights[i][3], s.danger_c, -pulls[i][3]);
    qx = qx + mul_add(r, s.gx, d * s.gx);
    qv = qv + mul_add(r, s.gv, mul_add(d, s.danger_v, -pulls[i][0]));
    qa = qa - mul_add(weights[i][1], k.min_accel, mul_add(weights[i][2], max_accel, h * s.accel * s.before)) -
         (pulls[i][1] - pulls[i][2]);
    const double t = mpc_time(i) - mpc_time(i - 1);
    const N h1(t), h2(t * t / 2), h3(t * t * t / 6);
    const N u = -mul_add(h3, qx, mul_add(h2, qv, h1 * qa)) * f.inverse[i - 1];
    feed[i - 1] = u;
    qa = mul_add(f.a[i - 1], u, mul_add(h2, qx, mul_add(h1, qv, qa)));
    qv = mul_add(f.v[i - 1], u, mul_add(h1, qx, qv));
    qx = mul_add(f.x[i - 1], u, qx);
  }
  for (int i = 0; i < kMpcSteps; ++i) {
    const N back = mul_add(f.x[i], p[i].x, mul_add(f.v[i], p[i].v, f.a[i] * p[i].a));
    jerk[i] = neg_mul_add(back, f.inverse[i], feed[i]);
    p[i + 1] = advance(p[i], i, jerk[i]);
  }
}

// How much of a step from `from` to `to` keeps it positive, at most `most`.
template <class N>
SIM_FN N part_of_step(N from, N to, N most) {
  const N part = from / max(from - to, N(1e-30));
  return select(to < from, min(part, most), most);
}

}  // namespace mpc

// One call at 20 Hz: `s` holds the solution before, and then this one.
template <class N>
SIM_FN MpcResult<N> mpc_step(const MpcConstants<N>& k, const MpcInput<N>& in, MpcState<N>& s,
                             int iterations = kMpcIterations) {
  using mpc::kLimits;
  mpc::Stage<N> stages[kMpcSteps + 1];
  for (int i = 0; i <= kMpcSteps; ++i) {
    // About the solution before; speeds below 0 would bring v + 10 to 0.
    const N x = s.at[i].x, v = max(s.at[i].v, N(0));
    const N inverse = N(1) / (v + N(10)), room = in.obstacle[i] - x, safe = mpc_safe(v, k.t_follow);
    const N slope = mul_add(v, N(1 / kComfortBrake), k.t_follow);
    const N r = (room - safe) * inverse, danger = neg_mul_add(k.danger_factor, safe, room) * inverse;
    mpc::Stage<N>& to = stages[i];
    to.gx = -inverse;
    to.gv = -(slope + r) * inverse;
    to.danger_v = -mul_add(k.danger_factor, slope, danger) * inverse;
    to.c = neg_mul_add(to.gv, v, neg_mul_add(to.gx, x, r));
    to.danger_c = neg_mul_add(to.danger_v, v, neg_mul_add(to.gx, x, danger));
    to.before = in.before[i];
    // 1 up to 1 s, 0 from 2 s on.
    const double t = mpc_time(i), full = t <= 1 ? 1 : t >= 2 ? 0 : 2 - t;
    to.accel = N(full) * k.accel_change;
  }
  const N softness = N(1) / k.limit, danger_softness = N(1) / k.danger;
  const auto inverse_weight = [&](int i, int c) {
    return N(1 / (i == kMpcSteps ? 1 : mpc_time(i + 1) - mpc_time(i))) * (c < 3 ? softness : danger_softness);
  };

  // Without limits first. Then each limit has a multiplier and a distance, both positive, whose product goes to 0.
  mpc::Limits<N> weights, pulls, inverses, limit, multiplier, distance, new_multiplier, new_distance;
  for (int i = 1; i <= kMpcSteps; ++i)
    for (int c = 0; c < kLimits; ++c) weights[i][c] = pulls[i][c] = N(0);
  MpcResult<N> out;
  MpcPoint<N> p[kMpcSteps + 1], to[kMpcSteps + 1];
  p[0] = to[0] = {N(0), in.speed, in.acceleration};
  mpc::Factors<N> factors;
  mpc::factor(stages, k, weights, factors);
  mpc::solve(stages, k, in.max_accel, weights, pulls, factors, p, out.jerk);
  mpc::limits_of(stages, k, in.max_accel, p, limit);
  for (int i = 1; i <= kMpcSteps; ++i) {
    for (int c = 0; c < kLimits; ++c) {
      distance[i][c] = max(limit[i][c], N(1));
      multiplier[i][c] = N(1);
    }
  }
  N gap = N(0), jerk[kMpcSteps];
  for (int iteration = 0; iteration < iterations; ++iteration) {
    gap = N(0);
    for (int i = 1; i <= kMpcSteps; ++i) {
      for (int c = 0; c < kLimits; ++c) {
        const N l = multiplier[i][c], w = distance[i][c];
        gap = mul_add(l, w, gap);
      }
    }
    const auto moves = gap > N(mpc::kGap<N>);
    if (!any(moves)) break;
    for (int i = 1; i <= kMpcSteps; ++i) {
      for (int c = 0; c < kLimits; ++c) {
        const N l = multiplier[i][c], w = distance[i][c], inverse = N(1) / mul_add(l, inverse_weight(i, c), w);
        inverses[i][c] = inverse;
        weights[i][c] = l * inverse;
        pulls[i][c] = l * w * inverse;
      }
    }
    mpc::factor(stages, k, weights, factors);
    mpc::solve(stages, k, in.max_accel, weights, pulls, factors, to, jerk);
    // Where the step leads, and how far it may go.
    N part = N(1);
    const auto end_of_step = [&] {
      mpc::limits_of(stages, k, in.max_accel, to, limit);
      part = N(1);
      for (int i = 1; i <= kMpcSteps; ++i) {
        for (int c = 0; c < kLimits; ++c) {
          const N l = neg_mul_add(weights[i][c], limit[i][c], pulls[i][c]);
          const N w = mul_add(l, inverse_weight(i, c), limit[i][c]);
          part = mpc::part_of_step(multiplier[i][c], l, mpc::part_of_step(distance[i][c], w, part));
          new_multiplier[i][c] = l, new_distance[i][c] = w;
        }
      }
    };
    end_of_step();
    N predicted = N(0);
    for (int i = 1; i <= kMpcSteps; ++i) {
      for (int c = 0; c < kLimits; ++c) {
        const N l = mul_add(part, new_multiplier[i][c] - multiplier[i][c], multiplier[i][c]);
        const N w = mul_add(part, new_distance[i][c] - distance[i][c], distance[i][c]);
        predicted = mul_add(l, w, predicted);
      }
    }
    const N ratio = max(predicted, N(0)) / gap;
    const N center = gap * ratio * ratio * ratio * N(1.0 / (kMpcSteps * kLimits));
    for (int i = 1; i <= kMpcSteps; ++i) {
      for (int c = 0; c < kLimits; ++c) {
        const N l = multiplier[i][c], w = distance[i][c];
        const N second = (new_multiplier[i][c] - l) * (new_distance[i][c] - w);
        pulls[i][c] = mul_add(center - second, inverses[i][c], pulls[i][c]);
      }
    }
    mpc::solve(stages, k, in.max_accel, weights, pulls, factors, to, jerk);
    end_of_step();
    part = min(part * N(0.99), N(1));
    const auto move = [&](N& from, N end) { from = select(moves, mul_add(part, end - from, from), from); };
    for (int i = 1; i <= kMpcSteps; ++i) {
      move(out.jerk[i - 1], jerk[i - 1]);
      move(p[i].x, to[i].x);
      move(p[i].v, to[i].v);
      move(p[i].a, to[i].a);
      for (int c = 0; c < kLimits; ++c) {
        move(multiplier[i][c], new_multiplier[i][c]);
        move(distance[i][c], new_distance[i][c]);
      }
    }
  }
  out.cost = mpc::cost_of(stages, k, in.max_accel, p, out.jerk) * N(0.5);
  mpc::limits_of(stages, k, in.max_accel, p, limit);
  out.broken = out.danger = N(0);
  for (int i = 1; i <= kMpcSteps; ++i) {
    out.broken = max(max(out.broken, -limit[i][0]), max(-limit[i][1], -limit[i][2]));
    out.danger = max(out.danger, -limit[i][3]);
  }
  gap = N(0);
  for (int i = 1; i <= kMpcSteps; ++i)
    for (int c = 0; c < kLimits; ++c) gap = mul_add(multiplier[i][c], distance[i][c], gap);
  out.solved = gap < N(1e-4) * out.cost + N(mpc::kGap<N>);
  for (int i = 0; i <= kMpcSteps; ++i) s.at[i] = p[i];
  return out;
}

}  // namespace SIM_NAMESPACE
SIM_AFTER();
#endif
