#!/usr/bin/env python3
"""What the rules of the op table lose against the best choice of kernels, and what `--tune full` loses.

    bench/kernel_choice.py MODEL... [--precision bf16] [--cpu avx2] [--threads 1,2] [--turns 12] [--entry]

Runs each model by the rules, as tuned, and with each kernel asked for wherever it accepts, in turns, each a process, at
one thread and at the number that `bench` chooses. A node's time with a kernel is the least of all runs of a half of the
turns, as whatever else the machine does only adds to it. The best kernel of each node is picked on every other turn; all
three choices are then held by the turns between them, so that what was picked for its luck loses it again. A loss is the
time of all nodes beside that of the picked ones; below 0: the pick was luck. `model` is the whole network's least time,
tuned beside the network by rules: the median over the turns.

--entry: where the rules lose at most 3 % everywhere, prints this processor's line for
src/runtime/cpu/measured_processors.inc and ends with 0, else with 1.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile

RULES, TUNED = "by rules", "tuned"
MOST_LOSS = 0.03  # of an entry


def run(options, arguments, **variables):
    command = [options.program, *arguments, "--json"]
    variables = dict(os.environ, SPARKPILOT_CPU=options.cpu, **variables)
    return json.loads(subprocess.run(command, capture_output=True, check=True, env=variables).stdout)


def environment(mode, cache):
    kernels = "" if mode in (RULES, TUNED) else mode
    tune = "auto" if mode == TUNED else "off"
    return {"SPARKPILOT_KERNELS": kernels, "SPARKPILOT_TUNE": tune, "XDG_CACHE_HOME": cache}


def trace(options, model, threads, mode, cache):
    """The nodes with their kernels and the least of their times in ms, and that of the whole network."""
    file = pathlib.Path(cache) / "trace.json"
    arguments = ["run", model, "--quiet", "--precision", options.precision, "--threads", str(threads)]
    arguments += ["--runs", str(options.runs), "--trace", str(file)]
    least = run(options, arguments, **environment(mode, cache))["min_ms"]
    events = [e for e in json.loads(file.read_text())["traceEvents"] if e["ph"] == "X"]
    nodes = {}  # the i-th of a run, its name, its op: kernel, ms
    each = len(events) // options.runs
    for i, e in enumerate(events):
        node = (i % each, e["name"], e["cat"])
        kernel, ms = nodes.get(node, (e["args"]["kernel"], float("inf")))
        nodes[node] = (kernel, min(ms, e["dur"] / 1e3))
    return nodes, least


def kernels_of(options, nodes):
    """The kernels that any op of the model has besides its reference, where it has several."""
    table = {}
    for op in run(options, ["ops", "list"])["ops"]:
        table[op["domain"] + "::" + op["name"] if op["domain"] else op["name"]] = op["kernels"]
    names = {}
    for _, _, op in nodes:
        own = [k for k in table.get(op, []) if k != "reference"]
        if len(own) > 1:
            names.update(dict.fromkeys(own))
    return list(names)


def losses(options, model, threads):
    """What rules and tuning lose, and the whole model's time tuned beside that by rules."""
    times = {}  # node: {kernel: ([ms of turns that pick], [ms of turns that judge])}
    taken = {RULES: {}, TUNED: {}}
    whole = {RULES: [], TUNED: []}
    with tempfile.TemporaryDirectory() as cache:
        modes = [RULES, TUNED] + kernels_of(options, trace(options, model, threads, RULES, cache)[0])
        arguments = ["run", model, "--quiet", "--precision", options.precision, "--threads", str(threads), "--tune"]
        load = {tune: run(options, arguments + [tune], SPARKPILOT_KERNELS="", XDG_CACHE_HOME=cache)["load_ms"]
                for tune in ("off", "full")}
        for turn in range(options.turns):
            for mode in modes if turn % 4 < 2 else modes[::-1]:
                nodes, least = trace(options, model, threads, mode, cache)
                if mode in whole:
                    whole[mode].append(least)
                    taken[mode] = {node: kernel for node, (kernel, _) in nodes.items()}
                for node, (kernel, ms) in nodes.items():
                    if mode == kernel or (mode == RULES and kernel not in modes):
                        times.setdefault(node, {}).setdefault(kernel, ([], []))[turn % 2].append(ms)
    best = by_rules = tuned = 0.0
    others = []
    for node, rules in taken[RULES].items():
        judged = {k: min(b) for k, (a, b) in times[node].items()}
        pick = min(judged, key=lambda k: min(times[node][k][0]))
        best += judged[pick]
        by_rules += judged[rules]
        tuned += judged[taken[TUNED][node]]
        others.append((judged[rules] - judged[pick], node, rules, taken[TUNED][node], pick, judged))
    if options.nodes:
        for loss, node, rules, own, pick, judged in sorted(others, key=lambda o: -o[0])[:options.nodes]:
            print(f"    {node[1][:44]:44} {node[2]:20} rules {rules}, tuned {own}, picked {pick}: "
                  + ", ".join(f"{k} {1e3 * t:.1f} us" for k, t in sorted(judged.items())))
    ratio = statistics.median(t / r for t, r in zip(whole[TUNED], whole[RULES]))
    return by_rules / best - 1, tuned / best - 1, ratio, load["full"] - load["off"]


def entry(options):
    """This processor as a line of measured_processors.inc."""
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    maker = fields.get("vendor_id", fields.get("CPU implementer", ""))
    design = int(fields.get("model", fields.get("CPU part", "0")), 0)
    isa = run(options, ["version"])["isa"]
    name = fields.get("model name", platform.processor())
    return f'{{"{maker}", {fields.get("cpu family", 0)}, {design}, {design}, "{isa}", "{name}"}},'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--cpu", default="auto")
    parser.add_argument("--precision", default="fp32")
    parser.add_argument("--threads", default="", help="numbers with commas; by default 1 and what bench chooses")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--nodes", type=int, default=0, help="print the N nodes on which the rules lose the most")
    parser.add_argument("--entry", action="store_true")
    parser.add_argument("--program", default="build/sparkpilot")
    options = parser.parse_args()
    worst = 0.0
    for model in options.models:
        chosen = 0
        if not options.threads:
            arguments = ["bench", model, "--quiet", "--runs", "3", "--repeats", "0", "--precision", options.precision]
            chosen = run(options, arguments, **environment(RULES, "/dev/null"))["models"][0]["threads"]
        for threads in [int(n) for n in options.threads.split(",")] if options.threads else sorted({1, chosen}):
            rules, tuned, whole, extra = losses(options, model, threads)
            worst = max(worst, rules)
            print(f"{pathlib.Path(model).name:40} {options.precision} {threads} thread{'s' if threads > 1 else ' '}: "
                  f"rules lose {100 * rules:5.1f} %, tuned {100 * tuned:5.1f} %; model {whole:.3f}; "
                  f"timing took {extra / 1e3:.2f} s", flush=True)
    if options.entry:
        if worst > MOST_LOSS:
            sys.exit(f"no entry: the rules lose {100 * worst:.1f} %, an entry is for at most {100 * MOST_LOSS:.0f} %")
        print(entry(options))


if __name__ == "__main__":
    main()
