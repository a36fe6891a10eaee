#!/usr/bin/env python3
"""Loads an adapter that sparkpilot wrote into Hugging Face's PEFT and compares every layer with the merged model.

  sparkpilot adapter merge MODEL.onnx ADAPTER --out MERGED.onnx
  bench/peers/check_peft.py MODEL.onnx ADAPTER MERGED.onnx

The base's layers become modules of PyTorch under the adapter's paths; PEFT reads the folder; each adapted module is then
run on random inputs and compared with the weights of the merged file. Prints the largest relative L2 error by kind of
layer, and exits with 4 above 1e-5 (f32 weights) or above what rounding to f16 may cost. Needs the packages torch, peft and
onnx."""
import argparse
import json
import pathlib
import re
import sys
import warnings

import numpy as np
import onnx
import peft
import torch
from onnx import numpy_helper
from torch import nn


def weights_of(path):
    """The layers of an ONNX file by their modules' paths: (op, weights as PyTorch has them, node)."""
    graph = onnx.load(path).graph
    values = {item.name: numpy_helper.to_array(item) for item in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    layers = {}
    for node in graph.node:
        if node.op_type not in ("Conv", "Gemm", "MatMul"):
            continue
        name, transposed = node.input[1], False
        while name in makers and makers[name].op_type in ("Cast", "Transpose", "Identity"):
            transposed ^= makers[name].op_type == "Transpose"
            name = makers[name].input[0]
        if name not in values:
            continue
        by_node = any(a.name == "transB" and a.i for a in node.attribute)
        weight = values[name].astype(np.float32)
        if node.op_type != "Conv" and transposed == by_node:
            weight = weight.T
        scope = node.name.strip("/").rsplit("/", 1)[0].replace("/", ".")
        layers[re.sub(r"\.weight$", "", name) if name.endswith(".weight") else scope] = (node, weight, values[name].dtype)
    return layers


def module_of(node, weight):
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if node.op_type != "Conv":
        module = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
    else:
        groups = attributes.get("group", 1)
        pads = attributes.get("pads", [0] * 4)
        module = nn.Conv2d(weight.shape[1] * groups, weight.shape[0], weight.shape[2:], attributes.get("strides", [1, 1]),
                           pads[: len(pads) // 2], attributes.get("dilations", [1, 1]), groups, bias=False)
    module.weight.data = torch.tensor(weight)
    return module


class Tree(nn.Module):
    def forward(self, x):
        return x


def put(root, path, module):
    *scopes, last = path.split(".")
    for scope in scopes:
        if not hasattr(root, scope):
            root.add_module(scope, Tree())
        root = getattr(root, scope)
    root.add_module(last, module)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("adapter", type=pathlib.Path)
parser.add_argument("merged")
arguments = parser.parse_args()
base, merged = weights_of(arguments.model), weights_of(arguments.merged)
config = json.loads((arguments.adapter / "adapter_config.json").read_text())
root = Tree()
for path, (node, weight, _) in base.items():
    put(root, path, module_of(node, weight))
with warnings.catch_warnings():
    warnings.simplefilter("error")  # a missing or an unknown key is a warning of PEFT's
    model = peft.PeftModel.from_pretrained(root, str(arguments.adapter)).eval()
torch.manual_seed(1)
worst, bound = {}, 0
for path in config["target_modules"]:
    node, weight, stored = merged[path]
    adapted = model.base_model.model.get_submodule(path)
    shape = (4, weight.shape[1]) if node.op_type != "Conv" else (2, adapted.base_layer.in_channels, 12, 16)
    x = torch.randn(shape)
    with torch.no_grad():
        got, expected = adapted(x), module_of(node, weight)(x)
    error = (torch.linalg.norm(got - expected) / torch.linalg.norm(expected)).item()
    worst[node.op_type] = max(worst.get(node.op_type, 0), error)
    bound = max(bound, 1e-5 if stored == np.float32 else 1e-3)
print(f"PEFT {peft.__version__}, {len(config['target_modules'])} layers:", ", ".join(f"{k} {v:.1e}" for k, v in worst.items()))
sys.exit(0 if max(worst.values()) <= bound else 4)
