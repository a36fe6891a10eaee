#!/usr/bin/env python3
"""Every weight's gradient of a training step, and PyTorch's, against PyTorch's in double precision.

  build/sparkpilot zoo build --all --out out/zoo
  bench/peers/compare_gradients.py layers out/zoo/*.onnx [--kinds full,lora,rslora,dora] [--batch 2] [--json F]

`layers` is a small network made here: convolutions that are dilated, strided, grouped and all of it, Gemm and MatMul.

build/gradient_export runs the step and writes the network as it is trained, its inputs and its gradients. Here the same
network runs in PyTorch, node by node, once in double and once in single precision. An error is norm-wise by tensor:
|g - reference| / |reference|; 0 if both are 0. The bar: at most 1e-5, or twice PyTorch's own error where that is larger. A
tensor's errors are the least over several random inputs (and targets, and adapters), ours and PyTorch's each: a value at the
kink of a Relu falls to one side or the other by its last bit, and takes whole tensors with it, here as in PyTorch, and so does
a saturated Sigmoid; what is computed wrongly is wrong for all inputs. Exit code 4 if a tensor is beyond the bar, or if there
is no such step. Needs torch, onnx and safetensors."""
import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from safetensors import safe_open

BAR = 1e-5
# None: the run's float.
DTYPES = {1: None, 2: torch.uint8, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: None, 11: None}


def pads_of(attributes, rank):
    """Symmetric padding, or what F.pad takes and 0."""
    pads = attributes.get("pads", [0] * 2 * rank)
    begin, end = pads[:rank], pads[rank:]
    if begin == end:
        return None, begin
    return [each for pair in zip(reversed(begin), reversed(end)) for each in pair], [0] * rank


def conv(a, x, w, b=None):
    rank = w.dim() - 2
    extra, padding = pads_of(a, rank)
    if extra:
        x = F.pad(x, extra)
    function = [F.conv1d, F.conv2d, F.conv3d][rank - 1]
    return function(x, w, b, a.get("strides", [1] * rank), padding, a.get("dilations", [1] * rank), a.get("group", 1))


def gemm(a, x, y, c=None):
    x = x.T if a.get("transA") else x
    y = y.T if a.get("transB") else y
    out = a.get("alpha", 1.0) * (x @ y)
    return out if c is None else out + a.get("beta", 1.0) * c


def slice_(a, x, starts, ends, axes=None, steps=None):
    starts, ends = starts.tolist(), ends.tolist()
    axes = list(range(len(starts))) if axes is None else axes.tolist()
    steps = [1] * len(starts) if steps is None else steps.tolist()
    for start, end, axis, step in zip(starts, ends, axes, steps):
        places = range(*slice(start, end if end > -(2**62) else None, step).indices(x.shape[axis]))
        x = x.index_select(axis, torch.tensor(list(places), dtype=torch.int64))
    return x


def reduce(how):
    def run(a, x, axes=None):
        axes = a.get("axes") if axes is None else axes.tolist()
        axes = list(range(x.dim())) if not axes else axes
        return how(x, axes, bool(a.get("keepdims", 1)))

    return run


def reshape(a, x, shape):
    sizes = [x.shape[i] if size == 0 and not a.get("allowzero") else size for i, size in enumerate(shape.tolist())]
    return x.reshape(sizes)


def layer_norm(a, x, scale, bias=None):
    axis = a.get("axis", -1) % x.dim()
    return F.layer_norm(x, x.shape[axis:], scale, bias, a.get("epsilon", 1e-5))


def batch_norm(a, x, scale, bias, mean, variance):
    return F.batch_norm(x, mean, variance, scale, bias, False, 0, a.get("epsilon", 1e-5))


def clip(a, x, low=None, high=None):
    low = a.get("min") if low is None else low
    high = a.get("max") if high is None else high
    if low is not None:
        x = torch.maximum(x, torch.as_tensor(low, dtype=x.dtype))
    return x if high is None else torch.minimum(x, torch.as_tensor(high, dtype=x.dtype))


def pool(how):
    def run(a, x):
        kernel = a["kernel_shape"]
        extra, padding = pads_of(a, len(kernel))
        if extra:
            x = F.pad(x, extra, value=-math.inf if how == "max" else 0)
        strides = a.get("strides", [1] * len(kernel))
        if how == "max":
            return F.max_pool2d(x, kernel, strides, padding)
        return F.avg_pool2d(x, kernel, strides, padding, count_include_pad=bool(a.get("count_include_pad", 0)))

    return run


def split(a, x, sizes=None):
    axis = a.get("axis", 0)
    sizes = a.get("split") if sizes is None else sizes.tolist()
    return torch.split(x, sizes or x.shape[axis] // a["count"], axis)


def squeeze(a, x, axes=None):
    axes = a.get("axes") if axes is None else axes.tolist()
    return x.squeeze() if axes is None else x.squeeze(tuple(axes))


def unsqueeze(a, x, axes=None):
    for axis in sorted(a.get("axes") if axes is None else axes.tolist()):
        x = x.unsqueeze(axis)
    return x


def gather(a, x, indices):
    axis = a.get("axis", 0) % x.dim()
    flat = x.index_select(axis, indices.reshape(-1).long() % x.shape[axis])
    return flat.reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]])


