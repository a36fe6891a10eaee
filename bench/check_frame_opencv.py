#!/usr/bin/env python3
"""How far the frames that sparkpilot prepares lie from OpenCV's.

    bench/check_frame_opencv.py [--picture FILE.png] [--program build/frame_bench] [--json]

For each picture and plane, the model's frame against
  fixed    cv2.remap on OpenCV's own fixed-point maps of 1/32 of a pixel (CV_16SC2), at the coordinates that openpilot's
           kernel rounds to: the same arithmetic, must be equal
  opencv   cv2.warpPerspective(INTER_LINEAR | WARP_INVERSE_MAP, BORDER_REPLICATE)
  exact    bilinear interpolation in double, coordinates not rounded (NumPy)
  nearest  cv2.remap(INTER_NEAREST) of the rounded coordinates, against the frame with that sampling: must be equal
and, for scale, warpPerspective against `exact`. Differences are in grey levels. Pictures: FILE (a photograph), scaled to
1164 x 874, the same enlarged to 1928 x 1208, and noise. Exit code 4 where what must be equal is not. Needs OpenCV, NumPy
and the program (`cmake --build build --target frame_bench`).
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import cv2
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "reference"))
from frame_numpy import BIG_MODEL, ROAD_MODEL, bilinear, camera, chroma, coordinates, nearest, warp  # noqa: E402

LINEAR = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP


def frames(program, yuv, matrix):
    """{sampling: [Y, U, V]} as the program computes them."""
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        np.save(at / "picture.npy", yuv)
        np.save(at / "warp.npy", matrix)
        subprocess.run([program, "--picture", at / "picture.npy", "--warp", at / "warp.npy", "--dump", at, "--runs", "0"],
                       check=True)
        out = {}
        for sampling in ("bilinear", "nearest"):
            packed = np.load(at / f"{sampling}.npy")
            y = np.empty((256, 512), np.uint8)
            for channel in range(4):
                y[channel % 2::2, channel // 2::2] = packed[channel]
            out[sampling] = [y, packed[4], packed[5]]
        return out


def planes(yuv):
    height, width = yuv.shape[0] * 2 // 3, yuv.shape[1]
    flat, half = yuv.ravel(), (height // 2, width // 2)
    quarter = width * height // 4
    return [yuv[:height], flat[4 * quarter:5 * quarter].reshape(half), flat[5 * quarter:].reshape(half)]


def fixed(plane, m, size):
    px, py, w = coordinates(m, *size)
    scale = np.where(w != 0, np.float32(32) / w, np.float32(0))
    x, y = (np.rint(p * scale).astype(np.int32) for p in (px, py))
    whole = np.stack([x >> 5, y >> 5], -1).astype(np.int16)
    return cv2.remap(plane, whole, ((y & 31) * 32 + (x & 31)).astype(np.uint16), cv2.INTER_LINEAR,
                     borderMode=cv2.BORDER_REPLICATE)


def rounded(plane, m, size):
    px, py, w = coordinates(m, *size)
    return cv2.remap(plane, np.rint(px / w).astype(np.float32), np.rint(py / w).astype(np.float32), cv2.INTER_NEAREST,
                     borderMode=cv2.BORDER_REPLICATE)


def exact(plane, m, size):
    px, py, w = coordinates(m.astype(np.float64), *size)
    rows, columns = plane.shape
    x, y = np.clip(px / w, 0, columns - 1), np.clip(py / w, 0, rows - 1)
    left, top = np.floor(x).astype(int), np.floor(y).astype(int)
    right, below = np.minimum(left + 1, columns - 1), np.minimum(top + 1, rows - 1)
    tx, ty, p = x - left, y - top, plane.astype(np.float64)
    return (p[top, left] * (1 - tx) + p[top, right] * tx) * (1 - ty) + (p[below, left] * (1 - tx) + p[below, right] * tx) * ty


def describe(a, b):
    d = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return {"max": round(float(d.max()), 2), "mean": round(float(d.mean()), 4),
            "share_equal": round(float((d < 0.5).mean()), 5), "share_within_1": round(float((d <= 1).mean()), 5),
            "share_within_2": round(float((d <= 2).mean()), 5)}


def cases(path):
    rng = np.random.default_rng(1)
    if path:
        photo = cv2.imread(str(path))
        for width, height, focal_length in ((1164, 874, 910), (1928, 1208, 2648)):
            scaled = cv2.resize(photo, (width, height), interpolation=cv2.INTER_CUBIC)
            yield (f"photograph {width}x{height}", cv2.cvtColor(scaled, cv2.COLOR_BGR2YUV_I420),
                   warp((0.01, -0.02, 0.03), camera(width, height, focal_length), ROAD_MODEL))
    noise = rng.integers(0, 256, (1812, 1928), dtype=np.uint8)
    yield "noise, road", noise, warp((0.01, -0.02, 0.03), camera(1928, 1208, 2648), ROAD_MODEL)
    yield "noise, wide, beyond the edge", noise, warp((0.05, -0.3, 0.6), camera(1928, 1208, 567), BIG_MODEL)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "frame_bench")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    report, wrong = [], 0
    for name, yuv, matrix in cases(options.picture):
        got = frames(options.program, yuv, matrix)
        luma = matrix.astype(np.float32).ravel()
        for index, (plane, label) in enumerate(zip(planes(yuv), "YUV", strict=True)):
            size = (256, 128) if index else (512, 256)
            m = chroma(luma, bilinear) if index else luma
            m_nearest = chroma(luma, nearest) if index else luma
            opencv = cv2.warpPerspective(plane, m.reshape(3, 3).astype(np.float64), size, flags=LINEAR,
                                         borderMode=cv2.BORDER_REPLICATE)
            ours, truth = got["bilinear"][index], exact(plane, m, size)
            row = {"picture": name, "plane": label, "fixed": describe(ours, fixed(plane, m, size)),
                   "opencv": describe(ours, opencv), "exact": describe(ours, truth),
                   "opencv_against_exact": describe(opencv, truth),
                   "nearest": describe(got["nearest"][index], rounded(plane, m_nearest, size))}
            wrong += row["fixed"]["max"] > 0 or row["nearest"]["max"] > 0
            report.append(row)
    if options.json:
        print(json.dumps({"opencv": cv2.__version__, "planes": report}, indent=1))
    else:
        print(f"OpenCV {cv2.__version__}")
        for row in report:
            print(f"\n{row['picture']}, {row['plane']}")
            for key in list(row)[2:]:
                d = row[key]
                print(f"  {key:21} max {d['max']:6.2f}  mean {d['mean']:.4f}  equal {100 * d['share_equal']:7.3f} %  "
                      f"within 1 {100 * d['share_within_1']:7.3f} %  within 2 {100 * d['share_within_2']:7.3f} %")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
