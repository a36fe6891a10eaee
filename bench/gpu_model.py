#!/usr/bin/env python3
"""A modelled time of a model's plan on GPUs that are not there, beside the floor of bytes and FLOPs. Not a measurement.

Usage: bench/gpu_model.py MODEL.onnx... [--gpu gb10 rtx4090 h100] [--precision fp16] [--batch N] [--output NAME]
       [--nodes] [--build build]

The plan is made by the program on the emulated driver, which tells each launch; kernels compute nothing. A launch takes
node_us and the longest of: its bytes over the bandwidth; its FLOPs over the rate of the unit that its kernel uses; and
both for the multiprocessor that has most blocks, with its share of the rates. A node's bytes and FLOPs go to its launch
with most blocks; what a second launch reads again is not counted, nor are latencies within a kernel or what the caches
keep. The floor is bytes and FLOPs alone. Rates: bench/gpu_rates.json. Where docs/benchmarks/GPU.json has a time of the
model (`sparkpilot bench --json`), the model's error is printed, for a batch of one.

--worlds: the kernels of simulated worlds instead, which read and write little: steps a second if every lane of the GPU
issued an instruction in each cycle and a step took as many as the kernel has in all. The planner's, which run at every
fifth step only, are counted at each. An H200, which is like an H100 here, took 12 billion with a warp on each scheduler.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import gpu_budget  # noqa: E402

RATES = json.loads((ROOT / "bench" / "gpu_rates.json").read_text())


def plan_of(model, gpu, options):
    """The nodes of the plan, each with `launches`: (kernel, blocks, threads, dynamic shared bytes)."""
    build = pathlib.Path(options.build).resolve()
    done = subprocess.run(
        [build / "sparkpilot", "bench", model, "--device", "cuda", "--precision", options.precision, "--profile", "--json",
         "--batch", str(options.batch), *(f"--output={o}" for o in options.output), "--tune", "off", "--runs", "1", "--warmup", "0",
         "--repeats", "0", "--threads", "1"], capture_output=True, text=True, check=False,
        env=dict(os.environ, LD_LIBRARY_PATH=str(build / "emulated_cuda"), EMULATED_GPU=gpu, EMULATED_CUDA_IDLE="1"))
    if done.returncode:
        sys.exit(f"{model}: {done.stderr.strip()}")
    nodes = [node for node in json.loads(done.stdout)["models"][0]["profile"] if node["kernel"] != "view"]
    for node in nodes:
        node["launches"] = [(launch["kernel"], launch["blocks"], launch["threads"], launch["shared_bytes"])
                            for launch in node.get("launches", [])]
    return nodes


def modelled_us(node, gpu, budget, unit="half"):
    """Sets model_us and floor_us (of a node), blocks, and waves. unit: whose FLOPs the floor has."""
    count, bandwidth = gpu["multiprocessors"], gpu["bandwidth"]
    node["floor_us"] = 1e6 * max(node["bytes"] / bandwidth, node["flops"] / gpu[unit])
    node["model_us"], node["blocks"], node["kernels"] = 0.0, 0, "+".join(launch[0] for launch in node["launches"]) or "copy"
    node["waves"] = 0
    largest = max(node["launches"], key=lambda launch: launch[1], default=None)
    for launch in node["launches"]:
        kernel, blocks, threads, shared = launch
        node["model_us"] += RATES["node_us"]
        if launch is not largest:
            continue
        known = budget[kernel]
        registers, static = known[gpu["target"]][:2]
        architecture = int("".join(c for c in gpu["target"] if c.isdigit()))
        together = gpu_budget.blocks_of(architecture, registers, threads, static + shared)
        rate = gpu["half"] if known["ptx"][2] else gpu["single"]
        most = math.ceil(blocks / count) / blocks  # the share of the work that the busiest multiprocessor has
        node["blocks"], node["waves"] = blocks, math.ceil(blocks / (count * together))
        node["model_us"] += 1e6 * max(node["bytes"] / bandwidth, node["bytes"] * most * count / (RATES["draw"] * bandwidth),
                                      node["flops"] * most * count / rate)
    if not node["launches"]:  # a copy by the driver
        node["model_us"] = RATES["node_us"] + 1e6 * node["bytes"] / bandwidth


def worlds_table(budget, keys):
    print("| kernel | GPU | instructions | billion steps a second, modelled |")
    print("|---|---|---|---|")
    for kernel in sorted(k for k in budget if k.startswith("worlds_")):
        for key in keys:
            gpu = RATES["gpus"][key]
            instructions = budget[kernel][gpu["target"]][3]
            print(f"| {kernel} | {key} | {instructions} | {gpu['single'] / 2 / instructions / 1e9:.1f} |")


def measured_ms(key, model, precision):
    """Of docs/benchmarks/<gpu>.json, which gpu_check wrote on that GPU."""
    file = ROOT / "docs" / "benchmarks" / f"{key}.json"
    if not file.exists():
        return None
    part = json.loads(file.read_text())["parts"]["bench"]
    for network in part.get("go_on", part)["figures"]["networks"]:
        for variant in network["variants"]:
            if (network["network"].removesuffix(".onnx") == pathlib.Path(model).stem and variant["device"] == "GPU"
                    and variant["precision"] == precision):
                return variant["p50_ms"]
    return None


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("models", nargs="*")
    options.add_argument("--worlds", action="store_true", help="the kernels of simulated worlds")
    options.add_argument("--gpu", nargs="+", default=list(RATES["gpus"]), choices=list(RATES["gpus"]))
    options.add_argument("--precision", default="fp16", choices=["fp16", "bf16", "fp32"])
    options.add_argument("--batch", type=int, default=1)
    options.add_argument("--output", action="append", default=[], help="only this output, as of sparkpilot bench")
    options.add_argument("--nodes", action="store_true", help="a line for each node")
    options.add_argument("--build", default=ROOT / "build")
    options = options.parse_args()
    budget = json.loads((ROOT / "bench" / "gpu_budget.json").read_text())["kernels"]
    print("A model, not a measurement.\n")
    if options.worlds:
        worlds_table(budget, options.gpu)
        return
    if not options.models:
        sys.exit("expected models or --worlds")
    print("| model | GPU | nodes | launches | floor us | model us | ratio | of it launches us | measured us |")
    print("|---|---|---|---|---|---|---|---|---|")
    details = []
    for model in options.models:
        for key in options.gpu:
            gpu = RATES["gpus"][key]
            nodes = plan_of(model, key, options)
            for node in nodes:
                modelled_us(node, gpu, budget, "single" if options.precision == "fp32" else "half")
            floor, total = sum(n["floor_us"] for n in nodes), sum(n["model_us"] for n in nodes)
            launches = sum(max(1, len(n["launches"])) for n in nodes)
            measured = measured_ms(key, model, options.precision) if options.batch == 1 else None
            real = f"{1e3 * measured:.0f}, model {100 * (total / (1e3 * measured) - 1):+.0f} %" if measured else "none"
            name = pathlib.Path(model).stem
            print(f"| {name} | {key} | {len(nodes)} | {launches} | {floor:.1f} | {total:.1f} | {total / floor:.2f} |"
                  f" {launches * RATES['node_us']:.1f} | {real} |")
            few = [n for n in nodes if 2 * n["blocks"] < gpu["multiprocessors"] and n["floor_us"] > 0.02 * floor]
            details.append(f"\n{name} on {key}: {len(few)} nodes have fewer blocks than half the {gpu['multiprocessors']}"
                           f" multiprocessors and more than 2 % of the floor")
            for node in nodes if options.nodes else few:
                details.append(f"  {node['op']:24} {node['kernels']:36} {node['shape']:18} blocks {node['blocks']:5}"
                               f" waves {node['waves']:3} {node['bytes'] / 1e3:9.1f} kB {node['flops'] / 1e6:8.2f} MFLOP"
                               f" model {node['model_us']:7.2f} us floor {node['floor_us']:7.2f} us")
    print(*details, sep="\n")


if __name__ == "__main__":
    main()
