"""A control algorithm of one's own: openpilot's lateral PID in Python, for sparkpilot's simulation.

    sparkpilot sim run --algorithm examples/lateral_pid.py --scenarios curves --set kp_fast=0.12

It is the built-in lateral_pid written again, for all worlds of a batch at once. `cars`, `seen`, `out` are NumPy record
arrays on the memory that is shared with sparkpilot: their fields are those of include/sparkpilot/algorithm.h, so
`seen.speed` is a float32 for each world, and writing `out.lateral[:]` copies nothing.
"""
import numpy as np

steering = "torque"
parameters = {  # default, unit, meaning; a number alone will do
    "kp_slow": (0.005, "1/deg", "gain at rest"),
    "kp_fast": (0.1, "1/deg", "gain from 35 m/s on"),
    "ki_slow": (0.005, "1/(deg s)", "gain of the integral at rest"),
    "ki_fast": (0.1, "1/(deg s)", "gain of the integral from 35 m/s on"),
    "kf": (0.0002, "s^2/(deg m^2)", "feedforward on the wheel angle times speed squared"),
}


class State:
    pass


def reset(worlds, cars, parameters):
    State.car = cars.copy()
    State.gain = {name: np.float32(value) for name, value in parameters.items()}
    State.integral = np.zeros(worlds, np.float32)


def over_speed(speed, slow, fast):
    """Linear from rest to 35 m/s."""
    return fast + (slow - fast) * np.clip((35 - speed) / np.float32(35), 0, 1)


def update_batch(seen, out):
    car, gain, speed = State.car, State.gain, seen.speed
    # openpilot's VehicleModel: the angle of the wheel that gives this curvature, in degrees.
    flexible = 1 - car.slip_factor * speed**2
    wheel = (seen.desired_curvature * flexible - car.slip_roll * seen.roll) * car.wheel_angle
    wanted = np.degrees(wheel)
    error = wanted - seen.wheel_angle
    p = over_speed(speed, gain["kp_slow"], gain["kp_fast"]) * error
    feedforward = gain["kf"] * wanted * speed**2
    # The integral stops where the output is at its limit, and below 5 m/s.
    moved = State.integral + over_speed(speed, gain["ki_slow"], gain["ki_fast"]) * error * car.step
    both = p + moved + feedforward
    low, high = np.where(both < -1, State.integral, -1), np.where(both > 1, State.integral, 1)
    State.integral = np.where(speed < 5, State.integral, np.clip(moved, low, high))
    out.lateral[:] = np.clip(p + State.integral + feedforward, -1, 1)
