#!/usr/bin/env python3
"""What choosing each node's kernel by timing could gain at most over the rules in the op table.

    bench/kernel_choice.py MODEL... [--cpu avx2] [--precision bf16] [--program build/sparkpilot]

Runs each model as it is and with each kernel of the project's asked for everywhere, in turns, and counts for every
node the fastest that any run found: an upper bound, as the least of several noisy times is taken. One thread.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess

KERNELS = ["", "onednn", "simd", "dot", "int8", "float", "rows", "lines"]
TURNS = 3


def profile(options, model, kernels):
    command = [options.program, "bench", model, "--profile", "--json", "--quiet", "--threads", "1"]
    command += ["--runs", str(options.runs), "--precision", options.precision]
    environment = dict(os.environ, SPARKPILOT_CPU=options.cpu, SPARKPILOT_KERNELS=kernels)
    report = json.loads(subprocess.run(command, capture_output=True, check=True, env=environment).stdout)
    nodes = report["models"][0]["profile"]
    return {(i, n["name"], n["op"]): n for i, n in enumerate(nodes)}


def bound(options, model):
    times = {}  # node: {kernel: [ms]}
    taken = {}
    for turn in range(TURNS):
        for kernels in KERNELS:
            for node, n in profile(options, model, kernels).items():
                times.setdefault(node, {}).setdefault(n["kernel"], []).append(n["mean_ms"])
                if not kernels:
                    taken[node] = n["kernel"]
    now = best = 0.0
    for node, kernel in taken.items():
        medians = {k: statistics.median(v) for k, v in times[node].items()}
        now += medians[kernel]
        best += min(medians.values())
    return now, best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--cpu", default="auto")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--program", default="build/sparkpilot")
    options = parser.parse_args()
    for model in options.models:
        now, best = bound(options, model)
        print(f"{pathlib.Path(model).name:44} {now:8.3f} ms, at best {best:8.3f}: {100 * (1 - best / now):4.1f} %", flush=True)


if __name__ == "__main__":
    main()
