#!/usr/bin/env python3
"""Holds `sparkpilot sim fit` against SciPy on the same log: other code for everything behind the log.

The log is read by `sparkpilot route dump`; the bicycle is stepped by its exact matrix exponential at every sample of
carState instead of Runge and Kutta's steps on a grid, the steering by its own loop, and scipy.optimize.least_squares
(trust region, soft L1 loss) searches from the log's own numbers. No intervals.

  SPARKPILOT_TEST_FIT_LOG=/tmp/fit_log build/e2e_test --gtest_filter='*FindsTheCarOfALog*'
  bench/sim/check_fit.py /tmp/fit_log

Exit code 4 if a number that `sim fit` gives differs by more than its tolerance below. Needs numpy and scipy.
"""

import argparse
import json
import subprocess
import sys

import numpy as np
from scipy.linalg import expm
from scipy.optimize import least_squares

G = 9.81
# How far the two may differ: a share of the value, or an amount.
TOLERANCES = {
    "steer_ratio": ("share", 0.01),
    "stiffness_factor": ("share", 0.05),
    "angle_offset_deg": ("amount", 0.1),
    "steering_delay_s": ("amount", 0.01),
    "steering_lag_s": ("amount", 0.01),
    "accel_factor_m_per_s2": ("share", 0.02),
    "friction": ("share", 0.05),
}


def dump(program, route, kind, fields):
    out = subprocess.run([program, "route", "dump", kind, route, "--csv", "-q", "--fields", ",".join(fields)],
                         check=True, capture_output=True, text=True).stdout.splitlines()
    rows = [line.split(",") for line in out[1:]]
    number = {"true": 1.0, "false": 0.0, "": np.nan}
    return np.array([[float(r[0]) * 1e-9] + [number[c] if c in number else float(c) for c in r[2:]] for r in rows])


def exact_steps(car, u):
    """Discrete matrices of the linear bicycle [v, r] for inputs [wheel, roll], held over a step of 10 ms."""
    m, j, a, b, cf, cr, ratio = car
    A = np.array([[-(cf + cr) / (m * u), -(cf * a - cr * b) / (m * u) - u],
                  [-(cf * a - cr * b) / (j * u), -(cf * a * a + cr * b * b) / (j * u)]])
    B = np.array([[cf / (m * ratio), -G], [cf * a / (j * ratio), 0]])
    block = np.zeros((4, 4))
    block[:2, :2], block[:2, 2:] = A, B
    e = expm(block * 0.01)
    return e[:2, :2], e[:2, 2:], -np.linalg.solve(A, B)


