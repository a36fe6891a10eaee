#!/usr/bin/env python3
"""A helical drive in ECEF and what a path rebuilt from it must say, with NumPy alone: an implementation of its own that
src/route/log/driven_path_test.cc is held against. Prints the constants that stand there; with the folder of comma2k19's
global_pose, what its sample must say as well:

    python3 tests/reference/driven_path_numpy.py [FOLDER]
"""
import pathlib
import sys

import numpy as np

LATITUDE, LONGITUDE, HEIGHT = np.radians(37.6), np.radians(-122.4), 12.0
RADIUS, SPEED, CLIMB, ROLL, HEADING = 80.0, 15.0, 0.04, 0.03, 0.7  # climb: radians of pitch; heading: at time 0
A, E2 = 6378137.0, 6.69437999014e-3  # WGS84


def about(axis, angle):
    i, j = [(1, 2), (2, 0), (0, 1)][axis]
    out = np.eye(3)
    out[i, i] = out[j, j] = np.cos(angle)
    out[j, i], out[i, j] = np.sin(angle), -np.sin(angle)
    return out


def euler(rotation):
    return np.array([np.arctan2(rotation[2, 1], rotation[2, 2]), -np.arcsin(rotation[2, 0]),
                     np.arctan2(rotation[1, 0], rotation[0, 0])])


def place(seconds):
    """Position in ECEF and the rotation ECEF from calibrated."""
    flat = SPEED * np.cos(CLIMB)
    turn = flat * seconds / RADIUS
    ned = np.array([RADIUS * (np.sin(HEADING + turn) - np.sin(HEADING)),
                    RADIUS * (np.cos(HEADING) - np.cos(HEADING + turn)), -SPEED * np.sin(CLIMB) * seconds])
    north = [-np.sin(LATITUDE) * np.cos(LONGITUDE), -np.sin(LATITUDE) * np.sin(LONGITUDE), np.cos(LATITUDE)]
    east = [-np.sin(LONGITUDE), np.cos(LONGITUDE), 0]
    down = np.cross(north, east)
    ecef_from_ned = np.stack([north, east, down], axis=1)
    curvature = A / np.sqrt(1 - E2 * np.sin(LATITUDE)**2)
    origin = np.array([(curvature + HEIGHT) * np.cos(LATITUDE) * np.cos(LONGITUDE),
                       (curvature + HEIGHT) * np.cos(LATITUDE) * np.sin(LONGITUDE),
                       (curvature * (1 - E2) + HEIGHT) * np.sin(LATITUDE)])
    return origin + ecef_from_ned @ ned, ecef_from_ned @ about(2, HEADING + turn) @ about(1, CLIMB) @ about(0, ROLL)


def ahead(seconds, horizon):
    (here, rotation), (there, later) = place(seconds), place(seconds + horizon)
    return rotation.T @ (there - here), euler(rotation.T @ later)


def from_quaternion(w, x, y, z):
    return np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                     [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                     [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]])


def sample(folder):
    times, positions, orientations, velocities = (np.load(folder / f"frame_{name}", allow_pickle=False)
                                                  for name in ("times", "positions", "orientations", "velocities"))
    rotations = [from_quaternion(*q) for q in orientations]
    directions = np.array([r.T @ v / np.linalg.norm(v) for r, v in zip(rotations, velocities)])
    mean = directions.mean(axis=0)
    mean /= np.linalg.norm(mean)
    pitch, yaw = -np.arcsin(mean[2]), np.arctan2(mean[1], mean[0])
    device_from_calibrated = about(2, yaw) @ about(1, pitch)
    speed = np.linalg.norm(velocities, axis=1)
    print("calibration, degrees", np.degrees([0, pitch, yaw]))
    print("integral of speed, m", ((speed[1:] + speed[:-1]) / 2 * np.diff(times)).sum())
    here, there = rotations[600] @ device_from_calibrated, rotations[640] @ device_from_calibrated
    print("frame 640 seen from 600", here.T @ (positions[640] - positions[600]), euler(here.T @ there)[2])


if __name__ == "__main__":
    np.set_printoptions(precision=9, suppress=True)
    for seconds in (0.0, 3.0):
        position, rotation = place(seconds)
        print("at", seconds, repr(position), euler(rotation))
    for horizon in (1, 2, 4, 6):
        print("ahead of 3 s by", horizon, *ahead(3.0, horizon))
    if len(sys.argv) > 1:
        sample(pathlib.Path(sys.argv[1]))
