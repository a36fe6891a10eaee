#!/usr/bin/env python3
"""The official simulator of comma's controls challenge beside `sparkpilot sim tinyphysics`: tokens, costs, time.

    PYTHON bench/peers/tinyphysics_official.py --official DIR [--count 200] [--controller pid]
    PYTHON bench/peers/tinyphysics_official.py --official DIR --time [--rounds 5]

DIR: a checkout of github.com/commaai/controls_challenge. PYTHON: one with what that needs (numpy, onnxruntime, pandas,
matplotlib, seaborn, tqdm) and onnx. Routes: the recorded one of the assets, smooth and random ones made by
bench/sim/tinyphysics_numpy.py. A route whose tokens differ is run again to find the margin of its first differing draw
to the edges of its bin, which is what rounding can turn. Exit code 4 if fewer than 98 % of the routes have the official
tokens, a margin exceeds 1e-5, or a cost differs by more than 1 %.

--time: whole rollouts in turns: the official script (its one thread), NumPy and ONNX Runtime with 1,024 routes at once
and the network's head cut, and sparkpilot with one and two threads. That NumPy version runs some of the 400 steps. The
official script's imports and the start of ONNX Runtime do not count, the start of sparkpilot does.
"""
import argparse
import csv
import importlib
import json
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

from tinyphysics import write_peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
ASSETS = pathlib.Path(os.environ.get("SPARKPILOT_ASSETS", ROOT / "../shared/assets")) / "controls_challenge"
NUMPY = ROOT / "bench/sim/tinyphysics_numpy.py"
COSTS = ("lataccel_cost", "jerk_cost", "total_cost")


def official(folder):
    os.environ["MPLBACKEND"] = "Agg"
    sys.path.insert(0, str(folder))
    os.environ.setdefault("MPLCONFIGDIR", tempfile.gettempdir())
    sys.modules.pop("tinyphysics", None)  # ours of that name, beside this file
    sys.path.remove(str(pathlib.Path(__file__).resolve().parent))
    return importlib.import_module("tinyphysics")


class Recorded:
    """The official model; keeps the tokens, and with `draws` the margins of the draws to the edges of their bins."""

    def __init__(self, module, model, draws=False):
        self.tokens, self.margins, self.draws = [], [], draws
        self.model = module.TinyPhysicsModel(str(model), debug=False)
        self.predict, self.model.predict = self.model.predict, self.record

    def record(self, input_data, temperature=1.0):
        state = numpy.random.get_state()
        token = self.predict(input_data, temperature)
        self.tokens.append(int(token))
        if self.draws:
            logits = self.model.ort_session.run(None, input_data)[0]
            cdf = self.model.softmax(logits / temperature, axis=-1)[0, -1].astype(numpy.float64).cumsum()
            again = numpy.random.RandomState()
            again.set_state(state)
            self.margins.append(numpy.abs(cdf / cdf[-1] - again.random_sample()).min())
        return token


def run_official(module, model, file, controller, draws=False):
    recorded = Recorded(module, model, draws)
    driver = importlib.import_module(f"controllers.{controller}").Controller()
    costs = module.TinyPhysicsSimulator(recorded.model, file, controller=driver).rollout()
    # The first 80 draws are dropped, rows from 500 on do not count.
    return [float(costs[name]) for name in COSTS], recorded.tokens[80:480], recorded.margins[80:480]


def run_ours(options, files, *more):
    command = [options.program, "sim", "tinyphysics", options.model, *files, "--controller", options.controller,
               "--json", "--quiet", *more]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def compare(options, folder):
    files = make_routes(folder, options.count)
    module = official(options.official)
    answer = run_ours(options, files, "--out", folder / "ours", "--trajectories")
    same, worst, wrong = 0, 0.0, []
    for file, mine in zip(files, answer["routes"]):
        with open(folder / "ours/trajectories" / pathlib.Path(file).name) as rows:
            tokens = [int(row["token"]) for row in csv.DictReader(rows) if row["token"]]
        costs, theirs, _ = run_official(module, options.model, file, options.controller)
        worst = max([worst, *(abs(mine[name] / cost - 1) for name, cost in zip(COSTS, costs))])
        if tokens == theirs:
            same += 1
            continue
        at = next(i for i, pair in enumerate(zip(tokens, theirs)) if pair[0] != pair[1])
        margin = run_official(module, options.model, file, options.controller, draws=True)[2][at]
        off = max(abs(mine[name] / cost - 1) for name, cost in zip(COSTS, costs))
        print(f"{pathlib.Path(file).name}: row {100 + at}: token {tokens[at]}, official {theirs[at]}; the draw lies "
              f"{margin:.2e} from the bin's edge; costs differ by {off:.3%}")
        if not margin < 1e-5:
            wrong.append(file)
    print(f"{same} of {len(files)} routes have the official tokens one for one; costs differ by {worst:.3%} at most")
    return 4 if same < 0.98 * len(files) or wrong or worst > 0.01 else 0


