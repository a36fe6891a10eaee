"""The built-in lateral_pid in plain Python, without NumPy; `fault` is what worlds that ask for more than `beyond` m/s get."""
import os
import sys
import time

parameters = {"kp_slow": 0.005, "kp_fast": 0.1, "ki_slow": 0.005, "ki_fast": 0.1, "kf": 0.0002, "fault": 0, "beyond": 1e9}
worlds = []


def reset(count, cars, given):
    global gain
    gain = given
    worlds[:] = [[cars[i].slip_factor, cars[i].slip_roll, cars[i].wheel_angle, 0.0] for i in range(count)]


def over_speed(speed, name):
    return gain[name + "_fast"] + (gain[name + "_slow"] - gain[name + "_fast"]) * min(max((35 - speed) / 35, 0), 1)


def misbehave(out):
    if gain["fault"] == 1:
        os.abort()
    if gain["fault"] == 2:
        raise ValueError("a number that nobody wanted")
    if gain["fault"] == 3:
        sys.exit(5)
    if gain["fault"] == 4:
        time.sleep(1e6)
    if gain["fault"] == 5:
        out.lateral = float("nan")


def update(world, seen, out):
    slip_factor, slip_roll, wheel_angle, integral = worlds[world]
    speed = seen.speed
    wheel = (seen.desired_curvature * (1 - slip_factor * speed**2) - slip_roll * seen.roll) * wheel_angle
    wanted = wheel * 57.29577951308232
    error = wanted - seen.wheel_angle
    p, feedforward = over_speed(speed, "kp") * error, gain["kf"] * wanted * speed**2
    if speed >= 5:
        moved = integral + over_speed(speed, "ki") * 0.01 * error
        both = p + moved + feedforward
        integral = min(max(moved, integral if both < -1 else -1), integral if both > 1 else 1)
        worlds[world][3] = integral
    out.lateral = min(max(p + integral + feedforward, -1), 1)
    if seen.time > 1 and seen.target_speed > gain["beyond"]:
        misbehave(out)
