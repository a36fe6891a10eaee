#!/usr/bin/env python3
"""The action of a plan and the sampling of the model's queues computed with NumPy alone, from openpilot's formulas: an
implementation of its own that src/route/contract/{action,temporal}_test.cc are held against. Prints the constants that
stand there:

    python3 tests/reference/action_numpy.py
"""
import numpy as np

TIMES = 10 * (np.arange(33) / 32) ** 2


def plan():
    """Speed, acceleration, yaw and yaw rate at the 33 times, as the floats that the tests are given."""
    t = TIMES
    columns = 12 + 1.5 * t - 0.2 * t**2, 1.25 - 0.4 * t, 0.03 * t + 0.004 * t**2, 0.031 + 0.008 * t
    return [column.astype(np.float32).astype(np.float64) for column in columns]


def smooth(value, before, tau=0.3, dt=0.05):
    alpha = 1 - np.exp(-dt / tau)
    return alpha * value + (1 - alpha) * before


def acceleration(t):
    speed, accel, _, _ = plan()
    return 2 * (np.interp(t, TIMES, speed) - speed[0]) / t - accel[0]


def curvature(t, v_ego):
    _, _, yaw, rate = plan()
    v = max(v_ego, 1)
    return 2 * np.interp(t, TIMES, yaw) / (v * t) - rate[0] / v


def queue(frames, length):
    """The last `length` of `frames`, zeros before the first."""
    rows = np.zeros((length, frames.shape[1]))
    count = min(length, len(frames))
    rows[length - count:] = frames[len(frames) - count:]
    return rows


def main():
    speed = plan()[0]
    for t in (-1, 0, 0.05, 0.35, 1, 5.5, 10, 12):
        print(f"speed at {t}: {np.interp(t, TIMES, speed):.9f}")
    for lateral, longitudinal, v_ego in ((0.25, 0.5, 15), (0.4, 0.15, 0.6), (0.05, 1.2, 33)):
        print(f"action {lateral} {longitudinal} {v_ego}: curvature {curvature(lateral, v_ego):.9g} "
              f"acceleration {acceleration(longitudinal):.9g} smoothed from -0.5 {smooth(acceleration(longitudinal), -0.5):.9g}")
    frames = np.stack([np.arange(1, 112), (np.arange(1, 112) * 37) % 101], axis=1)
    for count in (1, 6, 30, 111):
        seen = frames[:count]
        print(f"after {count}: split {queue(seen, 97)[::4, 0].astype(int).tolist()}")
        print(f"after {count}: merged {queue(seen, 96)[::4, 0].astype(int).tolist()}")
        print(f"after {count}: greatest {queue(seen, 100).reshape(25, 4, 2).max(axis=1)[:, 1].astype(int).tolist()}")


if __name__ == "__main__":
    main()
