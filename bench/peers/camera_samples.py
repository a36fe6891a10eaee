#!/usr/bin/env python3
"""Samples of a camera's pictures to calibrate and to compare quantized models with, as the models take them.

    .venv/bin/python bench/peers/camera_samples.py VIDEO DIR --as driver|FastestDet [--calibrate 30] [--held-out 20]

Writes DIR/calibrate/*.npy and DIR/held_out/*.npy: pictures that are evenly spaced over the video, the first ones to
calibrate, the last ones held out. `driver`: upright crops, at another place in each picture, for openpilot's driver
monitoring of 2021: six planes of YUV 4:2:0 of 320x640 pixels, (v - 128) / 128. `FastestDet`: the whole picture as
352x352 pixels of BGR, v / 255. Needs PyAV (`make peers`).
"""
import argparse
import pathlib
import sys

import av
import numpy


def driver(frame, number):
    rgb = frame.to_ndarray(format="rgb24")
    height, width, _ = rgb.shape
    crop_width = min(width, height // 2) // 2 * 2
    left = (number * 37) % (width - crop_width + 1)
    crop = numpy.ascontiguousarray(rgb[:, left:left + crop_width])
    yuv = av.VideoFrame.from_ndarray(crop, format="rgb24").reformat(320, 640, "yuv420p").to_ndarray()
    y, u, v = yuv[:640], yuv[640:800].reshape(320, 160), yuv[800:].reshape(320, 160)
    planes = numpy.stack([y[::2, ::2], y[1::2, ::2], y[::2, 1::2], y[1::2, 1::2], u, v])
    return ((planes.astype(numpy.float32) - 128) / 128)[None]


def fastest_det(frame, _number):
    picture = frame.reformat(352, 352, "bgr24").to_ndarray()
    return numpy.ascontiguousarray(picture.transpose(2, 0, 1)[None].astype(numpy.float32) / 255)


KINDS = {"driver": driver, "FastestDet": fastest_det}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--as", dest="kind", choices=KINDS, required=True)
    parser.add_argument("--calibrate", type=int, default=30)
    parser.add_argument("--held-out", type=int, default=20)
    options = parser.parse_args()
    with av.open(str(options.video)) as video:
        frames = sum(1 for _ in video.decode(video=0))
    wanted = options.calibrate + options.held_out
    if frames < wanted:
        sys.exit(f"{options.video}: {frames} pictures, expected {wanted} or more")
    names = {round(i * (frames - 1) / (wanted - 1)): i for i in range(wanted)}
    if options.folder.exists():
        sys.exit(f"{options.folder}: is there already; samples of two kinds would be mixed")
    for folder in ("calibrate", "held_out"):
        (options.folder / folder).mkdir(parents=True)
    with av.open(str(options.video)) as video:
        for at, frame in enumerate(video.decode(video=0)):
            if at not in names:
                continue
            folder = "calibrate" if names[at] < options.calibrate else "held_out"
            numpy.save(options.folder / folder / f"{at:06}.npy", KINDS[options.kind](frame, names[at]))
    print(f"{options.folder}: {options.calibrate} to calibrate, {options.held_out} held out, of {frames} pictures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
