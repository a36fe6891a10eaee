#!/usr/bin/env python3
"""Camera geometry and model frames computed with NumPy alone, from openpilot's formulas: an implementation of its own
that src/route/contract/{camera,frame}_test.cc are held against. Prints the constants that stand there:

    python3 tests/reference/frame_numpy.py
"""
import numpy as np

VIEW = np.array([[0, 0, 1], [1, 0, 0], [0, 1, 0]]).T  # view from device
ROAD_MODEL = np.array([[910, 0, 256], [0, 910, 47.6], [0, 0, 1]])
BIG_MODEL = np.array([[455, 0, 256], [0, 455, (256 + 47.6) / 2], [0, 0, 1]])
DRIVER_MODEL = np.array([[567, 0, 720], [0, 567, 480 - (1208 - 960) / 2], [0, 0, 1]])


def camera(width, height, focal_length):
    return np.array([[focal_length, 0, width / 2], [0, focal_length, height / 2], [0, 0, 1]])


def rotation(roll, pitch, yaw):
    c, s = np.cos([roll, pitch, yaw]), np.sin([roll, pitch, yaw])
    about_x = np.array([[1, 0, 0], [0, c[0], -s[0]], [0, s[0], c[0]]])
    about_y = np.array([[c[1], 0, s[1]], [0, 1, 0], [-s[1], 0, c[1]]])
    about_z = np.array([[c[2], -s[2], 0], [s[2], c[2], 0], [0, 0, 1]])
    return about_z @ about_y @ about_x


def warp(rpy, intrinsics, model):
    return intrinsics @ VIEW @ rotation(*rpy) @ np.linalg.inv(model @ VIEW)


def pattern(width, height, seed):
    """A plane of bytes that C++ makes the same: the upper byte of a 32-bit product, so neighbours are unlike."""
    i = np.arange(width * height, dtype=np.uint64)
    return ((((i + np.uint64(seed)) * np.uint64(2654435761)) & np.uint64(0xFFFFFFFF)) >> np.uint64(24)).astype(
        np.uint8).reshape(height, width)


def coordinates(m, width, height):
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    return [m[3 * i] * x + m[3 * i + 1] * y + m[3 * i + 2] for i in range(3)]


def bilinear(plane, m, width, height):
    px, py, w = coordinates(m, width, height)
    scale = np.where(w != 0, np.float32(32) / w, np.float32(0))
    far = np.float32(1 << 28)
    fixed = [np.rint(np.clip(p * scale, -far, far)).astype(np.int64) for p in (px, py)]
    rows, columns = plane.shape
    tap = [fixed[0] >> 5, fixed[1] >> 5]
    tx, ty = (fixed[i] % 32 / np.float64(32) for i in range(2))
    total = 0
    for dy in range(2):
        for dx in range(2):
            weight = (ty if dy else 1 - ty) * (tx if dx else 1 - tx)
            table = np.minimum(np.rint(weight * 32768), 32767).astype(np.int64)  # openpilot's tables hold shorts
            at = plane[np.clip(tap[1] + dy, 0, rows - 1), np.clip(tap[0] + dx, 0, columns - 1)]
            total = total + at.astype(np.int64) * table
    inside = (fixed[0] >= 0) & (fixed[0] <= 32 * (columns - 1)) & (fixed[1] >= 0) & (fixed[1] <= 32 * (rows - 1))
    return ((total + (1 << 14)) >> 15).astype(np.uint8), inside


def nearest(plane, m, width, height):
    px, py, w = coordinates(m, width, height)
    x, y = np.rint(px / w), np.rint(py / w)
    rows, columns = plane.shape
    inside = (x >= 0) & (x <= columns - 1) & (y >= 0) & (y <= rows - 1)
    return plane[np.clip(y, 0, rows - 1).astype(int), np.clip(x, 0, columns - 1).astype(int)], inside


def chroma(m, sample):
    if sample is nearest:
        return m * np.array([1, 1, 0.5, 1, 1, 0.5, 2, 2, 1], np.float32)
    out = np.empty(9, np.float32)
    for i in range(3):  # M S_out
        a, b, c = m[3 * i:3 * i + 3]
        out[3 * i:3 * i + 3] = 2 * a, 2 * b, (a / 2 + b / 2) + c
    top = out.reshape(3, 3)
    return np.concatenate([top[0] / 2 - top[2] / 4, top[1] / 2 - top[2] / 4, top[2]])  # S_in of it


def frame(planes, m, sample):
    y, _ = sample(planes[0], m, 512, 256)
    uv = [sample(plane, chroma(m, sample), 256, 128)[0] for plane in planes[1:]]
    return np.stack([y[0::2, 0::2], y[1::2, 0::2], y[0::2, 1::2], y[1::2, 1::2], *uv])


def driver_frame(plane, m, sample, border):
    out, inside = sample(plane, m, 1440, 960)
    return out if border is None else np.where(inside, out, np.uint8(border))


def fnv1a(array):
    h = 0xCBF29CE484222325
    for byte in array.tobytes():
        h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"0x{h:016x}"


def main():
    print("// warps")
    cases = [("road 1928x1208", (0.01, -0.02, 0.03), camera(1928, 1208, 2648), ROAD_MODEL),
             ("big 1928x1208", (0.01, -0.02, 0.03), camera(1928, 1208, 567), BIG_MODEL),
             ("road 1344x760", (-0.04, 0.05, -0.06), camera(1344, 760, 1141.5), ROAD_MODEL),
             ("road 1164x874", (0, 0, 0), camera(1164, 874, 910), ROAD_MODEL)]
    for name, rpy, intrinsics, model in cases:
        print(f"// {name} {rpy}\n{{{', '.join(repr(float(v)) for v in warp(rpy, intrinsics, model).ravel())}}}")
    for width, height, focal_length in ((1928, 1208, 567), (1344, 760, 425.25)):
        m = camera(width, height, focal_length) @ np.linalg.inv(DRIVER_MODEL)
        print(f"// driver {width}x{height}\n{{{', '.join(repr(float(v)) for v in m.ravel())}}}")

    print("// frames: size, warp, hash, the bytes at 0, 50000, 100000, 150000, 190000")
    # The second looks half backwards: its horizon lies in the frame.
    for width, height, m in ((1928, 1208, [2.875, -0.0625, 220.3, 0.09375, 2.8125, 465.7, 0.00003, -0.00002, 1.01]),
                             (526, 330, [1.5, 0.75, -300.5, -0.5, 1.25, 90.25, 0.001, -0.008, 1.03125])):
        m = np.array(m).astype(np.float32)
        planes = [pattern(width, height, 1), pattern(width // 2, height // 2, 2), pattern(width // 2, height // 2, 3)]
        for sample in (bilinear, nearest):
            out = frame(planes, m, sample)
            print(sample.__name__, width, height, fnv1a(out), [int(out.flat[i]) for i in (0, 50000, 100000, 150000, 190000)])
    m = (camera(1344, 760, 425.25) @ np.linalg.inv(DRIVER_MODEL)).astype(np.float32).ravel()
    for sample in (bilinear, nearest):
        for border in (None, 16):
            out = driver_frame(pattern(1344, 760, 1), m, sample, border)
            print("driver", sample.__name__, border, fnv1a(out), [int(out.flat[i]) for i in (0, 500000, 1000000)])


if __name__ == "__main__":
    with np.errstate(divide="ignore", invalid="ignore"):
        main()
