#!/usr/bin/env python3
"""Whether ONNX Runtime loads what `sparkpilot model quantize --int8` writes, and computes the same with it.

    .venv/bin/python bench/peers/check_quantize.py [FILE...] [--samples DIR] [--json F]

Every network is quantised with samples of its inputs (the .npy files of DIR for networks with one input, else seeded
random numbers). The written file then runs in ONNX Runtime and in sparkpilot, with and without integers, on a sample of
its own. A byte may be a step off where a product is a tie to within its rounding, and such steps travel, so outputs
agree to what quantising itself cost. Exit code 4 where ONNX Runtime refuses a file or the two differ by more.

Without FILEs: the real networks of ../shared/assets where that folder is, and the stand-in models.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy

from compare_onnxruntime import ROOT, find_models, relative_l2
from peer_onnxruntime import make_inputs, open_session

SHARE, LEAST = 1.0, 1e-3  # of the error against the floats; where that is small


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def samples_of(file, folder, given):
    """Calibration samples by input, and one sample to compare with."""
    session = open_session(str(file), 1)
    names = [value.name for value in session.get_inputs()]
    if given and len(names) == 1:
        files = sorted(pathlib.Path(given).glob("*.npy"))
        return [str(given)], {names[0]: numpy.load(files[-1])}
    words = []
    for name, value in zip(names, make_inputs(session)):
        path = folder / f"{len(words)}.npy"
        numpy.save(path, value)
        words.append(f"{name}={path}")
    return words, dict(zip(names, make_inputs(session)))


def by_sparkpilot(program, file, inputs, folder, *words):
    flags = []
    for i, (name, value) in enumerate(inputs.items()):
        numpy.save(folder / f"in{i}.npy", value)
        flags += ["--input", f"{name}={folder / f'in{i}.npy'}"]
    out = folder / "out"
    done = run(program, "run", file, "--quiet", "--json", "--output-dir", str(out), *flags, *words)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return {output["name"]: numpy.load(output["file"]) for output in json.loads(done.stdout)["outputs"]}


def check(program, file, given):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words, inputs = samples_of(file, folder, given)
        out = str(folder / "int8.onnx")
        flags = [flag for word in words for flag in ("--calibrate", word)]
        done = run(program, "model", "quantize", "--int8", str(file), out, "--json", "--plain", *flags)
        if done.returncode == 2:
            return {"refused": done.stderr.strip()}
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        floats = open_session(str(file), 1).run(None, inputs)
        session = open_session(out, 1)
        theirs = dict(zip([value.name for value in session.get_outputs()], session.run(None, inputs)))
        ours = by_sparkpilot(program, out, inputs, folder)
        plain = by_sparkpilot(program, out, inputs, folder, "--passes", "no-int8")
        cost = max(relative_l2(a, b) for a, b in zip(theirs.values(), floats))
        return {"cost": cost, "integers": max(relative_l2(ours[k], theirs[k]) for k in theirs),
                "floats": max(relative_l2(plain[k], theirs[k]) for k in theirs)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--samples")
    parser.add_argument("--json")
    parser.add_argument("--sparkpilot", default=str(ROOT / "build" / "sparkpilot"))
    arguments = parser.parse_args()
    results, bad = {}, 0
    for file in arguments.files or find_models(arguments.sparkpilot):
        result = check(arguments.sparkpilot, pathlib.Path(file), arguments.samples)
        results[str(file)] = result
        if "refused" in result:
            print(f"{pathlib.Path(file).name}: refused: {result['refused']}")
            continue
        allowed = max(LEAST, SHARE * result["cost"])
        passed = max(result["integers"], result["floats"]) <= allowed
        bad += not passed
        print(f"{pathlib.Path(file).name}: quantising cost {result['cost']:.2e}; from ONNX Runtime: in integers "
              f"{result['integers']:.2e}, in floats {result['floats']:.2e}, allowed {allowed:.2e}"
              f"{'' if passed else '  FAILED'}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 4 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
