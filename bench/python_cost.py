#!/usr/bin/env python3
"""What Python adds: to a run of a session, to a step of 4,096 simulated worlds, to reading a log; and what its imports take.

    PYTHONPATH=build/python bench/python_cost.py [--worlds 4096] [--seconds 20] [--repeats 15]

A run of a graph that adds two numbers is nearly nothing but the way there and back, so its time is the most that Python
adds to any run. It is timed in many short turns, as other processes would delay long ones. A step is timed in turns: the
library's function with ready pointers, sparkpilot.worlds, and sparkpilot.gym where gymnasium is installed. A log is one that
the program makes, of --seconds. Imports are timed in fresh processes, in turns. Medians.
"""
import argparse
import ctypes
import importlib.util
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import sparkpilot
from sparkpilot.worlds import Worlds


def time_of(work, count):
    begin = time.perf_counter_ns()
    for _ in range(count):
        work()
    return (time.perf_counter_ns() - begin) / count


def in_turns(works, repeats, count):
    """Name -> median nanoseconds of a call."""
    times = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(time_of(work, count))
    return {name: statistics.median(all_of) for name, all_of in times.items()}


def runs(repeats):
    b = sparkpilot.Builder()
    x = b.input("x", "float32", (2,))
    b.output(x + x, "y")
    session = sparkpilot.Session(b.model(), threads=1)
    given = np.ones(2, np.float32)
    session(x=given)
    works = {"session.run()": session.run, "session.inputs[name]": lambda: session.inputs["x"],
             "session.outputs[name]": lambda: session.outputs["y"], "session(x=array)": lambda: session(x=given),
             "an empty Python function": lambda: None}
    for name, ns in in_turns(works, 40 * repeats, 200).items():
        print(f"{name:28} {ns / 1000:7.2f} us")


def steps(worlds, repeats):
    print(f"{worlds} worlds, 10 ms x 5 a step")
    options = {"scenarios": "all", "seed": 1}
    plain, kept, reused = Worlds(worlds, **options), Worlds(worlds, **options), Worlds(worlds, reuse=True, **options)
    actions = np.zeros((worlds, 1), np.float32)
    for env in (plain, kept, reused):
        env.reset(seed=1)
    arrays = plain._new_arrays()
    buffers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    function, handle, pointer = plain._library.sparkpilot_sim_step, plain._handle, actions.ctypes.data
    works = {"the library alone": lambda: function(handle, pointer, buffers), "Worlds.step": lambda: kept.step(actions),
             "Worlds.step, reuse": lambda: reused.step(actions)}
    if importlib.util.find_spec("gymnasium"):
        from sparkpilot.gym import SimVectorEnv
        env = SimVectorEnv(worlds, reuse=True, **options)
        env.reset(seed=1)
        works["SimVectorEnv.step, reuse"] = lambda: env.step(actions)
    medians = in_turns(works, repeats, 10)
    for name, ns in medians.items():
        share = medians["the library alone"] / ns
        print(f"{name:28} {ns / 1e6:7.2f} ms  {worlds * 1e9 / ns / 1e6:6.2f} million worlds a second  {share:5.2f} of the library")


def logs(seconds, repeats):
    with tempfile.TemporaryDirectory() as folder:
        sparkpilot.run("route synth", out=folder, seconds=seconds, no_video=True, quiet=True)
        segment, = pathlib.Path(folder).iterdir()
        log = sparkpilot.LogReader(segment)
        count, states = sum(1 for _ in log), list(log.filter("carState"))
        print(f"a log of {seconds} s: {count} events, {len(states)} of carState")
        works = {"LogReader, each event": lambda: sum(1 for _ in log),
                 "its kind and time, too": lambda: [(event.which(), event.logMonoTime) for event in log],
                 "LogReader.filter, vEgo": lambda: [state.vEgo for state in log.filter("carState")]}
        for name, ns in in_turns(works, repeats, 1).items():
            print(f"{name:28} {ns / 1e6:7.2f} ms")
        plan = log.first("modelV2").position
        works = {"struct.field": lambda: states[0].vEgo, "struct.to_dict()": states[0].to_dict,
                 "numpy.asarray(list of 33)": lambda: np.asarray(plan.x), "list(list of 33)": lambda: list(plan.x)}
        for name, ns in in_turns(works, 10 * repeats, 50).items():
            print(f"{name:28} {ns / 1000:7.2f} us")


def imports(repeats):
    works = {f"import {name}": f"import {name}" for name in ("numpy", "sparkpilot")}
    works.update({f"and sparkpilot.{name}": f"import sparkpilot; sparkpilot.{name}" for name in ("run", "LogReader")})
    timed = "import sys, time; t = time.perf_counter_ns(); exec(sys.argv[1]); print(time.perf_counter_ns() - t)"
    times = {name: [] for name in works}
    for _ in range(repeats):
        for name, code in works.items():
            done = subprocess.run([sys.executable, "-c", timed, code], capture_output=True, text=True, check=True)
            times[name].append(int(done.stdout))
    for name, all_of in times.items():
        print(f"{name:28} {statistics.median(all_of) / 1e6:7.2f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=4096)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    runs(options.repeats)
    steps(options.worlds, options.repeats)
    logs(options.seconds, options.repeats)
    imports(options.repeats)


if __name__ == "__main__":
    main()
