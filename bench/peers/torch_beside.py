#!/usr/bin/env python3
"""What sparkpilot's threads and PyTorch's cost each other in one process: times of each alone, and of both in turns.

    PYTHONPATH=build/python .venv/bin/python bench/peers/torch_beside.py [--model FILE] [--rounds 5]

Both have threads by OpenMP, which spin for a while after their work; a process has the libgomp that was loaded first. Each round runs, in
a process of its own and in turns: either alone, both in turns, and both in turns with PyTorch loaded first. Prints medians of
the medians of the rounds, and ends with 4 if a result is wrong. (After `scripts/make_peers.sh pytorch`, on a quiet machine.)
"""
import argparse
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
#: And what is imported first.
CASES = {"alone": "sparkpilot", "in turns": "sparkpilot", "in turns, PyTorch loaded first": "torch"}


def measured(model, case, threads):
    import numpy as np

    importlib.import_module(CASES[case])
    import sparkpilot
    import torch

    torch.set_num_threads(threads)
    session = sparkpilot.Session(model, threads=threads)
    session.run()
    wanted = {name: session.outputs[name].copy() for name in session.outputs}
    layers = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(8)]).eval()
    x = torch.randn(64, 512)

    def ours():
        session.run()

    def theirs():
        with torch.inference_mode():
            return layers(x)

    answer = theirs()
    times = {"sparkpilot": [], "PyTorch": []}
    orders = [[("sparkpilot", ours)], [("PyTorch", theirs)]] if case == "alone" else [[("sparkpilot", ours), ("PyTorch", theirs)]]
    for order in orders:
        end = time.perf_counter() + 2
        while time.perf_counter() < end:
            for name, call in order:
                begin = time.perf_counter()
                call()
                times[name].append((time.perf_counter() - begin) * 1e3)
    right = bool(torch.equal(theirs(), answer)) and all(np.array_equal(session.outputs[name], wanted[name]) for name in wanted)
    print(json.dumps({"right": right, **{name: statistics.median(each) for name, each in times.items()}}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=str(ROOT / "models/demo_supercombo.onnx"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        return measured(given.model, given.case, given.threads)
    found = {case: [] for case in CASES}
    for _ in range(given.rounds):
        for case in CASES:
            words = [sys.executable, __file__, "--model", given.model, "--threads", str(given.threads), "--case", case]
            said = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
            found[case].append(json.loads(said.stdout))
    print(f"{given.threads} threads each; {pathlib.Path(given.model).name}, and 8 layers of 512 for 64 rows in PyTorch")
    for case, rounds in found.items():
        cells = [f"{name} {statistics.median(each[name] for each in rounds):.3f} ms" for name in ("sparkpilot", "PyTorch")]
        print(f"{case:32} {cells[0]:24} {cells[1]}")
    if not all(each["right"] for rounds in found.values() for each in rounds):
        sys.exit(4)


main()
