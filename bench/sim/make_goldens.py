#!/usr/bin/env python3
"""Writes src/sim/control_golden.txt, for src/sim/control_test.cc: openpilot's vehicle model and controllers by NumPy.

    make_goldens.py [--vehicle-model FILE] > src/sim/control_golden.txt

Inputs are random. Written from the formulas, apart from the C++: tables by np.interp, buffers as deques, the steady
state by solving A x = -B u. With --vehicle-model, opendbc's own opendbc/car/vehicle_model.py is run beside it and has
to agree (gravity set to 9.81).
"""
import argparse
import collections
import math
import statistics
import sys
import types

import numpy as np

G, DT = 9.81, 0.01
M0, L0, A0, J0, CF0, CR0 = 1462.0, 2.70, 1.08, 2500.0, 192150.0, 202500.0


def scaled(mass, wheelbase, front, ratio, stiffness, chi=0.0):
    """As opendbc scales inertia and stiffness from the Civic's."""
    a = front * wheelbase
    r = wheelbase - a
    k = stiffness * mass / M0
    return dict(m=mass, l=wheelbase, aF=a, aR=r, sR=ratio, chi=chi, j=J0 * mass * wheelbase**2 / (M0 * L0**2),
                cF=CF0 * k * (r / wheelbase) / ((L0 - A0) / L0), cR=CR0 * k * (a / wheelbase) / (A0 / L0))


CIVIC = dict(m=M0, l=L0, aF=A0, aR=L0 - A0, sR=15.38, chi=0.0, j=J0, cF=CF0, cR=CR0)


class Model:
    def __init__(self, p):
        self.__dict__.update(p)
        self.sf = self.m * (self.cF * self.aF - self.cR * self.aR) / (self.l**2 * self.cF * self.cR)

    def factor(self, u):
        return (1 - self.chi) / (1 - self.sf * u**2) / self.l

    def roll(self, roll, u):
        return 0.0 if abs(self.sf) < 1e-6 else G * roll / (1 / self.sf - u**2)

    def curvature(self, sa, u, roll):
        return self.factor(u) * sa / self.sR + self.roll(roll, u)

    def steer(self, curvature, u, roll):
        return (curvature - self.roll(roll, u)) * self.sR / self.factor(u)

    def steady(self, sa, u, roll):
        cf, cr, a, b, m, j = self.cF, self.cR, self.aF, self.aR, self.m, self.j
        A = np.array([[-(cf + cr) / (m * u), -(cf * a - cr * b) / (m * u) - u],
                      [-(cf * a - cr * b) / (j * u), -(cf * a * a + cr * b * b) / (j * u)]])
        B = np.array([[(cf + self.chi * cr) / m / self.sR, -G], [(cf * a - self.chi * cr * b) / j / self.sR, 0]])
        return -np.linalg.solve(A, B) @ np.array([sa, roll])


def check_against(path, model, sa, u, roll, values):
    module = types.ModuleType("structs")
    module.CarParams = object
    for name in ("opendbc", "opendbc.car", "opendbc.car.structs"):
        sys.modules[name] = module
    module.ACCELERATION_DUE_TO_GRAVITY = G
    space = {"__name__": "vehicle_model"}
    exec(compile(open(path).read(), path, "exec"), space)  # noqa: S102
    space["ACCELERATION_DUE_TO_GRAVITY"] = G
    car = types.SimpleNamespace(mass=model.m, rotationalInertia=model.j, wheelbase=model.l, centerToFront=model.aF,
                                steerRatioRear=model.chi, steerRatio=model.sR, tireStiffnessFront=model.cF,
                                tireStiffnessRear=model.cR)
    theirs = space["VehicleModel"](car)
    curvature = theirs.calc_curvature(sa, u, roll)
    other = [theirs.curvature_factor(u), theirs.roll_compensation(roll, u), curvature,
             theirs.get_steer_from_curvature(0.01, u, roll), *theirs.steady_state_sol(sa, u, roll).ravel()]
    assert np.allclose(values, other, rtol=1e-12, atol=1e-15), (values, other)


class Pid:
    def __init__(self, low, high):
        self.i, self.low, self.high = 0.0, low, high

    def update(self, e, kp, ki, ff, freeze=False):
        p = kp * e
        if not freeze:
            i = self.i + ki * e * DT
            test = p + i + ff
            upper = self.i if test > self.high else self.high
            lower = self.i if test < self.low else self.low
            self.i = float(np.clip(i, lower, upper))
        return float(np.clip(p + self.i + ff, self.low, self.high))


