#!/usr/bin/env python3
"""Whether `model quantize --target-error` keeps its target on frames of other roads, and --budget its bytes.

  bench/target_error.py [--program build/sparkpilot] [--out out/target_error] [--seeds 5]

Four models drive synthetic roads. What their networks read on frames of --roads roads is what layers are measured on; the error
of the written file is that on frames of as many other roads. Prints a table in Markdown; exits with 4 if a target was missed or a
budget exceeded. Needs NumPy.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np

# Name, what drives, and the network that is stored in fewer bits.
MODELS = [
    ("demo_supercombo", ["--supercombo", "models/demo_supercombo.onnx"], "supercombo", "models/demo_supercombo.onnx"),
    ("tiny_driving_supercombo", ["--supercombo", "{zoo}/tiny_driving_supercombo.onnx"], "supercombo",
     "{zoo}/tiny_driving_supercombo.onnx"),
    ("tiny_driving_vision", ["--vision", "{zoo}/tiny_driving_vision.onnx", "--policy", "{zoo}/tiny_driving_policy.onnx"],
     "vision", "{zoo}/tiny_driving_vision.onnx"),
    ("tiny_driving_policy", ["--vision", "{zoo}/tiny_driving_vision.onnx", "--policy", "{zoo}/tiny_driving_policy.onnx"],
     "policy", "{zoo}/tiny_driving_policy.onnx"),
]


class Bench:
    def __init__(self, flags):
        self.flags, self.out = flags, Path(flags.out)
        self.zoo = self.out / "zoo"
        self.run("zoo", "build", *sorted({Path(m[3]).stem for m in MODELS if "zoo" in m[3]} | {"tiny_driving_policy"}),
                 "--out", self.zoo)

    def run(self, *words):
        return subprocess.run([self.flags.program, *map(str, words), "--quiet"], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    # The inputs of `role` on some frames of --roads roads, files of one road each, as flags.
    def samples(self, flag, name, drive, role, seed):
        return [word for i in range(self.flags.roads)
                for word in (flag, self.samples_of_road(name, drive, role, seed + i))]

    def samples_of_road(self, name, drive, role, seed):
        to = self.out / f"{name}_{seed}.npz"
        if to.exists():
            return to
        road = self.out / f"road_{seed}"
        if not road.exists():
            self.run("route", "synth", "--seed", seed, "--seconds", 6, "--qcamera-only", "--out", road)
        dump = self.out / f"dump_{name}_{seed}"
        self.run("drive", road, *[word.format(zoo=self.zoo) for word in drive], "--precision", "fp32", "--no-overlay",
                 "--dump", dump, "--out", self.out / f"drive_{name}_{seed}")
        frames = sorted(folder for folder in dump.glob("*/*") if folder.is_dir())[:: self.flags.every]
        inputs = {}
        for frame in frames:
            for file in frame.glob(f"{role}.*.npy"):
                inputs.setdefault(file.name.split(".", 1)[1].removesuffix(".npy"), []).append(np.load(file))
        np.savez(to, **{key: np.concatenate(arrays) for key, arrays in inputs.items()})
        return to

    def store(self, name, model, words, seed, data, others):
        file = self.out / f"{name}_{seed}.onnx"
        return json.loads(self.run("model", "quantize", model.format(zoo=self.zoo), file, *words, *data, *others, "--json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/sparkpilot")
    parser.add_argument("--out", default="out/target_error")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--roads", type=int, default=6, help="that layers are measured on, and that errors are")
    parser.add_argument("--every", type=int, default=20, help="frames from one sample to the next")
    parser.add_argument("--target", type=float, default=0.03)
    parser.add_argument("--model", action="append", choices=[m[0] for m in MODELS], help="only this one (repeatable)")
    flags = parser.parse_args()
    bench = Bench(flags)
    kept = within = runs = 0
    print(f"| model | road | error on other frames, target {flags.target} | bytes of fp32's | its own budget: bytes |")
    print("|---|---|---|---|---|")
    for name, drive, role, model in MODELS:
        if flags.model and name not in flags.model:
            continue
        for i in range(flags.seeds):
            data = bench.samples("--calibrate", name, drive, role, 100 + i * flags.roads)
            others = bench.samples("--compare", name, drive, role, 5000 + i * flags.roads)
            made = bench.store(name, model, ["--fp4", "--target-error", flags.target], i, data, others)
            error = max(output["worst_sample_relative_l2"] for output in made["outputs"])
            budget = int(0.6 * made["fp32_weight_bytes"])
            small = bench.store(name, model, ["--fp4", "--budget", budget], i, data, others)
            runs += 1
            kept += error <= flags.target
            within += small["weight_bytes"] <= budget
            share = made["weight_bytes"] / made["fp32_weight_bytes"]
            print(f"| {name} | {i} | {error:.4f} | {share:.2f} | {small['weight_bytes']} of {budget} |", flush=True)
    print(f"\n{kept} of {runs} runs keep the target, {within} of {runs} the budget")
    return 0 if kept == within == runs else 4


sys.exit(main())
