#!/usr/bin/env python3
"""A training step of driving_policy or dmonitoring_model: sparkpilot's beside that of PyTorch with PEFT, in turns.

  build/sparkpilot zoo build driving_policy dmonitoring_model --out out/zoo
  bench/peers/compare_training.py out/zoo/driving_policy.onnx [--kinds dora,lora,full] [--threads 2] [--rounds 10]
  bench/peers/compare_training.py out/zoo/dmonitoring_model.onnx --role driver --batch 8 --compile

Both run the same network (through onnx2torch, its Reshapes changed for a batch), AdamW, fp32, adapters of rank 16 beside all
linear layers and ungrouped 1x1 convolutions, the same losses; PyTorch with its layers channels first and, of role driver,
channels last, and with --compile compiled where that works (PyTorch 2.15 does not compile what onnx2torch makes of
driving_policy), of which the fastest counts. Prints the medians of the rounds and the median of the ratios of a round, of time
and of processor time. Needs torch, peft and onnx2torch, and build/student_bench."""
import argparse
import json
import os
import resource
import statistics
import subprocess
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--role", default="policy", choices=["policy", "driver"])
parser.add_argument("--kinds", default="dora,lora,full")
parser.add_argument("--threads", type=int, default=os.cpu_count())
parser.add_argument("--rounds", type=int, default=10)
parser.add_argument("--batch", type=int, default=32)
parser.add_argument("--steps", type=int, default=3, help="of a round")
parser.add_argument("--layouts", default="first,last", help="of PyTorch's channels; last of role driver only")
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
    def adapted(part):
        pointwise = isinstance(part, nn.Conv2d) and part.groups == 1 and part.kernel_size == (1, 1)
        return isinstance(part, nn.Linear) or pointwise

    linears = [name for name, part in module.named_modules() if adapted(part)]
    if kind == "full":
        for parameter in module.parameters():
            parameter.requires_grad_(True)
        return module, len(linears)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    config = peft.LoraConfig(r=16, lora_alpha=16, use_dora=kind == "dora", target_modules=linears)
    return peft.get_peft_model(module, config), len(linears)


def driver_loss(raw, teacher):
    """sparkpilot's losses of driver monitoring: divergences of Gaussians, binary cross-entropies, features."""
    total = 0
    for name, begin, end in HEADS:
        x, y = raw[:, begin:end], teacher[:, begin:end]
        if name.startswith("face_descs"):
            least = float(np.log(1e-3))
            s, t = torch.clamp(x[:, 6:11], min=least), torch.clamp(y[:, 6:11], min=least)
            error = (x[:, :5] - y[:, :5]) * torch.exp(-s)
            total = total + (s - t + 0.5 * (torch.exp(2 * (t - s)) + error**2 - 1)).sum(-1).mean()
        elif name == "features":
            to = torch.log_softmax(y / 4, -1)
            total = total + 16 * (to.exp() * (to - torch.log_softmax(x / 4, -1))).sum(-1).mean()
        else:
            total = total + nn.functional.binary_cross_entropy_with_logits(x, torch.sigmoid(y))
    return total


def heads_of(path):
    """Name, begin and end of each head of role driver."""
    command = ["build/sparkpilot", "model", "info", path, "--json"]
    said = subprocess.run(command, capture_output=True, check=True, text=True)
    return [(name, *ends) for name, ends in json.loads(said.stdout)["output_slices"].items()]


HEADS = heads_of(arguments.model) if arguments.role == "driver" else []


def loss_of(raw, teacher):
    """sparkpilot's losses of the policy: the plan's Laplacian likelihood and the desire's cross-entropy."""
    if arguments.role == "driver":
        return driver_loss(raw, teacher)
    plan, mean, scale = teacher[:, :495], raw[:, :495], raw[:, 495:990]
    error = (mean - plan).abs()
    limit = torch.maximum(scale, torch.log(1e-6 + error / 1000))
    likelihood = error * torch.exp(-limit) + torch.clamp(scale, min=float(np.log(1e-3)))
    desire = -(torch.softmax(teacher[:, 990:998], -1) * torch.log_softmax(raw[:, 990:998], -1)).sum(-1)
    return likelihood.sum(-1).mean() + desire.mean()


