#!/usr/bin/env python3
"""The training step of `build/train_bench MODEL --export FOLDER` in PyTorch: its losses, its time, its memory.

    build/train_bench driving_policy --batch 32 --threads 2 --export out/step
    python bench/peers/train_torch.py out/step --threads 2 [--turns 3 --bench build/train_bench ...]

With --bench the program is run in turns with PyTorch, never beside it, and the medians' ratio is printed.
Needs torch, onnx2torch and safetensors.
"""

import argparse
import re
import resource
import statistics
import subprocess
import time
from pathlib import Path


def step_in_torch(folder, threads, steps):
    import onnx
    import torch
    from onnx2torch import convert
    from safetensors import safe_open

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    with safe_open(folder / "batch.safetensors", "pt") as file:
        names = file.metadata() or {}
        batch = {name: file.get_tensor(name) for name in file.keys()}
    file = onnx.load(folder / "model.onnx")
    for node in file.graph.node:  # no shape has a 0, and onnx2torch does not know the attribute
        for each in [a for a in node.attribute if a.name == "allowzero"]:
            node.attribute.remove(each)
    model = convert(file)
    # Weights of products that onnx2torch keeps as buffers of the whole graph.
    container = model.initializers if hasattr(model, "initializers") else None
    if container is not None:
        weights = [each for each in file.graph.initializer if each.name in names]
        by_value = {each.name: onnx.numpy_helper.to_array(each) for each in weights}
        for name, buffer in list(container.named_buffers()):
            wanted = any(
                array.shape == tuple(buffer.shape) and (array == buffer.numpy()).all() for array in by_value.values()
            )
            if wanted:
                del container._buffers[name]
                container.register_parameter(name, torch.nn.Parameter(buffer.clone()))
    parameters = [p for p in model.parameters() if p.dtype == torch.float32]
    for p in parameters:
        p.requires_grad_()
    wide = [p for p in parameters if sum(d > 1 for d in p.shape) > 1]
    rest = [p for p in parameters if sum(d > 1 for d in p.shape) <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": wide, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=1e-4
    )
    inputs = [batch[each.name] for each in file.graph.input]
    losses, times = [], []
    for i in range(steps + 2):
        begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        out = model(*inputs)
        out = out[0] if isinstance(out, (list, tuple)) else out
        loss = torch.nn.functional.mse_loss(out, batch["target"])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        losses.append(loss.item())
        if i >= 2:
            times.append(1e3 * (time.perf_counter() - begin))
    count = sum(p.numel() for p in parameters)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"PyTorch {torch.__version__}, {threads} threads: {count} parameters in {len(parameters)} tensors")
    print(f"ms, median of {steps}: step {statistics.median(times):.2f}; peak {peak:.0f} MB")
    print("losses:", " ".join(f"{each:.7g}" for each in losses[:10]))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--threads", type=int, default=1)
    arguments.add_argument("--steps", type=int, default=20)
    arguments.add_argument("--turns", type=int, default=3)
    arguments.add_argument("--bench", nargs=argparse.REMAINDER, help="the command of train_bench, to run in turns")
    given = arguments.parse_args()
    if not given.bench:
        return step_in_torch(given.folder, given.threads, given.steps)
    times = {"sparkpilot": [], "PyTorch": []}
    torch = [__import__("sys").executable, __file__, given.folder, "--threads", given.threads, "--steps", given.steps]
    for _ in range(given.turns):
        for name, command in (("sparkpilot", given.bench), ("PyTorch", torch)):
            text = subprocess.run([str(each) for each in command], check=True, capture_output=True, text=True).stdout
            print(text, end="")
            times[name].append(float(re.search(r"step ([0-9.]+)", text)[1]))
    medians = {name: statistics.median(each) for name, each in times.items()}
    print(f"medians of {given.turns} turns: {medians}, ratio {medians['PyTorch'] / medians['sparkpilot']:.2f}")


main()
