#!/usr/bin/env python3
"""Writes src/sim/mpc_golden.txt, for src/sim/mpc_test.cc: quadratic programs of openpilot's longitudinal MPC, by OSQP.

    make_mpc_goldens.py [--count 1000] > src/sim/mpc_golden.txt

Written from the formulas, apart from the C++: obstacles by NumPy, dense matrices, a slack variable for each constraint
as openpilot's acados has them. A line: cost, first jerk, last speed, last acceleration, the largest slacks of a limit
and of danger. The problems are those of problem() in the test: numbers of a linear congruential generator.
"""
import argparse
import sys

import numpy as np
import osqp
import scipy.sparse as sparse

STEPS = 12
T = np.array([10.0 * i * i / STEPS**2 for i in range(STEPS + 1)])
DT = np.diff(T, prepend=[0.0])
H = np.append(np.diff(T), 1.0)
DANGER = 0.75


class Generator:
    def __init__(self, seed):
        self.state = (seed * 2654435761 + 12345) % 2**32

    def uniform(self, low, high):
        self.state = (self.state * 1664525 + 1013904223) % 2**32
        return low + (high - low) * (self.state >> 8) / 2**24


def safe(v, t_follow):
    return v**2 / 5 + t_follow * v + 6


def problem(number):
    g = Generator(number)
    p = {}
    p["v"] = g.uniform(0, 40)
    p["a"] = g.uniform(-3, 2)
    p["max_accel"] = g.uniform(0.6, 2)
    p["t_follow"] = g.uniform(1.2, 1.8)
    p["jerk_factor"] = g.uniform(0.5, 1)
    distance, speed = g.uniform(2, 150), g.uniform(-1, 40)
    acceleration, tau = g.uniform(-4, 2), g.uniform(0, 1.5)
    cruise = g.uniform(0, 40)
    around = p["v"] + g.uniform(-2, 2)
    p["around_x"] = np.maximum(around, 0.0) * T
    p["around_v"] = np.full(STEPS + 1, max(around, 0.0))
    p["before"] = np.array([g.uniform(-2, 1) for _ in range(STEPS + 1)])

    nearest = (p["v"] + speed) / 2 * (p["v"] - speed) / 7.0
    x0 = np.clip(distance, nearest, 1e8)
    v_lead = np.clip(max(speed, 0.0) + np.cumsum(DT * np.clip(acceleration, -10, 5) * np.exp(-tau * T**2 / 2)), 0, 1e8)
    lead = x0 + np.cumsum(DT * v_lead) + v_lead**2 / 5
    v_cruise = np.clip(cruise, p["v"] + T * -1.2 * 1.05, p["v"] + T * 1.6 * 1.05)
    p["obstacle"] = np.minimum(lead, np.cumsum(DT * v_cruise) + safe(v_cruise, p["t_follow"]))
    return p


def solve(p):
    points, free = STEPS + 1, 0
    x = lambda i, k: 3 * i + k  # noqa: E731
    jerk = lambda i: 3 * points + i  # noqa: E731
    slack = lambda i, k: 3 * points + STEPS + 4 * i + k  # noqa: E731
    size = 3 * points + STEPS + 4 * points
    cost, linear, constant = np.zeros((size, size)), np.zeros(size), 0.0
    rows, low, high = [], [], []

    def squared(weight, terms, c):
        nonlocal constant
        for i, u in terms:
            linear[i] += weight * u * c
            for j, w in terms:
                cost[i, j] += weight * u * w
        constant += weight * c * c / 2

    def row(terms, least, most):
        line = np.zeros(size)
        for i, u in terms:
            line[i] += u
        rows.append(line), low.append(least), high.append(most)

    for k, value in enumerate((0.0, p["v"], p["a"])):
        row([(x(0, k), 1)], value, value)
    for i in range(points):
        h, v, at = H[i], p["around_v"][i], p["around_x"][i]
        room, d = p["obstacle"][i] - at, safe(v, p["t_follow"])
        slope = 2 * v / 5 + p["t_follow"]
        r, gx, gv = (room - d) / (v + 10), -1 / (v + 10), -slope / (v + 10) - (room - d) / (v + 10) ** 2
        squared(3 * h, [(x(i, 0), gx), (x(i, 1), gv)], r - gx * at - gv * v)
        factor = np.interp(T[i], [0, 1, 2], [1, 1, 0])
        squared(200 * p["jerk_factor"] * factor * h, [(x(i, 2), 1)], -p["before"][i])
        danger = (room - DANGER * d) / (v + 10)
        dv = -DANGER * slope / (v + 10) - (room - DANGER * d) / (v + 10) ** 2
        row([(x(i, 1), 1), (slack(i, 0), 1)], 0, np.inf)
        row([(x(i, 2), 1), (slack(i, 1), 1)], -3.5, np.inf)
        row([(x(i, 2), 1), (slack(i, 2), -1)], -np.inf, p["max_accel"])
        row([(x(i, 0), gx), (x(i, 1), dv), (slack(i, 3), 1)], -(danger - gx * at - dv * v), np.inf)
        for k, weight in enumerate((1e6, 1e6, 1e6, 100.0)):
            squared(weight * h, [(slack(i, k), 1)], 0)
            row([(slack(i, k), 1)], 0, np.inf)
        if i == STEPS:
            continue
        squared(5 * p["jerk_factor"] * h, [(jerk(i), 1)], 0)
        row([(x(i + 1, 0), 1), (x(i, 0), -1), (x(i, 1), -h), (x(i, 2), -h * h / 2), (jerk(i), -(h**3) / 6)], 0, 0)
        row([(x(i + 1, 1), 1), (x(i, 1), -1), (x(i, 2), -h), (jerk(i), -h * h / 2)], 0, 0)
        row([(x(i + 1, 2), 1), (x(i, 2), -1), (jerk(i), -h)], 0, 0)
    solver = osqp.OSQP()
    solver.setup(sparse.csc_matrix(np.triu(cost)), linear, sparse.csc_matrix(np.array(rows)), np.array(low), np.array(high),
                 verbose=False, eps_abs=1e-9, eps_rel=1e-9, max_iter=400000, polishing=True, scaling=30)
    done = solver.solve()
    z = done.x
    slacks = z[slack(0, 0):].reshape(points, 4)[1:]
    return (done.info.obj_val + constant, z[jerk(0)], z[x(STEPS, 1)], z[x(STEPS, 2)], slacks[:, :3].max(),
            slacks[:, 3].max()), done.info.status


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    flags = parser.parse_args()
    print(f"# Made by bench/sim/make_mpc_goldens.py, OSQP {osqp.__version__}.")
    for number in range(flags.count):
        figures, status = solve(problem(number))
        if not status.startswith("solved"):
            print(f"{number}: {status}", file=sys.stderr)
        print(" ".join(f"{each:.7g}" for each in figures))


if __name__ == "__main__":
    main()