def make_routes(folder, count):
    subprocess.run([sys.executable, NUMPY, "--routes", folder / "routes", "--count", str(count)], check=True)
    return [str(file) for file in sorted((folder / "routes").iterdir())]


def timed(work):
    """Wall time and processor time of this process and its children."""
    def cpu():
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)
    begin = time.monotonic(), cpu()
    work()
    return time.monotonic() - begin[0], cpu() - begin[1]


def measure(options, folder):
    files = make_routes(folder, options.count)
    cut = write_peer(options.model, 1024, True, folder / "cut.onnx")
    module = official(options.official)

    def script():
        for file in files[:options.official_routes]:
            run_plain(file)

    def run_plain(file):
        driver = importlib.import_module(f"controllers.{options.controller}").Controller()
        model = module.TinyPhysicsModel(str(options.model), debug=False)
        module.TinyPhysicsSimulator(model, file, controller=driver).rollout()

    # Not 1,024 names: if the command line is longer than 32 KiB, importing ONNX Runtime 1.30 ends with a segmentation
    # fault.
    def batched(threads):
        answer = json.loads(subprocess.run(
            [sys.executable, NUMPY, "--rollout", cut, *files, "--worlds", "1024", "--threads", str(threads),
             "--end", str(100 + options.peer_steps), "--controller", options.controller],
            check=True, capture_output=True, text=True).stdout)
        return [answer[name] / answer["network_steps"] * 400 for name in ("seconds", "cpu_seconds")]

    def ours(threads):
        more = ("--threads", threads, "--batch", options.batch)
        return [x / len(files) for x in timed(lambda: run_ours(options, files, *more))]

    ways = {"official script, 1 thread": lambda: [x / options.official_routes for x in timed(script)],
            "NumPy and ONNX Runtime, 1 thread": lambda: batched(1),
            "NumPy and ONNX Runtime, 2 threads": lambda: batched(2),
            "sparkpilot, 1 thread": lambda: ours(1), "sparkpilot, 2 threads": lambda: ours(2)}
    times = {name: [] for name in ways}
    for turn in range(options.rounds):
        for name in list(ways) if turn % 2 == 0 else reversed(list(ways)):
            times[name].append(ways[name]())
            print(f"round {turn + 1}: {name}: {times[name][-1][0] * 1000:.1f} ms a route, "
                  f"{times[name][-1][1] * 1000:.1f} ms of processor time", file=sys.stderr)

    def ratio(name, other, which):
        return statistics.median(a[which] / b[which] for a, b in zip(times[other], times[name]))
    print(f"{options.rounds} rounds, {len(files)} routes, batch {options.batch}; medians\n\n"
          "| | ms a route | of processor time | times official | NumPy and ONNX Runtime, equal threads |\n"
          "|---|---|---|---|---|")
    for name in ways:
        wall, cpu = (statistics.median(row[i] for row in times[name]) * 1000 for i in (0, 1))
        text = ["", ""]
        if name.startswith("sparkpilot"):
            others = ("official script, 1 thread", name.replace("sparkpilot", "NumPy and ONNX Runtime"))
            for i, other in enumerate(others):
                text[i] = f"{ratio(name, other, 0):.1f} ({ratio(name, other, 1):.1f} by processor time)"
        print(f"| {name} | {wall:.1f} | {cpu:.1f} | {text[0]} | {text[1]} |")
    if options.json:
        options.json.write_text(json.dumps(times, indent=1) + "\n")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--official", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--model", type=pathlib.Path, default=ASSETS / "tinyphysics.onnx")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/sparkpilot")
    parser.add_argument("--controller", choices=["pid", "zero"], default="pid")
    parser.add_argument("--count", type=int, default=200, help="routes (default 200)")
    parser.add_argument("--batch", default="16", help="as sparkpilot has it")
    parser.add_argument("--time", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--official-routes", type=int, default=8, help="that the official script runs in a round")
    parser.add_argument("--peer-steps", type=int, default=40, help="of 400, that the NumPy version runs (default 40)")
    parser.add_argument("--json", type=pathlib.Path, help="write every round's times")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return (measure if options.time else compare)(options, pathlib.Path(folder))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as problem:
        sys.exit(str(problem))
