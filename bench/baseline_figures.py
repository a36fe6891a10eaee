#!/usr/bin/env python3
"""How often `bench --baseline` is wrong: a program against itself, and against a baseline that was 8 % faster.

    baseline_figures.py MODEL [--in-turns] [--threads N] [--baselines 100] [--slower 40] [--factor 1.08] [--apart 5]
                        [--json FILE]

Each run measures MODEL, is compared with the baseline that the run `--apart` before it wrote, and is itself a baseline
for a later one: nothing has changed in between, so each regression that is reported is an error. After every few runs
one is compared with such a baseline whose model times are divided by the factor: now the model is that much slower, and
each regression that is not reported is an error. The program's own limit is 5 %. Prints both counts and, for each kind
of run, the reported ratios and intervals. Times do not decide anything here: the program's exit codes are counted.

With --in-turns the baseline is no file: `bench --peer PROGRAM --max-regression 5%` runs the same program as its own peer,
then with a clock that runs slower by the factor.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

NO_REGRESSION, REGRESSION = 0, 4


def bench(options, out, baseline=None):
    """Runs the program; its exit code and its JSON, which is also written to `out`."""
    words = [options.program, "bench", options.model, "--threads", options.threads, "--json", "--quiet", "--runs", "20"]
    if baseline:
        words += ["--baseline", baseline, "--max-regression", options.max_regression]
    answer = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if answer.returncode not in (NO_REGRESSION, REGRESSION):
        sys.exit(answer.stderr)
    out.write_text(answer.stdout)
    return answer.returncode, json.loads(answer.stdout)


def against_file(options, out, baseline):
    """The program against a baseline; its exit code and what it found."""
    code, document = bench(options, out, baseline)
    return code, document["models"][0]["baseline"]


# A clock that runs slower by the factor, for LD_PRELOAD: what is timed by it seems that much faster. A process between the
# two programs, which changes the numbers, would disturb the peer's caches and processors.
SLOW_CLOCK = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec* at) {{
  static int (*real)(clockid_t, struct timespec*);
  if (!real) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int code = real(clock, at);
  const double ns = (at->tv_sec * 1e9 + at->tv_nsec) / {factor};
  at->tv_sec = (time_t)(ns / 1e9);
  at->tv_nsec = (long)(ns - at->tv_sec * 1e9);
  return code;
}}
"""


def faster_program(folder, program, factor):
    """A file that runs the program with such a clock."""
    source, library, script = folder / "clock.c", folder / "clock.so", folder / "faster"
    source.write_text(SLOW_CLOCK.format(factor=factor))
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    script.write_text(f"#!/bin/sh\nLD_PRELOAD='{library}' exec '{program}' \"$@\"\n")
    script.chmod(0o755)
    return script


def in_turns(options, peer):
    """The program against a peer; its exit code and what it found."""
    words = [options.program, "bench", options.model, "--threads", options.threads, "--json", "--quiet", "--runs", "1",
             "--peer", peer, "--max-regression", options.max_regression]
    answer = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if answer.returncode not in (NO_REGRESSION, REGRESSION):
        sys.exit(answer.stderr)
    found = json.loads(answer.stdout)["models"][0]["peers"][0]["check"]
    return answer.returncode, {**found, "repeats_now": found["repeats"], "used_now": found["repeats"], "doubts": []}


def faster(baseline, factor, out):
    """The same baseline with all times of the model divided by `factor`."""
    document = json.loads(baseline.read_text())
    for model in document["models"]:
        for process in model["repeats"]["processes"]:
            process["model_ms"] = [ms / factor for ms in process["model_ms"]]
    out.write_text(json.dumps(document))
    return out


class Series:
    """The results of one kind of run."""

    def __init__(self, title):
        self.title, self.rows = title, []

    def add(self, code, found, seconds):
        ratio = found["time_ratio"]
        self.rows.append({"code": code, "verdict": found["verdict"], "ratio": ratio["ratio"], "low": ratio["low"],
                          "high": ratio["high"], "repeats": found["repeats_now"], "used": found["used_now"],
                          "doubts": found["doubts"], "seconds": seconds, "load": os.getloadavg()[0]})

    def report(self):
        if not self.rows:
            return
        verdicts = [row["verdict"] for row in self.rows]
        assert all((row["code"] == REGRESSION) == (row["verdict"] == "regression") for row in self.rows)
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("regression", "passed", "cannot_tell"))
        print(f"{self.title}: {len(self.rows)} runs: {counts}")
        told = [row for row in self.rows if row["ratio"] and not row["doubts"]]
        if told:
            ratios = sorted(row["ratio"] for row in told)
            widths = [(row["high"] - row["low"]) / 2 for row in told]
            print(f"  ratio: median {statistics.median(ratios):.3f}, {ratios[0]:.3f} to {ratios[-1]:.3f}; "
                  f"half the interval: median {statistics.median(widths):.3f}, at most {max(widths):.3f}")
        print(f"  repeats: median {statistics.median(row['repeats'] for row in self.rows):g}, undisturbed "
              f"{100 * sum(row['used'] for row in self.rows) / sum(row['repeats'] for row in self.rows):.0f} %; seconds: median "
              f"{statistics.median(row['seconds'] for row in self.rows):.0f}; load: median "
              f"{statistics.median(row['load'] for row in self.rows):.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    parser.add_argument("--program", default="build/sparkpilot")
    parser.add_argument("--threads", default=1)
    parser.add_argument("--baselines", type=int, default=100)
    parser.add_argument("--slower", type=int, default=40)
    parser.add_argument("--factor", type=float, default=1.08)
    parser.add_argument("--max-regression", default="5%")
    parser.add_argument("--apart", type=int, default=5)
    parser.add_argument("--in-turns", action="store_true", help="against a program instead of a file")
    parser.add_argument("--json", type=pathlib.Path, help="write each run's result")
    parser.add_argument("--keep", help="folder for the program's own JSON")
    options = parser.parse_args()
    same, slower = Series("the same program"), Series(f"the baseline {options.factor} times as fast")

    def timed(series, measure, *words):
        start = time.monotonic()
        code, found = measure(options, *words)
        series.add(code, found, time.monotonic() - start)

    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(options.keep or temporary)
        folder.mkdir(exist_ok=True)
        if options.in_turns:
            program = pathlib.Path(options.program).resolve()
            peer = faster_program(folder, program, options.factor)
            measure_same = lambda i: timed(same, in_turns, program)
            measure_slower = lambda i: timed(slower, in_turns, peer)
        else:
            files = [folder / f"{i}.json" for i in range(options.baselines + options.apart)]
            for file in files[:options.apart]:
                bench(options, file)
            measure_same = lambda i: timed(same, against_file, files[i + options.apart], files[i])
            measure_slower = lambda i: timed(slower, against_file, folder / "now.json", faster(
                files[i % options.baselines], options.factor, folder / "then.json"))
        try:
            for i in range(max(options.baselines, options.slower)):
                if i < options.baselines:
                    measure_same(i)
                due = options.slower * (i + 1) / options.baselines
                if len(slower.rows) < min(due, options.slower):
                    measure_slower(i)
                if options.json:
                    options.json.write_text(json.dumps({"same": same.rows, "slower": slower.rows}))
        except KeyboardInterrupt:
            print("interrupted:")
    same.report()
    slower.report()


if __name__ == "__main__":
    main()