def yaw_model(facts, ratio, factor, offset, u, wheel, roll):
    m, j, length, a, cf, cr = facts
    car = (m, j, a, length - a, cf * factor, cr * factor, ratio)
    grid = np.arange(4.0, 45.0, 0.25)  # the step's matrices, between these speeds linear
    table = [exact_steps(car, g) for g in grid]
    Ad, Bd, rest = (np.array([t[k] for t in table]) for k in range(3))
    at = np.clip((u - grid[0]) / 0.25, 0, len(grid) - 1.001)
    low, part = at.astype(int), (at % 1)[:, None, None]
    mix = lambda x: x[low] * (1 - part) + x[low + 1] * part
    Ad, Bd = mix(Ad), mix(Bd)
    inputs = np.stack([wheel - offset, roll], 1)
    state = mix(rest)[0] @ inputs[0]
    out = np.empty(len(u))
    for i in range(len(u)):
        out[i] = state[1]
        state = Ad[i] @ state + Bd[i] @ inputs[min(i + 1, len(u) - 1)]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("route")
    parser.add_argument("--program", default="build/sparkpilot")
    options = parser.parse_args()
    ours = json.loads(subprocess.run([options.program, "sim", "fit", options.route, "--json", "-q"], check=True,
                                     capture_output=True, text=True).stdout)
    ours = {n["name"]: n for n in ours["numbers"]}
    read = lambda kind, *fields: dump(options.program, options.route, kind, fields)
    car = read("carState", "vEgo", "steeringAngleDeg")
    yaw = read("livePose", "angularVelocityDevice.z")
    live = read("liveParameters", "roll")
    given = read("carOutput", "actuatorsOutput.torque")
    p = read("carParams", "mass", "rotationalInertia", "wheelbase", "centerToFront", "tireStiffnessFront",
             "tireStiffnessRear", "steerRatio")[-1, 1:]
    facts, ratio0 = p[:6], p[6]
    t, u, wheel = car[:, 0], car[:, 1], np.radians(car[:, 2])
    roll = np.interp(t, live[:, 0], live[:, 1])
    rate = -yaw[:, 1]
    use = (yaw[:, 0] > t[0] + 1) & (np.abs(rate) * np.interp(yaw[:, 0], t, u) < 3)

    def yaw_residuals(x):
        model = yaw_model(facts, x[0] * ratio0, x[1], x[2], u, wheel, roll)
        left = np.interp(yaw[use, 0] - x[4], t, model) + x[3] - rate[use]
        return np.append(left / 0.004, x[3] / 0.002)

    bicycle = least_squares(yaw_residuals, [1, 1, 0, 0, 0.02], loss="soft_l1", f_scale=3, diff_step=1e-4,
                            x_scale=[0.1, 0.1, 0.02, 0.002, 0.02])
    ratio, factor, offset = bicycle.x[0] * ratio0, bicycle.x[1], bicycle.x[2]

    m, _, length, a, cf, cr = facts
    slip = m * (cf * a - cr * (length - a)) / (length ** 2 * cf * cr * factor)
    per = length * ratio / np.maximum(u, 5) ** 2
    flexible = per * (1 - slip * np.maximum(u, 5) ** 2)
    bent = wheel - offset

    def torque_residuals(x):
        delay, lag, accel, friction, shift = x
        torque = np.interp(t - delay, given[:, 0], given[:, 1])
        rest = (accel * torque - shift) * flexible - G * roll * per
        band, gone = accel * friction * flexible, 1 - np.exp(-0.01 / lag)
        out, angle = np.empty(len(t)), bent[:5].mean()
        for i in range(len(t)):
            out[i] = angle
            gap = rest[i] - angle
            angle += gone * (gap - min(max(gap, -band[i]), band[i]))
        return ((out - bent) / flexible)[100:] / 0.01

    best = None
    for delay in (0.05, 0.15, 0.25):
        for friction in (0.05, 0.2):
            found = least_squares(torque_residuals, [delay, 0.1, 2, friction, 0], loss="soft_l1", f_scale=3,
                                  diff_step=[0.05, 0.02, 1e-3, 0.01, 1e-2], x_scale=[0.1, 0.1, 1, 0.1, 0.1],
                                  bounds=([0, 0.01, 0.1, 0, -3], [0.63, 2, 20, 2, 3]), max_nfev=60)
            if best is None or found.cost < best.cost:
                best = found
    theirs = dict(zip(("steering_delay_s", "steering_lag_s", "accel_factor_m_per_s2", "friction"), best.x))
    theirs |= {"steer_ratio": ratio, "stiffness_factor": factor, "angle_offset_deg": np.degrees(offset)}

    wrong = 0
    print(f"{'number':24}{'sim fit':>12}{'low':>12}{'high':>12}{'SciPy':>12}")
    for name, (kind, bound) in TOLERANCES.items():
        mine = ours[name]
        if mine["value"] is None:
            print(f"{name:24}not identifiable: {mine['reason']}")
            continue
        far = abs(mine["value"] - theirs[name]) > bound * (abs(theirs[name]) if kind == "share" else 1)
        wrong += far
        print(f"{name:24}{mine['value']:12.5g}{mine['low']:12.5g}{mine['high']:12.5g}{theirs[name]:12.5g}"
              f"{'  DIFFERS' if far else ''}")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