def softmax(a, x):
    return torch.softmax(x, a.get("axis", -1))


def pad(a, x, pads=None, value=None):
    pads = a.get("pads") if pads is None else pads.tolist()
    rank = len(pads) // 2
    ends = [each for i in reversed(range(rank)) for each in (pads[i], pads[i + rank])]
    return F.pad(x, ends, value=0 if value is None else value.item())


OPS = {
    "Conv": conv, "Gemm": gemm, "Slice": slice_, "Reshape": reshape, "LayerNormalization": layer_norm,
    "BatchNormalization": batch_norm, "Clip": clip, "MaxPool": pool("max"), "AveragePool": pool("average"),
    "Split": split, "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Gather": gather, "Softmax": softmax, "Pad": pad,
    "MatMul": lambda a, x, y: x @ y,
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y, "Pow": lambda a, x, y: x**y, "Sqrt": lambda a, x: x.sqrt(),
    "Neg": lambda a, x: -x, "Abs": lambda a, x: x.abs(), "Exp": lambda a, x: x.exp(), "Log": lambda a, x: x.log(),
    "Erf": lambda a, x: torch.erf(x), "Tanh": lambda a, x: torch.tanh(x), "Sigmoid": lambda a, x: torch.sigmoid(x),
    "Relu": lambda a, x: torch.relu(x), "Elu": lambda a, x: F.elu(x, a.get("alpha", 1.0)),
    "LeakyRelu": lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", b"none").decode()),
    "Reciprocal": lambda a, x: 1 / x, "Identity": lambda a, x: x,
    "Max": lambda a, *x: torch.maximum(*x), "Min": lambda a, *x: torch.minimum(*x),
    "Equal": lambda a, x, y: x == y, "Less": lambda a, x, y: x < y, "Greater": lambda a, x, y: x > y,
    "And": lambda a, x, y: x & y, "Or": lambda a, x, y: x | y, "Not": lambda a, x: ~x,
    "Where": lambda a, c, x, y: torch.where(c, x, y),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]),
    "Transpose": lambda a, x: x.permute(a.get("perm", list(reversed(range(x.dim()))))),
    "Flatten": lambda a, x: x.reshape(math.prod(x.shape[: a.get("axis", 1)]), -1),
    "Expand": lambda a, x, shape: x.expand(torch.broadcast_shapes(x.shape, shape.tolist())),
    "GlobalAveragePool": lambda a, x: x.mean(list(range(2, x.dim())), True),
    "ReduceMean": reduce(lambda x, axes, keep: x.mean(axes, keep)),
    "ReduceSum": reduce(lambda x, axes, keep: x.sum(axes, keep)),
    "ReduceMax": reduce(lambda x, axes, keep: x.amax(axes, keep)),
    "ReduceL2": reduce(lambda x, axes, keep: (x * x).sum(axes, keep).sqrt()),
}  # fmt: skip


def gradients(folder, dtype):
    """By name, as float64."""
    model = onnx.load(folder / "model.onnx")
    with safe_open(folder / "step.safetensors", "pt") as file:
        trained = list(file.metadata())
        step = {name: file.get_tensor(name) for name in file.keys() if not name.startswith("gradient ")}
    own = lambda x: x.to(dtype) if x.is_floating_point() else x  # noqa: E731
    values = {"": None}
    for item in model.graph.initializer:
        values[item.name] = own(torch.from_numpy(numpy_helper.to_array(item).copy()))
        if item.name in trained:
            values[item.name].requires_grad_()
    for value in model.graph.input:
        if value.name in step:
            values[value.name] = own(step[value.name])
    for node in model.graph.node:
        attributes = {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}
        inputs = [values[name] for name in node.input]
        if node.op_type == "Constant":
            out = own(torch.from_numpy(numpy_helper.to_array(attributes["value"]).copy()))
        elif node.op_type == "Cast":
            out = inputs[0].to(DTYPES[attributes["to"]] or dtype)
        elif node.op_type == "Split":
            out = split({**attributes, "count": len(node.output)}, *inputs)
        elif node.op_type in OPS and node.domain in ("", "ai.onnx"):
            out = OPS[node.op_type](attributes, *inputs)
        else:
            sys.exit(f"{folder}: this script has no {node.domain} {node.op_type}")
        for name, each in zip(node.output, out if isinstance(out, tuple) else [out]):
            values[name] = each
    loss = sum(
        ((values[each.name] - own(step[f"target {i}"])) ** 2).mean() for i, each in enumerate(model.graph.output)
    )
    loss.backward()
    return {name: values[name].grad.double() for name in trained if values[name].grad is not None}


