#!/usr/bin/env python3
"""The speed of sparkpilot beside ONNX Runtime's, on the same machine, in turns.

    make bench                                              everything below with the models it finds
    .venv/bin/python bench/peers/compare_onnxruntime.py [FILE...] [--processes N] [--json F] [--page docs/benchmarks.md]

For every model and for 1 and 2 threads it starts the two engines one after the other, each in a process of its own,
several times over; a figure is the median over the processes of each one's median latency, and each engine counts with
its own better number of threads. Ratio: ONNX Runtime's time over ours, so above 1 sparkpilot is faster. p99 and the first
run after loading are sparkpilot's, over its median; medians over the processes too. Outputs of both engines on the same
inputs are compared as well. Exit code 4 where a model does not run, outputs disagree, or the mean misses --least.

Without FILEs: the real networks under ../shared/assets where that folder is, and the full-size stand-in models, which
are built into out/models first. --only convolutional leaves out those that are mostly matrices.
"""
import argparse
import json
import math
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

import numpy

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ASSETS = pathlib.Path(os.environ.get("SPARKPILOT_ASSETS", ROOT.parent / "shared/assets"))
REAL = ["openpilot_dm/dmonitoring_model_2021-06", "openpilot_dm/dmonitoring_model_v0.8.9_2021-08",
        "controls_challenge/tinyphysics", "thirdparty/FastestDet", "thirdparty/ultraface_version-RFB-320_128",
        "thirdparty/ultraface_version-slim-320", "wakeword/embedding_model", "wakeword/hey_comma"]
STAND_INS = ["driving_vision", "driving_policy", "driving_supercombo", "dmonitoring_model"]
NOT_CONVOLUTIONAL = {"tinyphysics", "hey_comma", "driving_policy"}


