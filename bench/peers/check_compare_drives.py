#!/usr/bin/env python3
"""Whether `sparkpilot compare DRIVE DRIVE` prints what NumPy computes from the two drives' logs.

    .venv/bin/python bench/peers/check_compare_drives.py out/old out/new

Reads modelV2 of both with `sparkpilot route dump`, computes every term and decision of docs/compare.md, and compares them
with `sparkpilot compare --json`. Exit code 4 if one differs.
"""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def output_of(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def models(program, drive):
    lines = output_of(program, "route", "dump", "modelV2", "--quiet", drive).splitlines()
    return {record["frameId"]: record for record in (json.loads(line)["modelV2"] for line in lines)}


def at(points, axis, seconds):
    """The cubic through the points: Hermite, with the slopes of the parabolas through three neighbours."""
    t, y = numpy.array(points["t"], float), numpy.array(points[axis], float)
    if len(t) != len(y) or len(t) < 2 or not t[0] <= seconds <= t[-1]:
        return None
    lines = numpy.diff(y) / numpy.diff(t)
    widths = numpy.diff(t)
    slopes = numpy.empty_like(y)
    slopes[0], slopes[-1] = lines[0], lines[-1]
    slopes[1:-1] = (lines[:-1] * widths[1:] + lines[1:] * widths[:-1]) / (widths[:-1] + widths[1:])
    i = min(numpy.searchsorted(t, seconds, side="right") - 1, len(t) - 2)
    s, h = (seconds - t[i]) / widths[i], widths[i]
    return ((2 * s**3 - 3 * s**2 + 1) * y[i] + (s**3 - 2 * s**2 + s) * h * slopes[i] +
            (3 * s**2 - 2 * s**3) * y[i + 1] + (s**3 - s**2) * h * slopes[i + 1])


def plan(a, b, seconds):
    values = [at(record["position"], axis, seconds) for axis in "xy" for record in (a, b)]
    return None if None in values else numpy.hypot(values[0] - values[1], values[2] - values[3])


def lane(a, b, line):
    if not b["laneLineProbs"][line] >= 0.5:
        return None
    near = numpy.array(b["laneLines"][line]["x"]) <= 30
    return 100 * numpy.abs(numpy.array(a["laneLines"][line]["y"]) - numpy.array(b["laneLines"][line]["y"]))[near].mean()


def lead(a, b, what):
    leads = [record["leadsV3"][0] for record in (a, b)]
    return abs(leads[0][what][0] - leads[1][what][0]) if all(one["prob"] >= 0.5 for one in leads) else None


def action(a, b, what):
    return abs(a["action"][what] - b["action"][what])


TERMS = {f"plan at {s} s": lambda a, b, s=s: plan(a, b, s) for s in (1, 2, 4, 6)} | {
    "left lane line": lambda a, b: lane(a, b, 1), "right lane line": lambda a, b: lane(a, b, 2),
    "curvature": lambda a, b: action(a, b, "desiredCurvature"),
    "acceleration": lambda a, b: action(a, b, "desiredAcceleration"),
    "lead distance": lambda a, b: lead(a, b, "x"), "lead speed": lambda a, b: lead(a, b, "v")}
DECISIONS = {"desire": lambda r: int(numpy.argmax(r["meta"]["desireState"])),
             "lead": lambda r: r["leadsV3"][0]["prob"] >= 0.5, "engaged": lambda r: r["meta"]["engagedProb"] >= 0.5,
             "stop": lambda r: r["action"]["shouldStop"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first", type=pathlib.Path)
    parser.add_argument("second", type=pathlib.Path)
    parser.add_argument("--sparkpilot", default=str(ROOT / "build" / "sparkpilot"))
    arguments = parser.parse_args()
    theirs, ours = models(arguments.sparkpilot, arguments.first), models(arguments.sparkpilot, arguments.second)
    both = sorted(set(theirs) & set(ours))
    compared = json.loads(output_of(arguments.sparkpilot, "compare", "--json", "--quiet", arguments.first,
                                    arguments.second))["drives"][1]
    bad = int([compared["frames"], compared["only_here"], compared["only_in_first"]] !=
              [len(both), len(ours) - len(both), len(theirs) - len(both)])
    for term in compared["terms"]:
        measure = TERMS[term["name"]]
        at_frames = {i: value for i in both if (value := measure(ours[i], theirs[i])) is not None}
        values = sorted(at_frames.values())
        only = sum(i not in at_frames and measure(theirs[i], theirs[i]) is not None for i in both)
        expected, got = [len(values), only], [term["frames"], term["only_in_first"]]
        if values:
            rank = int(numpy.ceil(0.99 * len(values) - 1e-9))
            expected += [numpy.mean(values), values[max(rank, 1) - 1], values[-1], at_frames[term["worst_frame"]]]
            got += [term["mean"], term["p99"], term["max"], term["max"]]
        same = len(got) == len(expected) and numpy.allclose(got, expected, rtol=1e-4, atol=1e-9)
        bad += not same
        print(f"{term['name']}: {got}, NumPy: {[float(v) for v in expected]}{'' if same else '  DIFFERS'}")
    for decision in compared["decisions"]:
        decide = DECISIONS[decision["name"]]
        expected = [i for i in both if decide(ours[i]) != decide(theirs[i])]
        same = decision["flipped_frames"] == expected and decision["frames"] == len(both)
        bad += not same
        print(f"{decision['name']}: {len(expected)} flips of {len(both)}{'' if same else '  DIFFERS'}")
    return 4 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
