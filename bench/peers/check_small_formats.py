#!/usr/bin/env python3
"""Holds what `sparkpilot model quantize --fp8|--fp4` writes against the formats' definitions by others.

Products of random and odd weights are written, and the codes, scales and dequantized weights computed again with NumPy and
ml_dtypes: they must be the same bits. So must codes and scales of each layer of the models given, whose files must give the same
outputs by ONNX's reference evaluator and, where it can run them, by ONNX Runtime. Written with a calibration, what they round
activations to must be the same bits, too.
Needs the peers (`make peers`): numpy, onnx, ml_dtypes, onnxruntime.

  .venv/bin/python bench/peers/check_small_formats.py build/sparkpilot [model.onnx ...]
"""
import argparse
import os
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

E4M3, E2M1 = ml_dtypes.float8_e4m3fn, ml_dtypes.float4_e2m1fn
F32 = np.float32
# Outputs differ by the order of f32's sums: one of 4,096 products by about 64 * 2^-24 = 4e-6, and a hundred layers of such
# errors, which add up like random ones, by 4e-5. The most that was seen is 1.2e-5 (driving_vision).
LIMIT = 5e-5
# Where activations are rounded, sums that differ in their last bits seldom round to other codes, a step of 1/16 apart. The most
# that was seen is 1.4e-7; one such code turned others behind it and an output by 0.07.
FLIPPED = 0.1


def bits(tensor):
    """The codes of an initializer, one byte each."""
    raw = np.frombuffer(tensor.raw_data, np.uint8)
    count = int(np.prod(tensor.dims))
    if tensor.data_type == onnx.TensorProto.FLOAT4E2M1:
        raw = np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)[:count]
    return raw.reshape(tuple(tensor.dims))


def scale_of(largest, most):
    scale = F32(largest) / F32(most)
    return scale if np.isfinite(scale) and abs(scale) >= np.finfo(F32).tiny else F32(1)


def to_e4m3(x):
    return np.clip(x, -448, 448).astype(F32).astype(E4M3)


def fp8(w, axis):
    """Codes and scales of weights in E4M3 with a scale for each index of an axis."""
    others = tuple(i for i in range(w.ndim) if i != axis)
    scales = np.array([scale_of(v, 448) for v in np.abs(w).max(axis=others)], F32)
    shape = [1] * w.ndim
    shape[axis] = -1
    return to_e4m3(w / scales.reshape(shape)).view(np.uint8), scales