class Torque:
    SPEEDS, KP = [1, 1.5, 2.0, 3.0, 5, 7.5, 10, 15, 30], [250, 120, 65, 30, 11.5, 5.5, 3.5, 2.0]

    def __init__(self, model, kp, ki, factor=1.653, friction=0.2546, offset=0.05, deadzone=0.2):
        self.model, self.kp, self.ki, self.k = model, kp, ki, factor
        self.friction, self.offset, self.deadzone = friction, offset, deadzone
        self.pid, self.buffer, self.jerk = Pid(-factor, factor), collections.deque([0.0] * 100, maxlen=100), 0.0

    def update(self, x):
        v, vm = x["v"], self.model
        measured = -vm.curvature(math.radians(x["angle"] - x["offset"]), v, x["roll"]) * v**2
        future = x["curvature"] * v**2
        self.buffer.append(future)
        deadzone = abs(vm.curvature(math.radians(self.deadzone), v, 0.0)) * v**2
        frames = int(np.clip(x["delay"] / DT + 1, 1, 100))
        error = self.buffer[-frames] - measured
        at = int(np.clip(-frames + int(0.19 / DT), -99, -2))
        raw = (self.buffer[at + 1] - self.buffer[at - 1]) / (2 * DT)
        rc = 1 / (2 * np.pi * 1.2)
        alpha = DT / (rc + DT)
        self.jerk = (1 - alpha) * self.jerk + alpha * raw
        push = error + 0.3 * self.jerk
        if -deadzone < push < deadzone:
            push = 0.0
        most = self.friction * self.k
        ff = future - x["roll"] * G - self.offset + float(np.interp(push, [-0.2, 0.2], [-most, most]))
        if not x["active"]:
            return 0.0
        kp = float(np.interp(v, self.SPEEDS, self.KP + [self.kp]))
        freeze = bool(x["limited"] or x["pressed"] or v < 5)
        return -self.pid.update(error, kp, self.ki, ff, freeze) / self.k


class LatPid:
    def __init__(self, model):
        self.model, self.pid = model, Pid(-1, 1)

    def update(self, x):
        plain = math.degrees(self.model.steer(-x["curvature"], x["v"], x["roll"]))
        if not x["active"]:
            return 0.0
        freeze = bool(x["limited"] or x["pressed"] or x["v"] < 5)
        kp, ki = np.interp(x["v"], [0, 35], [0.02, 0.05]), np.interp(x["v"], [0, 35], [0.01, 0.03])
        return self.pid.update(plain + x["offset"] - x["angle"], kp, ki, 0.00006 * plain * x["v"]**2, freeze)