class Torch:
    def __init__(self, kind, layout, compiled):
        torch.manual_seed(1)
        self.model, self.linears = torch_model(kind)
        self.model.to(memory_format=layout)
        if compiled:
            self.model = torch.compile(self.model)
        graph = onnx.load(arguments.model).graph
        self.inputs = []
        for value in graph.input:
            shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
            pictures = value.type.tensor_type.elem_type == onnx.TensorProto.UINT8
            size = [arguments.batch, *shape[1:]]
            self.inputs.append(torch.randint(0, 256, size, dtype=torch.uint8) if pictures else torch.randn(size))
        self.teacher = torch.randn(arguments.batch, graph.output[0].type.tensor_type.shape.dim[1].dim_value)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.count = sum(p.numel() for p in trained)
        self.optimizer = torch.optim.AdamW(trained, lr=1e-5)
        self.trained = trained

    def step(self):
        start, busy = time.perf_counter(), time.process_time()
        self.optimizer.zero_grad()
        loss_of(self.model(*self.inputs), self.teacher).backward()
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0)
        self.optimizer.step()
        return 1e3 * (time.perf_counter() - start), 1e3 * (time.process_time() - busy)


for kind in arguments.kinds.split(","):
    ours = subprocess.Popen(
        ["build/student_bench", arguments.model, "--role", arguments.role, "--kind", kind,
         "--batch", str(arguments.batch), "--threads", str(arguments.threads), "--target", "(?!.*conv_stem).*"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    says = ours.stdout.readline().strip()
    layouts = {"channels first": torch.contiguous_format, "channels last": torch.channels_last}
    wanted = arguments.layouts.split(",") if arguments.role == "driver" else ["first"]
    layouts = {name: layout for name, layout in layouts.items() if name.split()[1] in wanted}
    peers = {f"eager, {layout}": Torch(kind, format, False) for layout, format in layouts.items()}
    for layout, format in layouts.items() if arguments.compile else ():
        name = f"compiled, {layout}"
        try:
            peers[name] = Torch(kind, format, True)
            peers[name].step()
        except Exception as error:  # whatever the compiler meets in the converted model
            print(f"{kind}: torch.compile fails: {type(error).__name__}")
            peers.pop(name, None)
    for peer in peers.values():
        for _ in range(3):
            peer.step()
    rounds = {name: [] for name in ["ours", *peers]}
    for _ in range(arguments.rounds):
        ours.stdin.write(f"{arguments.steps}\n")
        ours.stdin.flush()
        wall, _, busy = map(float, ours.stdout.readline().split())
        rounds["ours"].append((wall, busy))
        for name, peer in peers.items():
            rounds[name].append(tuple(map(statistics.median, zip(*(peer.step() for _ in range(arguments.steps))))))
    ours.stdin.close()
    ours.wait()
    for which, what in enumerate(["ms", "ms of processor time"]):
        times = {name: [each[which] for each in all_rounds] for name, all_rounds in rounds.items()}
        best = min(peers, key=lambda name: statistics.median(times[name]))
        ratios = sorted(theirs / own for theirs, own in zip(times[best], times["ours"]))
        others = ", ".join(f"{name} {statistics.median(times[name]):.1f}" for name in peers if name != best)
        print(f"{kind}: sparkpilot {statistics.median(times['ours']):.1f} {what} ({says}), PyTorch {best} "
              f"{statistics.median(times[best]):.1f} ({peers[best].count} parameters on {peers[best].linears} layers, "
              f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB{'; ' + others if others else ''}), "
              f"{statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})", flush=True)
