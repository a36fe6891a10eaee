#!/usr/bin/env python3
"""What smaller weights cost a driven plan, in metres: a table for docs/small_formats.md.

  bench/plan_error.py [--program build/sparkpilot] [--out out/plan_error] [--roads 8]

A model drives synthetic roads in each precision; `compare --route` says how far its plan is from fp32's at 1, 2, 4 and 6 s. "fp8,
calibrated" also rounds activations, with what `model calibrate --route` saw on a road that is not among them. Each figure is the
mean over roads of their means over frames, with its 95 % interval (Student's t over roads).
"""

import argparse
import json
import math
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

# Two-sided 95 % quantiles of Student's t by degrees of freedom.
T = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]
HORIZONS = (1, 2, 4, 6)
PRECISIONS = ("fp16", "fp8", "fp4")


def interval(values):
    mean = statistics.fmean(values)
    half = T[len(values) - 2] * statistics.stdev(values) / math.sqrt(len(values))
    return f"{mean:.3g} ({max(mean - half, 0):.3g} to {mean + half:.3g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/sparkpilot")
    parser.add_argument("--model", default="models/demo_supercombo.onnx", help="one that holds vision and policy")
    parser.add_argument("--out", default="out/plan_error")
    parser.add_argument("--roads", type=int, default=8, help=f"2 to {len(T) + 1}")
    parser.add_argument("--seconds", type=int, default=15, help="of each road")
    flags = parser.parse_args()
    if not 2 <= flags.roads <= len(T) + 1:
        parser.error(f"--roads: expected 2 to {len(T) + 1}")
    out = Path(flags.out)
    models = out / "models"
    models.mkdir(parents=True, exist_ok=True)
    shutil.copy(flags.model, models / "supercombo.onnx")

    def run(*words):
        return subprocess.run([flags.program, *map(str, words), "--quiet"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def road(seed):
        to = out / f"road_{seed}"
        if not to.exists():
            run("route", "synth", "--seed", seed, "--seconds", flags.seconds, "--qcamera-only", "--out", to)
        return to

    calibration = out / "calibration.json"
    if not calibration.exists():
        run("model", "calibrate", models / "supercombo.onnx", "--route", road(300), "--out", calibration)
    errors = {name: {h: [] for h in HORIZONS} for name in (*PRECISIONS, "fp8, calibrated")}
    for i in range(flags.roads):
        route = road(301 + i)
        drive = ["compare", "--route", route, "--models", models, "--json", "--precision"]
        plain = json.loads(run(*drive, ",".join(("fp32", *PRECISIONS))))
        rounded = json.loads(run(*drive, "fp32,fp8", "--calibration", calibration))
        named = [*zip(PRECISIONS, plain["drives"][1:]), ("fp8, calibrated", rounded["drives"][1])]
        for name, driven in named:
            for term in driven["terms"]:
                for h in HORIZONS:
                    if term["name"] == f"plan at {h} s":
                        errors[name][h].append(term["mean"])
        print(f"road {i + 1} of {flags.roads}", file=sys.stderr, flush=True)
    print("| precision | " + " | ".join(f"after {h} s, m" for h in HORIZONS) + " |")
    print("|---|" + "---|" * len(HORIZONS))
    for name, by_horizon in errors.items():
        print(f"| {name} | " + " | ".join(interval(by_horizon[h]) for h in HORIZONS) + " |")
    return 0


sys.exit(main())