def save_layers(path):
    """A network with a layer of every kind that has adapters, between Tanh."""
    random = np.random.default_rng(1)
    nodes, constants = [], []

    def add(op, name, data, shape, **attributes):
        weight = (random.standard_normal(shape) / math.sqrt(np.prod(shape[1:]))).astype(np.float32)
        constants.append(numpy_helper.from_array(weight, f"{name}.weight"))
        out = f"/{name}/{op}_output"
        nodes.append(onnx.helper.make_node(op, [data, f"{name}.weight"], [out], name=f"/{name}/{op}", **attributes))
        nodes.append(onnx.helper.make_node("Tanh", [out], [out + "_tanh"], name=f"/{name}/Tanh"))
        return out + "_tanh"

    x = add("Conv", "plain", "x", (12, 3, 3, 3), pads=[1, 1, 1, 1])
    x = add("Conv", "dilated", x, (12, 12, 3, 3), dilations=[2, 2], pads=[2, 2, 2, 2])
    x = add("Conv", "grouped", x, (12, 6, 3, 3), group=2, pads=[1, 1, 1, 1])
    x = add("Conv", "all", x, (8, 3, 3, 3), group=4, strides=[2, 2], dilations=[2, 2], pads=[2, 2, 2, 2])
    x = add("Conv", "pointwise", x, (5, 8, 1, 1))
    nodes.append(onnx.helper.make_node("Flatten", [x], ["flat"], name="/Flatten"))
    x = add("Gemm", "linear", "flat", (11, 5 * 7 * 5), transB=1)
    x = add("Gemm", "other", x, (11, 9))
    x = add("MatMul", "product", x, (9, 6))
    f32 = onnx.TensorProto.FLOAT
    ends = [onnx.helper.make_tensor_value_info(*each) for each in (("x", f32, [1, 3, 13, 9]), (x, f32, [1, 6]))]
    graph = onnx.helper.make_graph(nodes, "layers", ends[:1], ends[1:], constants)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)


def error(gradient, reference):
    norm = reference.norm().item()
    difference = (gradient - reference).norm().item()
    return difference / norm if norm > 0 else (0.0 if difference == 0 else math.inf)


def errors(file, kind, seed, settings):
    """Ours and PyTorch's, by tensor; or why there is no such step."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if file == "layers":
            file = folder / "layers.onnx"
            save_layers(file)
        command = [settings.export, file, "--kind", kind, "--out", folder, "--batch", settings.batch, "--seed", seed]
        done = subprocess.run([str(each) for each in command], capture_output=True, text=True)
        if done.returncode != 0:
            return done.stderr.strip()
        reference = gradients(folder, torch.float64)
        theirs = gradients(folder, torch.float32)
        with safe_open(folder / "step.safetensors", "pt") as saved:
            ours = {name: saved.get_tensor("gradient " + name).double() for name in reference}
    return {name: (error(ours[name], reference[name]), error(theirs[name], reference[name])) for name in reference}


def compare(file, kind, settings):
    """A row: tensors, those beyond 1e-5 here and in PyTorch, the largest errors, and those that are beyond the bar."""
    all_errors = []
    for seed in range(1, settings.seeds + 1):
        all_errors.append(errors(file, kind, seed, settings))
        if isinstance(all_errors[-1], str):
            return {"model": Path(file).stem, "kind": kind, "refused": all_errors[-1]}
    rows = [(name, *(min(each[name][i] for each in all_errors) for i in (0, 1))) for name in all_errors[0]]
    worst = max(rows, key=lambda row: row[1])
    return {
        "model": Path(file).stem,
        "kind": kind,
        "tensors": len(rows),
        "ours_above": sum(row[1] > BAR for row in rows),
        "pytorch_above": sum(row[2] > BAR for row in rows),
        "ours_largest": worst[1],
        "ours_largest_of": worst[0],
        "pytorch_there": worst[2],
        "pytorch_largest": max(row[2] for row in rows),
        "largest_of_bar": max(row[1] / max(BAR, 2 * row[2]) for row in rows),
        "above": [row for row in rows if row[1] > BAR],
        "beyond": [row for row in rows if row[1] > max(BAR, 2 * row[2])],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--kinds", default="full,lora,rslora,dora")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=5, help="random inputs")
    parser.add_argument("--export", default="build/gradient_export")
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    print("| model | trained | tensors | above 1e-5: ours, PyTorch's | largest: ours, PyTorch's | largest share of the bar |")
    print("|---|---|---|---|---|---|")
    for file in settings.models:
        for kind in settings.kinds.split(","):
            row = compare(file, kind, settings)
            rows.append(row)
            if "refused" in row:
                print(f"| {row['model']} | {kind} | {row['refused']} | | | |", flush=True)
                continue
            print(
                f"| {row['model']} | {kind} | {row['tensors']} | {row['ours_above']}, {row['pytorch_above']} | "
                f"{row['ours_largest']:.1e}, {row['pytorch_largest']:.1e} | {row['largest_of_bar']:.2f} |",
                flush=True,
            )
            for name, own, other in row["beyond"][:5]:
                print(f"    beyond the bar: {name}: {own:.2e}, PyTorch's {other:.2e}", flush=True)
    if settings.json:
        settings.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 4 if any(row.get("beyond") or "refused" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
