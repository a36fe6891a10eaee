#!/usr/bin/env python3
"""TinyPhysics, of which a simulator reads the last position only, beside ONNX Runtime, in turns.

    .venv/bin/python bench/peers/tinyphysics.py [--processes N] [--batch N...] [--json F] [--page docs/benchmarks.md]

sparkpilot runs the file with `--output 'output[:, -1, :]'`. ONNX Runtime runs it as it is, and with a graph that was cut
by hand so that the final norm and the head see the last position only. As in compare_onnxruntime.py every figure is the
median over several processes of each one's median latency, and each engine counts with its own better number of
threads. Exit code 4 where outputs disagree. Needs the package onnx.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

import numpy
import onnx

from compare_onnxruntime import ASSETS, HERE, ROOT, machine, relative_l2, run

MARK = "<!-- table: tinyphysics.py -->"
TOLERANCE = {"fp32": 1e-5, "bf16": 5e-2}
LAST = "output[:, -1, :]"
HEAD = "/layer_norm_f/"


def write_peer(source, batch, cut, out):
    """The model for ONNX Runtime with its batch fixed; `cut`: with a Slice before the final norm."""
    model = onnx.load(source)
    graph = model.graph
    for value in [*graph.input, *graph.output]:
        value.type.tensor_type.shape.dim[0].dim_value = batch
    if cut:
        head = [node for node in graph.node if node.name.startswith(HEAD)]
        made = {name for node in head for name in node.output}
        weights = {value.name for value in graph.initializer}
        stream = {name for node in head for name in node.input} - made - weights
        if len(stream) != 1:
            raise RuntimeError(f"{source}: expected one value before {HEAD}, found {sorted(stream)}")
        whole, last = stream.pop(), "last_position"
        for name, number in (("starts", -1), ("ends", numpy.iinfo(numpy.int64).max), ("axes", 1)):
            graph.initializer.append(onnx.numpy_helper.from_array(numpy.array([number], numpy.int64), f"cut_{name}"))
        at = list(graph.node).index(head[0])
        for node in head:
            node.input[:] = [last if name == whole else name for name in node.input]
        graph.node.insert(at, onnx.helper.make_node("Slice", [whole, "cut_starts", "cut_ends", "cut_axes"], [last]))
        graph.output[0].type.tensor_type.shape.dim[1].dim_value = 1
    onnx.checker.check_model(model)
    onnx.save(model, out)
    return out


def theirs(file, threads, runs, *more):
    return json.loads(run([sys.executable, HERE / "peer_onnxruntime.py", file, "--threads", threads, "--runs", runs,
                           "--warmup", max(3, runs // 10), *more]))


def ours(options, precision, batch, threads, runs):
    return json.loads(run([options.program, "bench", options.model, "--output", LAST, "--batch", batch, "--json", "--repeats", "0",
                           "--threads", threads, "--runs", runs, "--warmup", max(3, runs // 10), "--precision",
                           precision]))["models"][0]


def error(options, precision, file, folder):
    """Relative L2 of the last position against ONNX Runtime's on the same inputs."""
    peer = theirs(file, 1, 1, "--save", folder)
    inputs = [word for i, name in enumerate(peer["inputs"]) for word in ("--input", f"{name}={folder}/in_{i}.npy")]
    answer = json.loads(run([options.program, "run", options.model, *inputs, "--output", LAST, "--output-dir",
                             folder / "ours", "--precision", precision, "--json"]))
    got, expected = numpy.load(answer["outputs"][0]["file"]), numpy.load(folder / "out_0.npy")[:, -1, :]
    return relative_l2(got.reshape(expected.shape), expected)


def measure(options, batch, files):
    engines = {f"sparkpilot {precision}": lambda threads, runs, p=precision: ours(options, p, batch, threads, runs)
               for precision in options.precision}
    engines |= {name: lambda threads, runs, f=file: theirs(f, threads, runs) for name, file in files.items()}
    runs = max(5, min(5000, int(1000 * options.seconds / theirs(files["whole"], 1, 3)["p50_ms"])))
    times = {name: {threads: [] for threads in options.threads} for name in engines}
    for turn in range(options.processes):
        for threads in options.threads:
            for name in list(engines) if turn % 2 == 0 else reversed(list(engines)):
                times[name][threads].append(engines[name](threads, runs)["p50_ms"])
    return times


def best(times):
    medians = {threads: statistics.median(values) for threads, values in times.items()}
    threads = min(medians, key=medians.get)
    return medians[threads], threads


def table(rows):
    lines = ["| batch | precision | sparkpilot ms (threads) | ONNX Runtime ms (threads) | ratio "
             "| the same with its head cut | ratio | relative L2 |", "|---|---|---|---|---|---|---|---|"]
    for row in rows:
        mine, whole, cut = row["sparkpilot"], row["whole"], row["cut"]
        lines.append(f"| {row['batch']:,} | {row['precision']} | {mine[0]:.3f} ({mine[1]}) | {whole[0]:.3f} ({whole[1]}) "
                     f"| {whole[0] / mine[0]:.2f} | {cut[0]:.3f} ({cut[1]}) | {cut[0] / mine[0]:.2f} "
                     f"| {row['relative_l2']:.1e} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, default=ASSETS / "controls_challenge/tinyphysics.onnx")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"], choices=list(TOLERANCE))
    parser.add_argument("--processes", type=int, default=5, help="processes of each engine (default 5)")
    parser.add_argument("--seconds", type=float, default=1.0, help="time of one process's runs (default 1)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/sparkpilot")
    parser.add_argument("--json", type=pathlib.Path, help="write everything measured here")
    parser.add_argument("--page", type=pathlib.Path, help="write the table into this page, between its marks")
    options = parser.parse_args()

    about, rows = machine(), []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for batch in options.batch:
            files = {name: write_peer(options.model, batch, name == "cut", folder / f"{name}_{batch}.onnx")
                     for name in ("whole", "cut")}
            times = measure(options, batch, files)
            for precision in options.precision:
                rows.append({"batch": batch, "precision": precision, "sparkpilot": best(times[f"sparkpilot {precision}"]),
                             "whole": best(times["whole"]), "cut": best(times["cut"]), "processes": times,
                             "relative_l2": error(options, precision, files["whole"], folder)})
    print(f"{about['cpu']}, {about['processors']} processors, {about['system']}; medians of {options.processes} "
          f"processes\n\n{table(rows)}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"machine": about, "rows": rows}, indent=1) + "\n")
    if options.page:
        head, mark, rest = options.page.read_text().partition(MARK)
        _, end, tail = rest.partition("<!-- end of table -->")
        if not end:
            sys.exit(f"{options.page}: no place for the table ({MARK})")
        options.page.write_text(f"{head}{mark}\n{table(rows)}\n{end}{tail}")
    wrong = [row for row in rows if not row["relative_l2"] <= TOLERANCE[row["precision"]]]
    for row in wrong:
        print(f"batch {row['batch']}, {row['precision']}: outputs differ by {row['relative_l2']:.1e}", file=sys.stderr)
    return 4 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as problem:
        sys.exit(str(problem))
