#!/usr/bin/env python3
"""Whether sparkpilot runs what ONNX Runtime's quantizer writes with QuantFormat.QOperator, and computes the same.

    .venv/bin/python bench/peers/check_qoperator.py [FILE...] [--json F]

Every network of floats is quantized by onnxruntime.quantization.quantize_static four ways: weights with a scale a tensor or
a channel, activations u8 or i8, from seeded random samples. ONNX Runtime and sparkpilot then run each file on a sample of
its own, sparkpilot in integers and in floats (--passes no-int8). An output that a DequantizeLinear makes is counted in its
steps. In sums of bytes (QLinearAdd) ONNX Runtime adds the zero point before it rounds, ONNX's QuantizeLinear after it: a
tie may fall to the other side, and in a deep network that one step travels. Exit code 4 where sparkpilot refuses a file or
an output is more than --steps off and its relative L2 is more than a tenth of what quantizing changed.

Without FILEs: the real networks of ../shared/assets where that folder is, and a network in the manner of MobileNetV2 that
is built here (mobile_network.py).
"""
import argparse
import collections
import json
import pathlib
import sys
import tempfile

import numpy
import onnx
import onnxruntime

from check_quantize import by_sparkpilot
from compare_onnxruntime import ASSETS, ROOT, relative_l2
from mobile_network import mobile_network, quantize
from peer_onnxruntime import make_inputs, open_session

REAL = ["openpilot_dm/dmonitoring_model_2021-06", "thirdparty/FastestDet", "thirdparty/ultraface_version-RFB-320_128",
        "thirdparty/ultraface_version-slim-320"]
WAYS = {"u8, weights by tensor": (False, False), "u8, weights by channel": (True, False),
        "i8, weights by tensor": (False, True), "i8, weights by channel": (True, True)}


def scales_of(model):
    """The step of each output that a DequantizeLinear makes."""
    constants = {c.name: onnx.numpy_helper.to_array(c) for c in model.graph.initializer}
    return {node.output[0]: float(constants[node.input[1]]) for node in model.graph.node
            if node.op_type == "DequantizeLinear" and node.input[1] in constants and constants[node.input[1]].size == 1}


def compare(ours, theirs, scales, steps_allowed, error_allowed):
    """The largest difference in steps, the share of elements that differ by one or more, the largest relative L2 of an
    output, and whether each output is within either limit."""
    steps, share, error, passed = 0.0, 0.0, 0.0, True
    for name, expected in theirs.items():
        if ours[name].shape != expected.shape or ours[name].dtype != expected.dtype:
            raise RuntimeError(f"output {name} is {ours[name].dtype}{ours[name].shape}, not "
                               f"{expected.dtype}{expected.shape}")
        distance, within = relative_l2(ours[name], expected), False
        if name in scales:
            off = numpy.rint(numpy.abs(ours[name].astype(numpy.float64) - expected) / scales[name])
            steps, share = max(steps, float(off.max())), max(share, float((off > 0).mean()))
            within = off.max() <= steps_allowed
        error, passed = max(error, distance), passed and (bool(within) or distance <= error_allowed)
    return {"steps": steps, "share": share, "relative_l2": error, "passed": passed}


def check(program, file, way, steps_allowed):
    per_channel, signed = WAYS[way]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        session = open_session(str(file), 1)
        names = [value.name for value in session.get_inputs()]
        samples = [dict(zip(names, make_inputs(session, seed))) for seed in range(1, 6)]
        out = folder / "qoperator.onnx"
        quantize(str(file), out, samples[:4], per_channel, signed)
        model = onnx.load(out)
        kinds = collections.Counter(node.op_type for node in model.graph.node if node.domain == "com.microsoft")
        inputs = samples[4]
        result = {"ops": dict(kinds)}
        floats = session.run(None, inputs)
        session = open_session(str(out), 1)
        theirs = dict(zip([value.name for value in session.get_outputs()], session.run(None, inputs)))
        result["cost"] = max(relative_l2(a, b) for a, b in zip(theirs.values(), floats))
        limits = scales_of(model), steps_allowed, result["cost"] / 10
        try:
            for name, words in {"integers": [], "floats": ["--passes", "no-int8"]}.items():
                result[name] = compare(by_sparkpilot(program, out, inputs, folder, *words), theirs, *limits)
        except RuntimeError as refusal:
            result["refused"] = str(refusal)
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--steps", type=float, default=1)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--sparkpilot", default=str(ROOT / "build" / "sparkpilot"))
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    results, bad = {}, 0
    with tempfile.TemporaryDirectory() as folder:
        files = arguments.files
        if not files:
            files = [pathlib.Path(folder) / "mobile_network.onnx"]
            onnx.save(mobile_network(), files[0])
            files += [ASSETS / f"{name}.onnx" for name in REAL if (ASSETS / f"{name}.onnx").is_file()]
        for file in files:
            for way in WAYS:
                result = results.setdefault(file.stem, {})[way] = check(arguments.sparkpilot, file, way, arguments.steps)
                if "refused" in result:
                    bad += 1
                    print(f"{file.stem}, {way}: REFUSED: {result['refused']}")
                    continue
                both = [result["integers"], result["floats"]]
                passed = all(each["passed"] for each in both)
                bad += not passed
                print(f"{file.stem}, {way}: {sum(result['ops'].values())} ops of com.microsoft; " + "; ".join(
                    f"in {name} at most {each['steps']:.0f} steps off, {100 * each['share']:.2g} % off, relative L2 "
                    f"{each['relative_l2']:.1e}" for name, each in zip(("integers", "floats"), both)) +
                    f" (quantizing cost {result['cost']:.1e}){'' if passed else '  FAILED'}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    return 4 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
