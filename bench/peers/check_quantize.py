#!/usr/bin/env python3
"""Whether ONNX Runtime loads what `sparkpilot model quantize --int8` writes, and computes the same with it.

    .venv/bin/python bench/peers/check_quantize.py [FILE...] [--calibrate DIR --held-out DIR] [--plain] [--json F]

Every network is quantized with samples of its inputs: the .npy files of `--calibrate` for networks with one input, else
seeded random numbers. The written file then runs in ONNX Runtime and in sparkpilot, with and without integers, on
samples that were not calibrated with: those of `--held-out`, else random numbers of other seeds. What is printed is the
largest over these samples. A byte may be a step off where a product is a tie to within its rounding, and such steps
travel, so outputs agree to what quantizing itself cost. Exit code 4 where ONNX Runtime refuses a file or the two differ
by more.

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
RANDOM_SAMPLES = 5  # held out, where no folder is given


def run(program, *words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=False)


def samples_of(file, folder, options):
    """What --calibrate is to be given, and samples of every input by name that are held out."""
    session = open_session(str(file), 1)
    names = [value.name for value in session.get_inputs()]
    if options.calibrate and len(names) == 1:
        return [str(options.calibrate)], [{names[0]: numpy.load(path)} for path in sorted(options.held_out.glob("*.npy"))]
    words = []
    for name, value in zip(names, make_inputs(session)):
        path = folder / f"{len(words)}.npy"
        numpy.save(path, value)
        words.append(f"{name}={path}")
    return words, [dict(zip(names, make_inputs(session, seed))) for seed in range(2, 2 + RANDOM_SAMPLES)]


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


def check(program, file, options):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        words, held_out = samples_of(file, folder, options)
        out = str(folder / "int8.onnx")
        flags = [flag for word in words for flag in ("--calibrate", word)] + ["--plain"] * options.plain
        done = run(program, "model", "quantize", "--int8", str(file), out, "--json", *flags)
        if done.returncode == 2:
            return {"refused": done.stderr.strip()}
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        exact, session = open_session(str(file), 1), open_session(out, 1)
        names = [value.name for value in session.get_outputs()]
        worst = {"samples": len(held_out), "cost": 0.0, "integers": 0.0, "floats": 0.0}
        for inputs in held_out:
            theirs = dict(zip(names, session.run(None, inputs)))
            ours = by_sparkpilot(program, out, inputs, folder)
            plain = by_sparkpilot(program, out, inputs, folder, "--passes", "no-int8")
            cost = max(relative_l2(a, b) for a, b in zip(theirs.values(), exact.run(None, inputs)))
            for key, value in (("cost", cost), ("integers", max(relative_l2(ours[k], theirs[k]) for k in theirs)),
                               ("floats", max(relative_l2(plain[k], theirs[k]) for k in theirs))):
                worst[key] = max(worst[key], float(value))
        return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*")
    parser.add_argument("--calibrate", type=pathlib.Path, help="a folder of .npy files")
    parser.add_argument("--held-out", type=pathlib.Path, help="another one, to compare on")
    parser.add_argument("--plain", action="store_true", help="quantize without equalising and correcting")
    parser.add_argument("--json")
    parser.add_argument("--sparkpilot", default=str(ROOT / "build" / "sparkpilot"))
    arguments = parser.parse_args()
    if (arguments.calibrate is None) != (arguments.held_out is None):
        parser.error("--calibrate and --held-out go together")
    results, bad = {}, 0
    for file in arguments.files or find_models(arguments.sparkpilot):
        result = check(arguments.sparkpilot, pathlib.Path(file), arguments)
        results[str(file)] = result
        if "refused" in result:
            print(f"{pathlib.Path(file).name}: refused: {result['refused']}")
            continue
        allowed = max(LEAST, SHARE * result["cost"])
        passed = max(result["integers"], result["floats"]) <= allowed
        bad += not passed
        print(f"{pathlib.Path(file).name}: the worst of {result['samples']} held-out samples: quantizing cost "
              f"{result['cost']:.2e}; from ONNX Runtime: in integers {result['integers']:.2e}, in floats "
              f"{result['floats']:.2e}, allowed {allowed:.2e}{'' if passed else '  FAILED'}")
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 4 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