def fp4(w, axis):
    """Codes, scales of blocks and the tensor's scale of weights in NVFP4."""
    scale = scale_of(np.abs(w).max(), 448 * 6)
    moved = np.moveaxis(w, axis, 0)
    depth = moved.shape[0]
    blocks = -(-depth // 16)
    padded = np.concatenate([moved, np.zeros((blocks * 16 - depth,) + moved.shape[1:], F32)])
    grouped = padded.reshape((blocks, 16) + moved.shape[1:])
    block_scales = to_e4m3(np.abs(grouped).max(axis=1) / (F32(6) * scale))
    steps = block_scales.astype(F32) * scale
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(steps[:, None] > 0, grouped / steps[:, None], 0)
    codes = np.clip(codes, -6, 6).astype(F32).astype(E2M1).view(np.uint8)
    codes = np.where(steps[:, None] > 0, codes, 0).reshape(padded.shape)[:depth]
    return np.moveaxis(codes, 0, axis), np.moveaxis(block_scales.view(np.uint8), 0, axis), scale


def same_bits(a, b):
    return np.array_equal(np.ascontiguousarray(a, F32).view(np.uint32), np.ascontiguousarray(b, F32).view(np.uint32))


def random_weights(rng):
    """Weights [K, N] of every kind, by name."""
    def normal(depth, columns=24):
        return rng.standard_normal((depth, columns)).astype(F32)
    for depth in (1, 15, 16, 17, 40):
        yield f"K = {depth}", normal(depth)
    yield "one column", normal(33, 1)
    yield "odd sizes", normal(33, 7)
    # Each column's, and the tensor's, largest weight makes the scale a power of two, so that the others are halfway.
    for largest, all_codes, name in ((448, np.arange(127, dtype=np.uint8).view(E4M3), "ties of E4M3"),
                                     (2688, 448 * np.arange(8, dtype=np.uint8).view(E2M1).astype(F32), "ties of E2M1")):
        values = all_codes.astype(F32)
        ties = rng.choice((values[1:] + values[:-1]) / 2, (64, 24)) * rng.choice([-1, 1], (64, 24))
        ties[::16] = largest
        yield name, ties.astype(F32)
    ulp = np.nextafter(normal(40), F32(0))
    yield "neighbours", np.concatenate([ulp, np.nextafter(ulp, F32(np.inf))])
    for value in (1e-44, 1.2e-38, 464, 1e30, 3e38):
        odd = normal(40)
        odd[3, 5] = odd[20, 6] = -value
        yield f"{value:g} among others", odd
        yield f"{value:g} throughout", np.full((40, 24), value, F32)
        yield f"times {value:g}", (np.clip(normal(40), -1, 1) * F32(value)).astype(F32)
    zeros = normal(64)
    zeros[16:32] = 0
    zeros[:, 3] = zeros[40:, 4] = 0
    zeros[5, 5] = -0.0
    yield "blocks of zeros", zeros
    yield "zeros", np.zeros((40, 24), F32)


def check_weights(run, folder, form, name, w, side):
    """Writes a product by these weights, [K, N] or with `side` [N, K], and compares all of its bits."""
    helper, F = onnx.helper, onnx.TensorProto.FLOAT
    depth, columns = w.shape
    stored = np.ascontiguousarray(w.T if side else w)
    # A head follows, which stays in floats.
    product = helper.make_node("Gemm", ["x", "w"], ["h"], transB=1) if side else helper.make_node("MatMul", ["x", "w"], ["h"])
    nodes = [product, helper.make_node("Relu", ["h"], ["r"]), helper.make_node("MatMul", ["r", "head"], ["y"])]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F, [1, depth])], [helper.make_tensor_value_info("y", F, [1, 2])],
        [numpy_helper.from_array(stored, "w"), numpy_helper.from_array(np.ones((columns, 2), F32), "head")])
    plain, out, dump = (os.path.join(folder, end) for end in ("plain.onnx", "out.onnx", "values"))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), plain)
    run("model", "quantize", f"--{form}", plain, out, "--quiet", "--threads", "1")
    written = onnx.load(out)
    constants = {t.name: t for t in written.graph.initializer}
    made = {n.output[0]: n for n in written.graph.node}
    node = next(n for n in written.graph.node if n.op_type == "DequantizeLinear" and n.input[0] == f"w_{form}")
    channel = 0 if side else 1
    if form == "fp8":
        codes, scales = fp8(stored, channel)
        floats = codes.view(E4M3).astype(F32) * scales.reshape((-1, 1) if side else (1, -1))
        same = same_bits(scales, numpy_helper.to_array(constants[node.input[1]]))
    else:
        codes, block_scales, scale = fp4(stored, 1 - channel)
        inner = made[node.input[1]]
        steps = np.repeat(block_scales.view(E4M3).astype(F32) * scale, 16, axis=1 - channel)
        floats = codes.view(E2M1).astype(F32) * (steps[:, :depth] if side else steps[:depth])
        same = np.array_equal(block_scales, bits(constants[inner.input[0]])) and same_bits(
            scale, numpy_helper.to_array(constants[inner.input[1]]))
    run("run", out, "--dump-values", dump, "--passes", "none", "--quiet", "--threads", "1", "--precision", "model",
        "--device", "cpu")
    got = np.load(os.path.join(dump, node.output[0] + ".npy"))
    for what, equal in (("scales", same), ("codes", np.array_equal(codes, bits(constants[node.input[0]]))),
                        ("dequantized weights", same_bits(got, floats))):
        if not equal:
            sys.exit(f"{form}, {name}{', transposed' if side else ''}: {what} differ from their definition")


