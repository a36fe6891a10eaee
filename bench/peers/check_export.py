#!/usr/bin/env python3
"""Whether ONNX Runtime loads what sparkpilot writes, and computes the same with it as with the original.

    .venv/bin/python bench/peers/check_export.py [FILE...] [--cases DIR] [--json F]

Every network is written anew by `sparkpilot model convert` in several ways (its own opset, the newest one that can be
written, simplified, with external data); ONNX Runtime runs the original and each copy on the same seeded inputs. It is also
written in every opset from 7 on, and what is not refused must pass ONNX's own checker (needs the package onnx). With
--cases every model below DIR (ONNX's backend cases, unpacked; needs the package onnx) is written once, and run on the
case's own inputs; what ONNX Runtime refuses as an original too, and what sparkpilot refuses to read, is counted apart. A
copy for which no opset was asked must have the original's. Exit code 4 where a copy is not loaded, is not valid or
differs, in its results or its opset; what sparkpilot refuses to write (an old op whose newer form depends on a shape that
is open) is listed with its reason.

Without FILEs: the real networks of ../shared/assets where that folder is, and the stand-in models.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnxruntime

from compare_onnxruntime import ROOT, find_models, relative_l2
from peer_onnxruntime import make_inputs, open_session

WAYS = {"own opset": [], "opset 26": ["--opset", "26"], "simplified": ["--simplify"],
        "simplified, opset 26": ["--simplify", "--opset", "26"], "external data": ["--external-data"]}


def convert(program, file, out, words):
    """Empty, or why the program would not write the file."""
    done = subprocess.run([program, "model", "convert", file, "--out", out, "--quiet", *words], capture_output=True,
                          text=True, check=False, timeout=300)
    if done.returncode not in (0, 2):
        raise RuntimeError(f"{file}: model convert ended with {done.returncode}: {done.stderr.strip()}")
    return done.stderr.strip() if done.returncode else ""


def outputs(file, inputs=None):
    """The outputs by name, and the inputs that gave them."""
    session = open_session(str(file), 1)
    inputs = make_inputs(session) if inputs is None else inputs
    names = [value.name for value in session.get_inputs()]
    if len(names) != len(inputs):
        raise RuntimeError(f"{len(names)} inputs, the original has {len(inputs)}")
    results = session.run(None, dict(zip(names, inputs)))
    return dict(zip([value.name for value in session.get_outputs()], results)), inputs


def difference(got, expected):
    """The largest relative L2 distance of an output; infinite where names, types or shapes differ."""
    if list(got) != list(expected):
        return float("inf")
    largest = 0.0
    for name, want in expected.items():
        have = got[name]
        if have.dtype != want.dtype or have.shape != want.shape:
            return float("inf")
        with numpy.errstate(all="ignore"):
            if numpy.array_equal(have, want, equal_nan=want.dtype.kind == "f"):
                continue
            largest = max(largest, relative_l2(have, want))
    return largest


def opset(program, file):
    info = subprocess.run([program, "model", "info", file, "--json"], capture_output=True, check=True).stdout
    return json.loads(info)["opsets"]["ai.onnx"]


def check_network(program, file, folder):
    """A row for each way to write the file: name, relative L2, how it ended, why."""
    expected, inputs = outputs(file)
    for way, words in WAYS.items():
        out = folder / f"{file.stem}.onnx"
        why = convert(program, file, out, words)
        if why:
            yield way, None, "refused", why
            continue
        if "--opset" not in words and opset(program, out) != opset(program, file):
            yield way, None, "OPSET", f"opset {opset(program, out)}, the original has {opset(program, file)}"
            continue
        try:
            yield way, difference(outputs(out, inputs)[0], expected), "written", ""
        except Exception as problem:  # whatever ONNX Runtime raises  # pylint: disable=broad-except
            yield way, None, "not loaded", str(problem)[:300]


def check_opsets(program, file, folder):
    """How many opsets of 7 to 26 the file is written in, and what ONNX's checker says of those that it does not accept."""
    import onnx  # pylint: disable=import-outside-toplevel
    written, wrong = 0, []
    for number in range(7, 27):
        out = folder / f"{file.stem}.onnx"
        if convert(program, file, out, ["--opset", str(number)]):
            continue
        written += 1
        try:
            onnx.checker.check_model(str(out), full_check=True)
        except Exception as problem:  # of several kinds  # pylint: disable=broad-except
            wrong.append(f"{number}: {str(problem).splitlines()[0][:200]}")
    return written, wrong


def check_case(program, file, folder, tolerance):
    """What became of one conformance model."""
    import onnx  # pylint: disable=import-outside-toplevel
    try:
        data = sorted((file.parent / "test_data_set_0").glob("input_*.pb"), key=lambda path: int(path.stem[6:]))
        expected, inputs = outputs(file, [onnx.numpy_helper.to_array(onnx.load_tensor(path)) for path in data])
    except Exception:  # pylint: disable=broad-except
        return "refused as an original", ""
    out = folder / "case.onnx"
    why = convert(program, file, out, [])
    if why:
        return "not read or written by sparkpilot", why
    try:
        error = difference(outputs(out, inputs)[0], expected)
    except Exception as problem:  # pylint: disable=broad-except
        return "not loaded", str(problem)[:300]
    return ("the same", "") if error <= tolerance else ("different", f"relative L2 {error:.2g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--cases", type=pathlib.Path, help="a folder with model.onnx files below it")
    parser.add_argument("--tolerance", type=float, default=1e-5,
                        help="largest relative L2 (default 1e-5; 2e-3 for a network with 16-bit weights)")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/sparkpilot")
    parser.add_argument("--json", type=pathlib.Path, help="write everything found here")
    options = parser.parse_args()

    onnxruntime.set_default_logger_severity(4)
    found, failed = {"engine": f"ONNX Runtime {onnxruntime.__version__}", "networks": [], "cases": {}}, 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = [file.resolve() for file in options.files]
        if not files and not options.cases:
            files = find_models(options.program)
        for file in files:
            info = json.loads(subprocess.run([options.program, "model", "info", file, "--json"], capture_output=True,
                                             check=True).stdout)
            half = info["weight_bytes"] < 3 * info["parameters"]
            tolerance = max(options.tolerance, 2e-3) if half else options.tolerance
            for way, error, outcome, why in check_network(options.program, file, folder):
                if outcome == "written":
                    outcome = "same" if error <= tolerance else "DIFFERENT"
                failed += outcome in ("not loaded", "DIFFERENT", "OPSET")
                found["networks"].append({"model": file.stem, "way": way, "outcome": outcome, "relative_l2": error,
                                          "why": why})
                print(f"{outcome:12}{file.stem:36}{way:24}{why or f'relative L2 {error:.1e}'}")
            written, wrong = check_opsets(options.program, file, folder)
            failed += len(wrong)
            found["networks"].append({"model": file.stem, "way": "every opset", "outcome": "INVALID" if wrong else "valid",
                                      "relative_l2": None, "why": "; ".join(wrong)})
            print(f"{'INVALID' if wrong else 'valid':12}{file.stem:36}{'every opset':24}{written} written {'; '.join(wrong)}")
        counts = collections.Counter()
        for file in sorted(options.cases.rglob("model.onnx")) if options.cases else []:
            outcome, why = check_case(options.program, file, folder, options.tolerance)
            counts[outcome] += 1
            if outcome in ("not loaded", "different"):
                failed += 1
                print(f"FAILED {file.parent.name}: {outcome}: {why}")
        for outcome, count in counts.items():
            print(f"{count:6} {outcome}")
        found["cases"] = dict(counts)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 4 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