class Mppi:
    """Model predictive path integral control of lateral acceleration, planned at 20 Hz (src/sim/mppi-inl.h)."""

    def __init__(self, model, noise=0.1, temperature=0.05, change=0.03, observer=0.05, lag=0.1, factor=1.653,
                 friction=0.2546):
        self.model, self.temperature, self.change, self.observer, self.lag = model, temperature, change, observer, lag
        self.k, self.band, self.gone = factor, friction * factor, 1 - math.exp(-0.05 / lag)

        def halton(i, base):
            value, part = 0.0, 1.0
            while i:
                part /= base
                value, i = value + part * (i % base), i // base
            return value
        points = [[round(statistics.NormalDist().inv_cdf(halton(i, b)), 4) for b in (2, 3, 5)] for i in range(1, 17)]
        self.noise = noise * np.array([p for point in points for p in (point, [-x for x in point])])
        self.plan, self.torque, self.lacking, self.expected = np.zeros(3), 0.0, 0.0, None
        self.past, self.step = collections.deque([0.0] * 100, maxlen=100), 0

    def moved(self, z, torque, bias):
        e = self.k * torque + bias - z
        return z + self.gone * (e - np.clip(e, -self.band, self.band))

    def costs(self, knots, z, wanted, bias):
        torques = np.clip([np.interp(range(12), [0, 6, 12], k) for k in knots], -1, 1)
        costs, state, before = np.zeros(len(knots)), np.full(len(knots), z), np.full(len(knots), self.torque)
        for u in torques.T:
            state = self.moved(state, u, bias)
            costs += (state - wanted)**2 + self.change * self.k**2 * (u - before)**2
            before = u
        return costs

    def update(self, x):
        if self.step % 5 == 0:
            self.make_plan(x)
        self.step += 1
        return -self.torque if x["active"] else 0.0

    def make_plan(self, x):
        v = max(x["v"], 5.0)
        wanted = x["curvature"] * v**2
        z = measured = -self.model.curvature(math.radians(x["angle"] - x["offset"]), v, x["roll"]) * v**2
        if self.expected is not None and x["active"] and not (x["limited"] or x["pressed"] or x["v"] < 5):
            self.lacking += self.observer * (measured - self.expected)
        bias = G * x["roll"] + self.lacking
        frames = int(np.clip(x["delay"] / DT + 1, 1, 100))
        late = int(np.clip(np.round((frames - 1) / 5 - self.lag / 0.05), 0, 20))
        for back in range(late, 0, -1):
            z = self.moved(z, self.past[-back], bias)
        held = [np.clip((wanted - bias + side * self.band) / self.k, -1, 1) for side in (-1, 0, 1)]
        begin = np.array([self.plan] + [[u] * 3 for u in held])
        self.plan = begin[np.argmin(self.costs(begin, z, wanted, bias))]
        costs = self.costs(self.plan + self.noise, z, wanted, bias)
        above = costs - costs.min()
        weights = np.exp(-above / (self.temperature * (above.mean() + 1e-9)))
        self.plan = np.clip(self.plan + weights @ self.noise / weights.sum(), -1, 1)
        self.torque = self.plan[0] if x["active"] else 0.0
        self.past.append(self.torque)
        self.expected = self.moved(measured, self.past[-1 - late], bias)
        self.plan = np.interp([1, 7, 12], [0, 6, 12], self.plan) if x["active"] else np.zeros(3)


def clip_curvature(v, previous, new, roll):
    v = max(v, 1.0)
    rate = 5.0 / v**2
    new = float(np.clip(new, previous - rate * DT, previous + rate * DT))
    inside = float(np.clip(new, (-3 + roll * G) / v**2, (3 + roll * G) / v**2))
    last = float(np.clip(inside, -0.2, 0.2))
    return last, inside != new or last != inside


class Longitudinal:
    OFF, STOPPING, PID, STARTING = range(4)

    def __init__(self, older):
        self.older, self.state, self.last, self.pid = older, self.OFF, 0.0, Pid(-3.5, 2.0)

    def update(self, x):
        start = not (x["stop"] or x["standstill"] or x["brake"])
        go = self.STARTING if self.older else self.PID
        if not x["on"]:
            self.state = self.OFF
        elif self.state in (self.OFF, self.STOPPING):
            self.state = go if start else self.STOPPING
        elif x["stop"]:
            self.state = self.STOPPING
        elif x["v"] > 0.5:
            self.state = self.PID
        out = 0.0
        if self.state != self.PID:
            self.pid.i = 0.0
        if self.state == self.STOPPING:
            out = self.last
            if out > -2.0:
                out = min(out, 0.0) - 1.0 * DT
        elif self.state == self.STARTING:
            out = 1.2
        elif self.state == self.PID:
            if self.older:
                e, speeds = x["vt"] - x["v"], [0, 5, 35]
                kp, ki = np.interp(x["v"], speeds, [3.6, 2.4, 1.5]), np.interp(x["v"], speeds, [0.54, 0.5, 0.36])
            else:
                e, kp, ki = x["at"] - x["a"], 0.0, 0.2
            out = self.pid.update(e, kp, ki, x["at"])
        self.last = float(np.clip(out, -3.5, 2.0))
        return self.last


def row(*values):
    return " ".join(f"{float(v):.10g}" for v in values)


