#!/usr/bin/env python3
"""Whether `model quantize --target-error` keeps its target on frames of other roads, and --budget its bytes.

  bench/target_error.py [--program build/sparkpilot] [--out out/target_error] [--seeds 5]

Four models drive synthetic roads. What their networks read on frames of --roads roads is what layers are measured on; the error
of the written file is that on frames of as many other roads. Prints a table in Markdown; exits with 4 if a target was missed or a
budget exceeded. Needs NumPy.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
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
    def samples(self, flag, drive, role, seed):
        return [word for i in range(self.flags.roads) for word in (flag, self.samples_of_road(drive, role, seed + i))]

    def road(self, seed):
        road = self.out / f"road_{seed}"
        if not road.exists():
            self.run("route", "synth", "--seed", seed, "--seconds", 6, "--qcamera-only", "--out", road)
        return road

    def samples_of_road(self, drive, role, seed):
        words = [word.format(zoo=self.zoo) for word in drive]
        name = "_".join([*(Path(word).stem for word in words[1::2]), str(seed)])
        to = self.out / f"{name}.{role}.npz"
        if to.exists():
            return to
        road = self.road(seed)
        dump = self.out / f"dump_{name}"
        self.run("drive", road, *words, "--precision", "fp32", "--no-overlay", "--threads", 1, "--dump", dump, "--out",
                 self.out / f"drive_{name}")
        frames = sorted(folder for folder in dump.glob("*/*") if folder.is_dir())[:: self.flags.every]
        inputs = {}  # of all networks that drove
        for frame in frames:
            for file in frame.glob("*.*.npy"):
                network, value = file.name.removesuffix(".npy").split(".", 1)
                inputs.setdefault(network, {}).setdefault(value, []).append(np.load(file))
        for network, values in inputs.items():
            np.savez(self.out / f"{name}.{network}.npz", **{key: np.concatenate(arrays) for key, arrays in values.items()})
        shutil.rmtree(dump)  # 130 MB
        return to

    def store(self, name, model, words, seed, data, others):
        file = self.out / f"{name}_{seed}.onnx"
        return json.loads(self.run("model", "quantize", model.format(zoo=self.zoo), file, *words, *data, *others, "--threads", 1,
                                   "--json"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="build/sparkpilot")
    parser.add_argument("--out", default="out/target_error")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--roads", type=int, default=6, help="that layers are measured on, and that errors are")
    parser.add_argument("--every", type=int, default=20, help="frames from one sample to the next")
    parser.add_argument("--target", type=float, default=0.03)
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time, of one thread each")
    parser.add_argument("--model", action="append", choices=[m[0] for m in MODELS], help="only this one (repeatable)")
    flags = parser.parse_args()
    bench = Bench(flags)
    wanted = [model for model in MODELS if not flags.model or model[0] in flags.model]
    with ThreadPoolExecutor(flags.jobs) as pool:
        # Roads first, then what drives them, each once, then the runs.
        starts = [first + i * flags.roads for first in (100, 5000) for i in range(flags.seeds)]
        seeds = [start + road for start in starts for road in range(flags.roads)]
        list(pool.map(bench.road, seeds))
        drives = {tuple(drive): role for name, drive, role, model in wanted}
        list(pool.map(lambda task: bench.samples_of_road(*task), [(d, r, seed) for d, r in drives.items() for seed in seeds]))

        def run(task):
            (name, drive, role, model), i = task
            data = bench.samples("--calibrate", drive, role, 100 + i * flags.roads)
            others = bench.samples("--compare", drive, role, 5000 + i * flags.roads)
            made = bench.store(name, model, ["--fp4", "--target-error", flags.target], i, data, others)
            budget = int(0.8 * made["kept_weight_bytes"])
            return name, i, made, bench.store(name, model, ["--fp4", "--budget", budget], i, data, others), budget

        kept = within = runs = 0
        print(f"| model | road | worst of other frames, target {flags.target} | all of them | bytes of those kept | "
              "its own budget: bytes |")
        print("|---|---|---|---|---|---|")
        for name, i, made, small, budget in pool.map(run, [(model, i) for model in wanted for i in range(flags.seeds)]):
            error = max(output["worst_sample_relative_l2"] for output in made["outputs"])
            runs += 1
            kept += error <= flags.target
            within += small["weight_bytes"] <= budget
            share = made["weight_bytes"] / made["kept_weight_bytes"]
            together = max(output["relative_l2"] for output in made["outputs"])
            print(f"| {name} | {i} | {error:.4f} | {together:.4f} | {share:.2f} | {small['weight_bytes']} of {budget} |",
                  flush=True)
    print(f"\n{kept} of {runs} runs keep the target, {within} of {runs} the budget")
    return 0 if kept == within == runs else 4


sys.exit(main())
