#!/usr/bin/env python3
"""A training step of driving_policy: sparkpilot's beside that of PyTorch with PEFT, in turns.

  build/sparkpilot zoo build driving_policy --out out/zoo
  bench/peers/compare_training.py out/zoo/driving_policy.onnx [--kinds dora,lora,full] [--threads 2] [--rounds 10]

Both run the same network (through onnx2torch, its Reshapes changed for a batch), AdamW, fp32, adapters of rank 16 beside all
linear layers, the loss of the plan and the desire; PyTorch eager and, with --compile, compiled where that works (PyTorch 2.15
does not compile what onnx2torch makes of this model), of which the faster counts. Prints the medians of the rounds and the median of the ratios of a round. Needs torch, peft and onnx2torch, and
build/student_bench."""
import argparse
import os
import resource
import statistics
import subprocess
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--kinds", default="dora,lora,full")
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--rounds", type=int, default=10)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--steps", type=int, default=3, help="of a round")
parser.add_argument("--compile", action="store_true", help="try torch.compile too")
arguments = parser.parse_args()

os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
from onnx import numpy_helper  # noqa: E402
from onnx2torch import convert  # noqa: E402
from torch import nn  # noqa: E402

torch.set_num_threads(arguments.threads)


def batched(path):
    """The file with every f16 tensor in f32 and Reshapes that take any batch."""
    model = onnx.load(path)
    for item in model.graph.initializer:
        array = numpy_helper.to_array(item)
        if array.dtype == np.float16:
            item.CopyFrom(numpy_helper.from_array(array.astype(np.float32), item.name))
    shapes = {node.input[1] for node in model.graph.node if node.op_type == "Reshape"}
    for item in model.graph.initializer:
        if item.name in shapes:
            sizes = numpy_helper.to_array(item).copy()
            if sizes[0] == 1 and -1 not in sizes:
                sizes[0] = -1
            item.CopyFrom(numpy_helper.from_array(sizes, item.name))
    joined = {name for node in model.graph.node if node.op_type == "Concat" for name in node.input}
    for item in model.graph.initializer:  # padding of one entry
        array = numpy_helper.to_array(item)
        if item.name in joined and array.ndim == 2 and array.shape[0] == 1:
            item.CopyFrom(numpy_helper.from_array(np.repeat(array, arguments.batch, 0), item.name))
    for node in model.graph.node:
        if node.op_type == "Cast":
            for attribute in node.attribute:
                if attribute.name == "to" and attribute.i == onnx.TensorProto.FLOAT16:
                    attribute.i = onnx.TensorProto.FLOAT
    for value in list(model.graph.input) + list(model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = arguments.batch
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    del model.graph.value_info[:]
    return model


def torch_model(kind):
    model = batched(arguments.model)
    # A MatMul with constant weights becomes a Gemm, which onnx2torch makes an nn.Linear; PEFT adapts those.
    constants = {item.name: item for item in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in constants:
            weight = numpy_helper.to_array(constants[node.input[1]])
            name = node.input[1] + "_transposed"
            model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(weight.T), name))
            node.op_type, node.input[1] = "Gemm", name
            node.attribute.append(onnx.helper.make_attribute("transB", 1))
    module = convert(model)
    linears = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]
    if kind == "full":
        for parameter in module.parameters():
            parameter.requires_grad_(True)
        return module, len(linears)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    config = peft.LoraConfig(r=16, lora_alpha=16, use_dora=kind == "dora", target_modules=linears)
    return peft.get_peft_model(module, config), len(linears)


def loss_of(raw, teacher):
    """sparkpilot's losses of this model: the plan's Laplacian likelihood and the desire's cross-entropy."""
    plan, mean, scale = teacher[:, :495], raw[:, :495], raw[:, 495:990]
    error = (mean - plan).abs()
    limit = torch.maximum(scale, torch.log(1e-6 + error / 1000))
    likelihood = error * torch.exp(-limit) + torch.clamp(scale, min=float(np.log(1e-3)))
    desire = -(torch.softmax(teacher[:, 990:998], -1) * torch.log_softmax(raw[:, 990:998], -1)).sum(-1)
    return likelihood.sum(-1).mean() + desire.mean()


class Torch:
    def __init__(self, kind, compiled):
        torch.manual_seed(1)
        self.model, self.linears = torch_model(kind)
        if compiled:
            self.model = torch.compile(self.model)
        graph = onnx.load(arguments.model).graph
        self.inputs = []
        for value in graph.input:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            self.inputs.append(torch.randn([arguments.batch, *shape[1:]]))
        self.teacher = torch.randn(arguments.batch, graph.output[0].type.tensor_type.shape.dim[1].dim_value)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.count = sum(p.numel() for p in trained)
        self.optimizer = torch.optim.AdamW(trained, lr=1e-5)
        self.trained = trained

    def step(self):
        start = time.perf_counter()
        self.optimizer.zero_grad()
        loss_of(self.model(*self.inputs), self.teacher).backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        return 1e3 * (time.perf_counter() - start)


for kind in arguments.kinds.split(","):
    ours = subprocess.Popen(
        ["build/student_bench", arguments.model, "--kind", kind, "--batch", str(arguments.batch), "--threads", str(arguments.threads)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    says = ours.stdout.readline().strip()
    peers = {"eager": Torch(kind, False)}
    if arguments.compile:
        try:
            peers["compiled"] = Torch(kind, True)
            peers["compiled"].step()
        except Exception as error:  # whatever the compiler meets in the converted model
            print(f"{kind}: torch.compile fails: {type(error).__name__}")
            peers.pop("compiled", None)
    for peer in peers.values():
        for _ in range(3):
            peer.step()
    rounds = {name: [] for name in ["ours", *peers]}
    for _ in range(arguments.rounds):
        ours.stdin.write(f"{arguments.steps}\n")
        ours.stdin.flush()
        rounds["ours"].append(float(ours.stdout.readline().split()[0]))
        for name, peer in peers.items():
            rounds[name].append(statistics.median(peer.step() for _ in range(arguments.steps)))
    ours.stdin.close()
    ours.wait()
    best = min(peers, key=lambda name: statistics.median(rounds[name]))
    ratios = sorted(theirs / own for theirs, own in zip(rounds[best], rounds["ours"]))
    print(f"{kind}: sparkpilot {statistics.median(rounds['ours']):.1f} ms ({says}), PyTorch {best} "
          f"{statistics.median(rounds[best]):.1f} ms ({peers[best].count} parameters on {peers[best].linears} linears, "
          f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB), {statistics.median(ratios):.2f} times "
          f"({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