def wander(rng, n, low, high, every, digits):
    """Noise held for a while with some on top."""
    held = np.repeat(rng.uniform(low, high, n // every + 1), every)[:n]
    return np.round(held + rng.normal(0, 0.02 * (high - low), n), digits)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vehicle-model")
    file = parser.parse_args().vehicle_model
    rng = np.random.default_rng(20)
    print(f"# Made by bench/sim/make_goldens.py, NumPy {np.__version__}. Sections: name, rows.")
    cars = [CIVIC, scaled(1650, 2.83, 0.44, 15.5, 1.0), scaled(2600, 3.68, 0.42, 18.5, 0.75),
            scaled(1500, 2.5, 0.55, 13.0, 0.7, 0.05)]
    rows = []
    for which, car in enumerate(cars):
        model = Model(car)
        for _ in range(8):
            sa, u = np.round(rng.uniform(-1, 1), 4), np.round(rng.uniform(0.5, 40), 3)
            roll = np.round(rng.uniform(-0.1, 0.1), 4)
            values = [model.factor(u), model.roll(roll, u), model.curvature(sa, u, roll), model.steer(0.01, u, roll),
                      *model.steady(sa, u, roll)]
            if file:
                check_against(file, model, sa, u, roll, values)
            rows.append(row(which, sa, u, roll, model.sf, *values))
    print("vehicle", len(rows), *rows, sep="\n")

    n = 400
    x = dict(curvature=wander(rng, n, -0.01, 0.01, 23, 6), v=np.abs(wander(rng, n, 0, 35, 41, 3)),
             angle=wander(rng, n, -1.5, 1.5, 17, 3), offset=wander(rng, n, -1, 1, 100, 3),
             roll=wander(rng, n, -0.05, 0.05, 50, 4), delay=np.abs(wander(rng, n, 0, 1.1, 60, 3)),
             active=wander(rng, n, 0, 1, 40, 1) > 0.2, pressed=wander(rng, n, 0, 1, 30, 1) > 0.8,
             limited=wander(rng, n, 0, 1, 25, 1) > 0.8)
    model = Model(CIVIC)
    right = [math.degrees(model.steer(-c, v, roll)) for c, v, roll in zip(x["curvature"], x["v"], x["roll"])]
    x["angle"] = np.round(x["angle"] + x["offset"] + right, 3)
    torque = [Torque(model, 0.8, 0.15), Torque(model, 1.0, 0.3)]
    pid, rows, previous = LatPid(model), [], 0.0
    for i in range(n):
        now = {key: value[i] for key, value in x.items()}
        angle = now["angle"]
        if now["active"]:
            angle = math.degrees(model.steer(-now["curvature"], now["v"], now["roll"])) + now["offset"]
        previous, limited = clip_curvature(now["v"], previous, now["curvature"] * 10, now["roll"])
        outputs = [torque[0].update(now), torque[1].update(now), pid.update(now), angle, previous, limited]
        rows.append(row(*now.values(), *outputs))
    print("lateral", len(rows), *rows, sep="\n")

    x = dict(v=np.maximum(wander(rng, n, -6, 8, 31, 3), 0), a=wander(rng, n, -3, 3, 13, 3),
             vt=np.abs(wander(rng, n, 0, 10, 50, 3)), at=wander(rng, n, -4, 3, 19, 3),
             on=wander(rng, n, 0, 1, 35, 1) > 0.1, stop=wander(rng, n, 0, 1, 45, 1) > 0.6,
             brake=wander(rng, n, 0, 1, 20, 1) > 0.9, standstill=wander(rng, n, 0, 1, 20, 1) > 0.9)
    control, rows = [Longitudinal(False), Longitudinal(True)], []
    for i in range(n):
        now = {key: value[i] for key, value in x.items()}
        rows.append(row(*now.values(), *[f for c in control for f in (c.update(now), c.state)]))
    print("longitudinal", len(rows), *rows, sep="\n")

    x = dict(curvature=wander(rng, n, -0.003, 0.003, 43, 6), v=np.abs(wander(rng, n, 2, 35, 81, 3)),
             angle=wander(rng, n, -0.5, 0.5, 37, 3), offset=wander(rng, n, -1, 1, 100, 3),
             roll=wander(rng, n, -0.05, 0.05, 50, 4), delay=np.abs(wander(rng, n, 0, 1.1, 60, 3)),
             active=wander(rng, n, 0, 1, 40, 1) > 0.1, pressed=wander(rng, n, 0, 1, 30, 1) > 0.9,
             limited=wander(rng, n, 0, 1, 25, 1) > 0.9)
    right = [math.degrees(model.steer(-c, v, roll)) for c, v, roll in zip(x["curvature"], x["v"], x["roll"])]
    x["angle"] = np.round(x["angle"] + x["offset"] + right, 3)
    mppi, rows = Mppi(model), []
    for i in range(n):
        now = {key: value[i] for key, value in x.items()}
        rows.append(row(*now.values(), mppi.update(now)))
    print("mppi", len(rows), *rows, sep="\n")


if __name__ == "__main__":
    main()