def check_random(program):
    rng = np.random.default_rng(1)
    run = lambda *words: subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL)
    kinds = list(random_weights(rng))
    with tempfile.TemporaryDirectory() as folder:
        for name, w in kinds:
            for form in ("fp8", "fp4"):
                for side in (False, True):
                    check_weights(run, folder, form, name, w, side)
    print(f"{len(kinds)} kinds of weights, either way round, in fp8 and fp4: the same codes, scales and dequantized weights")


def check_layers(source, written):
    """Compares each DequantizeLinear of constants; returns the numbers of layers in fp8 and fp4, and of those that cannot be
    compared, because a scale beside the layer was folded into its weights, which then have other scales."""
    constants = {t.name: t for t in written.graph.initializer}
    weights = {t.name: numpy_helper.to_array(t).astype(F32) for t in source.graph.initializer}
    made_by = {n.output[0]: n for n in written.graph.node}
    counts = {"fp8": 0, "fp4": 0, "folded": 0}
    for node in written.graph.node:
        codes = constants.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if codes is None or not codes.name.endswith(("_fp8", "_fp4")):
            continue
        name = codes.name[:-4]
        if name not in weights:
            sys.exit(f"{codes.name}: the source has no weights named {name} (fold its batch norms first)")
        attrs = {a.name: a.i for a in node.attribute}
        if codes.name.endswith("_fp8"):
            expected, scales = fp8(weights[name], attrs["axis"])
            kind = "fp8" if np.array_equal(scales, numpy_helper.to_array(constants[node.input[1]])) else "folded"
        else:
            expected, block_scales, scale = fp4(weights[name], attrs["axis"])
            inner = made_by[node.input[1]]
            kind = "fp4" if scale == numpy_helper.to_array(constants[inner.input[1]]) else "folded"
            if kind == "fp4" and not np.array_equal(block_scales, bits(constants[inner.input[0]])):
                sys.exit(f"{codes.name}: scales of blocks differ from their definition")
        if kind != "folded" and not np.array_equal(expected, bits(codes)):
            sys.exit(f"{codes.name}: codes or scales differ from their definition")
        counts[kind] += 1
    if 2 * counts["folded"] > sum(counts.values()):
        sys.exit(f"the scales of {counts['folded']} of {sum(counts.values())} layers differ from their definition")
    return counts


def difference(got, expected):
    norm = np.linalg.norm(expected.astype(np.float64))
    return float(np.linalg.norm(got.astype(np.float64) - expected.astype(np.float64)) / (norm if norm else 1))


def check_activations(written, values):
    """Compares what each pair of QuantizeLinear and DequantizeLinear gives, of what went in; returns their number."""
    scales = {t.name: numpy_helper.to_array(t) for t in written.graph.initializer if not t.dims}
    quantized = {n.output[0]: n for n in written.graph.node if n.op_type == "QuantizeLinear"}
    for node in written.graph.node:
        source = quantized.get(node.input[0]) if node.op_type == "DequantizeLinear" else None
        if source is None:
            continue
        x, got = (np.load(os.path.join(values, file_name(name) + ".npy")) for name in (source.input[0], node.output[0]))
        scale = scales[source.input[1]]
        if not same_bits(got, to_e4m3(x / scale).astype(F32) * scale):
            sys.exit(f"{source.input[0]}: what was rounded differs from the definition")
    return len(quantized)


def file_name(value):
    """As --dump-values names the file of a value."""
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in value)