def run(command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}: exit code {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def relative_l2(got, expected):
    got, expected = got.astype(numpy.float64), expected.astype(numpy.float64)
    return float(numpy.linalg.norm(got - expected) / max(numpy.linalg.norm(expected), 1e-30))


class Engines:
    def __init__(self, program, precision):
        self.program, self.precision = program, precision

    def ours(self, file, threads, runs):
        """What `sparkpilot bench` says of one process."""
        answer = json.loads(run([self.program, "bench", file, "--json", "--repeats", "0", "--threads", threads, "--runs", runs,
                                 "--warmup", max(3, runs // 10), "--precision", self.precision]))
        return answer["models"][0]

    @staticmethod
    def theirs(file, threads, runs, *more):
        return json.loads(run([sys.executable, HERE / "peer_onnxruntime.py", file, "--threads", threads,
                               "--runs", runs, "--warmup", max(3, runs // 10), *more]))

    def tolerance(self, file):
        """The largest relative L2 error that the types of file and engine explain."""
        info = json.loads(run([self.program, "model", "info", file, "--json"]))
        half = info["weight_bytes"] < 3 * info["parameters"]
        return 5e-2 if self.precision == "bf16" else 1e-3 if half or self.precision == "fp16" else 1e-5

    def largest_error(self, file):
        """The largest relative L2 error of an output against ONNX Runtime's, on the same inputs."""
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            golden = next((ASSETS / "golden_ort" / name for name in (file.stem, f"{file.stem}_b1")
                           if (ASSETS / "golden_ort" / name).is_dir()), None)
            peer = self.theirs(file, 1, 1, "--save", folder, *(["--inputs", golden] if golden else []))
            inputs = [word for i, name in enumerate(peer["inputs"])
                      for word in ("--input", f"{name}={folder}/in_{i}.npy")]
            ours = json.loads(run([self.program, "run", file, *inputs, "--output-dir", folder / "ours", "--precision",
                                   self.precision, "--json"]))
            files = {output["name"]: output["file"] for output in ours["outputs"]}
            errors = []
            for i, name in enumerate(peer["outputs"]):
                got, expected = numpy.load(files[name]), numpy.load(folder / f"out_{i}.npy")
                if got.shape != expected.shape:
                    raise RuntimeError(f"{file}: output {name} is {got.shape}, ONNX Runtime gives {expected.shape}")
                errors.append(relative_l2(got, expected))
            return max(errors)


def find_models(program):
    files = [ASSETS / f"{name}.onnx" for name in REAL if (ASSETS / f"{name}.onnx").is_file()]
    if not files:
        print(f"{ASSETS} is not there: no real networks", file=sys.stderr)
    folder = ROOT / "out/models"
    missing = [name for name in STAND_INS if not (folder / f"{name}.onnx").is_file()]
    if missing:
        run([program, "zoo", "build", *missing, "--out", folder])
    return files + [folder / f"{name}.onnx" for name in STAND_INS]


def measure(engines, files, options):
    """Times in turns: for each round, model and number of threads first one engine, then the other, order swapped."""
    # One short look decides how many runs fill the time of a process.
    runs = {file: max(10, min(5000, int(1000 * options.seconds / engines.theirs(file, 1, 5)["p50_ms"])))
            for file in files}
    answers = {file: {"sparkpilot": {}, "onnxruntime": {}} for file in files}
    for turn in range(options.processes):
        for file in files:
            for threads in options.threads:
                pair = [("sparkpilot", engines.ours), ("onnxruntime", engines.theirs)]
                for name, engine in pair if turn % 2 == 0 else reversed(pair):
                    answers[file][name].setdefault(threads, []).append(engine(file, threads, runs[file]))
            if sys.stderr.isatty():
                print(f"\rround {turn + 1} of {options.processes}: {file.stem:<40}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 70 + "\r", end="", file=sys.stderr)
    return answers


def summarise(file, answers, error, tolerance):
    row = {"model": file.stem, "file": os.path.relpath(file, ROOT), "relative_l2": error, "tolerance": tolerance,
           "processes": {name: {threads: [answer["p50_ms"] for answer in answers_of]
                                for threads, answers_of in by_threads.items()}
                         for name, by_threads in answers.items()}}
    for name, by_threads in answers.items():
        medians = {threads: statistics.median(answer["p50_ms"] for answer in answers_of)
                   for threads, answers_of in by_threads.items()}
        best = min(medians, key=medians.get)
        row[name] = {"p50_ms": medians[best], "threads": best, "p50_ms_by_threads": medians}
        for key in ("p99", "first"):
            row[name][f"{key}_over_p50"] = statistics.median(answer[f"{key}_ms"] / answer["p50_ms"]
                                                             for answer in by_threads[best])
    row["ratio"] = row["onnxruntime"]["p50_ms"] / row["sparkpilot"]["p50_ms"]
    # A process that measured the machine's limit beside other work must not speak for the rest.
    ours = answers["sparkpilot"][row["sparkpilot"]["threads"]]
    for key in ("flops", "roofline_share", "peak_memory_bytes"):
        known = [answer[key] for answer in ours if answer.get(key) is not None]
        row[key] = statistics.median(known) if known else None
    return row


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def table(rows):
    lines = ["| model | sparkpilot ms (threads) | ONNX Runtime ms (threads) | ratio | p99 / p50 | first / p50 "
             "| share of the machine's limit | relative L2 |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        ours, theirs, share = row["sparkpilot"], row["onnxruntime"], row["roofline_share"]
        lines.append(f"| {row['model']} | {ours['p50_ms']:.3f} ({ours['threads']}) | {theirs['p50_ms']:.3f} "
                     f"({theirs['threads']}) | {row['ratio']:.2f} | {ours['p99_over_p50']:.2f} | "
                     f"{ours['first_over_p50']:.1f} | {'not measured' if share is None else f'{share:.0%}'} | "
                     f"{row['relative_l2']:.1e} |")
    lines.append(f"| **geometric mean** | | | **{geometric_mean([row['ratio'] for row in rows]):.2f}** | | | | |")
    return "\n".join(lines)


def machine():
    model = re.search(r"^(?:model name|Model)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = re.search(r'^PRETTY_NAME="?([^"\n]*)', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE)
    return {"cpu": model[1] if model else platform.machine(), "processors": len(os.sched_getaffinity(0)),
            "system": name[1] if name else platform.system(), "load_at_start": os.getloadavg()[0]}


def replace_table(page, text, precision):
    begin, end = f"<!-- table: compare_onnxruntime.py --precision {precision} -->", "<!-- end of table -->"
    head, mark, tail = page.read_text().partition(begin)
    _, stop, rest = tail.partition(end)
    if not mark or not stop:
        sys.exit(f"{page}: no place for the table ({begin} ... {end})")
    page.write_text(f"{head}{mark}\n{text}\n{stop}{rest}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--processes", type=int, default=5, help="processes of each engine (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of one process's runs (default 1)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--only", choices=["convolutional"], help="of the models that it finds")
    parser.add_argument("--precision", default="fp32", help="of sparkpilot; ONNX Runtime computes what the file says")
    parser.add_argument("--tolerance", type=float, help="largest relative L2 (default 1e-5; 1e-3 for a file with 16-bit "
                        "weights, whose intermediates ONNX Runtime rounds; 5e-2 for --precision bf16)")
    parser.add_argument("--least", type=float, help="exit with code 4 where the geometric mean is lower")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/sparkpilot")
    parser.add_argument("--json", type=pathlib.Path, help="write everything measured here")
    parser.add_argument("--page", type=pathlib.Path, help="write the table into this page, between its marks")
    options = parser.parse_args()

    engines = Engines(options.program, options.precision)
    about = machine()
    if about["load_at_start"] > 0.5:
        print(f"the machine is busy (load {about['load_at_start']:.1f}): the figures will say little", file=sys.stderr)
    files = [file.resolve() for file in options.files] or find_models(options.program)
    if options.only:
        files = [file for file in files if file.stem not in NOT_CONVOLUTIONAL]
    errors, refused = {}, {}
    for file in files:
        try:
            errors[file] = engines.largest_error(file)
        except RuntimeError as problem:
            refused[file] = str(problem)
            print(problem, file=sys.stderr)
    files = list(errors)
    if not files:
        return 4
    answers = measure(engines, files, options)
    rows = [summarise(file, answers[file], errors[file], options.tolerance or engines.tolerance(file))
            for file in files]
    peer = answers[files[0]]["onnxruntime"][options.threads[0]][0]["engine"]

    text = table(rows)
    print(f"{about['cpu']}, {about['processors']} processors, {about['system']}; sparkpilot {options.precision} beside "
          f"{peer}; medians of {options.processes} processes\n")
    print(text)
    mean = geometric_mean([row["ratio"] for row in rows])
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": about, "precision": options.precision, "models": rows,
                                            "not_run": {file.stem: why for file, why in refused.items()},
                                            "geometric_mean_ratio": mean}, indent=1) + "\n")
    if options.page:
        replace_table(options.page, text, options.precision)
    wrong = [row["model"] for row in rows if not row["relative_l2"] <= row["tolerance"]]
    if wrong:
        print(f"outputs differ by more than their tolerance: {', '.join(wrong)}", file=sys.stderr)
    return 4 if wrong or refused or (options.least is not None and mean < options.least) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as problem:
        sys.exit(str(problem))
