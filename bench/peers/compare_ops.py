#!/usr/bin/env python3
"""Single ops beside ONNX Runtime's, on one thread, in turns.

    .venv/bin/python bench/peers/compare_ops.py [--filter TEXT] [--rounds N]

For each op, element type and pair of shapes below, a model of that one node, run by both engines in processes of their own;
a figure is the median over the rounds of each process's median. Ratio: ONNX Runtime's time over ours, so above 1 sparkpilot
is faster. What ONNX Runtime has no kernel for is left out. A run costs ONNX Runtime some microseconds whatever the node
does, so shapes are large enough that this does not speak.
"""
import argparse
import pathlib
import statistics
import sys
import tempfile

import onnx
from onnx import TensorProto, helper

from compare_onnxruntime import ROOT, Engines

SAME, ROWS, CHANNELS, SCALAR = "same", "rows", "channels", "scalar"
SHAPES = {SAME: ([256, 1024], [256, 1024]), ROWS: ([256, 1024], [1024]), CHANNELS: ([64, 4096], [64, 1]),
          SCALAR: ([256, 1024], [])}
TYPES = {"u8": TensorProto.UINT8, "i8": TensorProto.INT8, "i32": TensorProto.INT32, "i64": TensorProto.INT64,
         "bool": TensorProto.BOOL, "f32": TensorProto.FLOAT}


def cases():
    """(op, attributes, type, input shapes, output shape, output type, constants)"""
    for op, types in {"Add": ["u8", "i32", "i64"], "Sub": ["u8", "i32"], "Mul": ["u8", "i32", "i64"], "Div": ["i32"],
                      "Max": ["i32", "u8"], "Min": ["i64"], "And": ["bool"], "Xor": ["bool"],
                      "BitwiseAnd": ["u8", "i32"], "Equal": ["i64"], "Mod": ["i64"]}.items():
        for dtype in types:
            for shapes in SHAPES:
                out = "bool" if op == "Equal" else dtype
                yield op, {}, dtype, list(SHAPES[shapes]), SHAPES[shapes][0], out, [], shapes
    for op, dtype in [("Not", "bool"), ("BitwiseNot", "u8"), ("Abs", "i32"), ("Neg", "i32"), ("Sign", "i32"),
                      ("Relu", "i32")]:
        yield op, {}, dtype, [[256, 1024]], [256, 1024], dtype, [], SAME
    for op in ["ReduceSum", "ReduceMax", "ReduceMean"]:
        for axis, name in [(1, "rows"), (0, "columns")]:
            for dtype in ["i32", "i64", "f32"]:
                yield op, {"keepdims": 1}, dtype, [[256, 1024]], [256, 1] if axis else [1, 1024], dtype, [axis], name
    for dtype in ["i32", "f32"]:
        yield "ArgMax", {"axis": 1}, dtype, [[256, 1024]], [256, 1], "i64", [], "rows"
    for width in [4, 8, 16, 24, 32, 64, 100]:
        yield "Softmax", {"axis": -1}, "f32", [[65536 // width, width]], [65536 // width, width], "f32", [], f"of {width}"


def write(path, op, attributes, dtype, inputs, output, out_type, axes):
    names = [f"x{i}" for i in range(len(inputs))]
    values = [helper.make_tensor_value_info(n, TYPES[dtype], s) for n, s in zip(names, inputs)]
    constants = [helper.make_tensor("axes", TensorProto.INT64, [len(axes)], axes)] if axes else []
    node = helper.make_node(op, names + (["axes"] if axes else []), ["y"], **attributes)
    graph = helper.make_graph([node], "op", values, [helper.make_tensor_value_info("y", TYPES[out_type], output)],
                              constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only lines that hold this text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/sparkpilot")
    options = parser.parse_args()
    engines = Engines(options.program, "fp32")
    print("| op | type | shapes | sparkpilot us | ONNX Runtime us | ratio |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "op.onnx"
        for op, attributes, dtype, inputs, output, out_type, axes, name in cases():
            if options.filter not in f"{op} {dtype} {name}":
                continue
            write(path, op, attributes, dtype, inputs, output, out_type, axes)
            ours, theirs = [], []
            try:
                for _ in range(options.rounds):
                    theirs.append(engines.theirs(path, 1, options.runs)["p50_ms"])
                    ours.append(engines.ours(path, 1, options.runs)["p50_ms"])
            except RuntimeError as error:
                print(f"{op} {dtype}: {str(error)[-160:]}", file=sys.stderr)
                continue
            us, peer = 1e3 * statistics.median(ours), 1e3 * statistics.median(theirs)
            print(f"| {op} | {dtype} | {name} | {us:.1f} | {peer:.1f} | {peer / us:.2f} |", flush=True)


if __name__ == "__main__":
    main()