def random_samples(run, plain, folder):
    """Flags for `model calibrate`: what each input is with a few seeds."""
    flags = []
    dumps = [os.path.join(folder, f"sample{seed}") for seed in (11, 12)]
    for seed, dump in zip((11, 12), dumps):
        run("run", plain, "--seed", str(seed), "--dump-values", dump, "--passes", "none", "--quiet", "--device", "cpu")
    for value in onnx.load(plain).graph.input:
        arrays = [np.load(os.path.join(dump, file_name(value.name) + ".npy")) for dump in dumps]
        np.save(os.path.join(folder, file_name(value.name) + ".npy"), np.concatenate(arrays))
        flags += ["--samples", f"{value.name}={os.path.join(folder, file_name(value.name) + '.npy')}"]
    return flags


def engines_of(out, written, inputs, calibrated):
    """What computes the file's outputs, by name."""
    engines = {"reference": lambda: ReferenceEvaluator(written).run(None, inputs)}
    try:
        import onnxruntime
    except ImportError:
        return engines

    def by_onnxruntime():
        options = onnxruntime.SessionOptions()
        if calibrated:  # with them it moves codes in E4M3 into ops that take none
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(out, options, providers=["CPUExecutionProvider"]).run(None, inputs)

    engines["onnxruntime"] = by_onnxruntime
    return engines


def check_model(program, model, form, limit):
    """Writes a model in fp8, fp8 with a calibration, or fp4; returns whether every engine agrees with ours."""
    calibrated = form == "fp8 with a calibration"
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        plain, out = at("plain.onnx"), at("out.onnx")
        run = lambda *words: subprocess.run([program, *words], check=True, stdout=subprocess.DEVNULL)
        run("model", "convert", model, "--simplify", "--out", plain)
        flags = []
        if calibrated:
            run("model", "calibrate", plain, "--out", at("c.json"), "--quiet", *random_samples(run, plain, folder))
            flags = ["--calibration", at("c.json")]
        run("model", "quantize", f"--{form[:3]}", plain, out, "--quiet", *flags)
        written = onnx.load(out)
        if form.startswith("fp8") and written.opset_import[0].version > max(19, onnx.load(plain).opset_import[0].version):
            sys.exit(f"{model}: {form} was written for opset {written.opset_import[0].version}")
        counts = check_layers(onnx.load(plain), written)
        run("run", out, "--seed", "5", "--output-dir", at("ours"), "--quiet", "--device", "cpu")
        dump = at("inputs")
        run("run", out, "--seed", "5", "--dump-values", dump, "--passes", "none", "--quiet", "--device", "cpu")
        inputs = {i.name: np.load(os.path.join(dump, file_name(i.name) + ".npy")) for i in written.graph.input}
        line = (f"{os.path.basename(model)} {form}: {counts['fp8']} layers in fp8, {counts['fp4']} in fp4 equal, "
                f"{counts['folded']} folded")
        if calibrated:
            line += f", {check_activations(written, dump)} activations equal"
        agrees = True
        for engine, compute in engines_of(out, written, inputs, calibrated).items():
            try:
                expected = compute()
            except Exception as error:  # what an engine lacks is no fault of the file
                line += f"; {engine} cannot run it ({str(error).splitlines()[0][:90]})"
                continue
            worst = 0.0
            for value, array in zip(written.graph.output, expected):
                ours = np.load(os.path.join(at("ours"), file_name(value.name) + ".npy"))
                worst = max(worst, difference(ours, np.asarray(array)))
            line += f"; {engine} {worst:.1e}"
            agrees &= worst <= (FLIPPED if calibrated else limit)
        print(line, flush=True)
        return agrees


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("models", nargs="*")
    parser.add_argument("--max-relative-l2", type=float, default=LIMIT)
    args = parser.parse_args()
    check_random(args.program)
    forms = ("fp8", "fp8 with a calibration", "fp4")
    agree = [check_model(args.program, model, form, args.max_relative_l2) for model in args.models for form in forms]
    return 0 if all(agree) else 4


if __name__ == "__main__":
    sys.exit(main())
