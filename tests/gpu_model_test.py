#!/usr/bin/env python3
"""bench/gpu_model.py: its arithmetic on nodes computed by hand, and a whole plan on the emulated driver.

Usage: gpu_model_test.py BUILD
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
import gpu_model  # noqa: E402

GPU = {"target": "sm_90", "multiprocessors": 10, "bandwidth": 1e9, "half": 1e12, "single": 1e10}
BUDGET = {"multiplies": {"sm_90": [32, 0], "ptx": [0, 0, 8, 0]}, "adds": {"sm_90": [255, 1024], "ptx": [0, 0, 0, 0]}}


def expect(got, wanted):
    if got != wanted and not (isinstance(got, float) and abs(got - wanted) < 1e-6 * wanted):
        sys.exit(f"expected {wanted}, got {got}")


def modelled(bytes_, flops, *launches):
    node = {"bytes": bytes_, "flops": flops, "launches": list(launches)}
    gpu_model.modelled_us(node, GPU, BUDGET)
    return node


def main():
    # 1 kB at 1 GB/s by all; by one block, which draws twice a tenth of it; 30 MFLOP of mma in 11 blocks on 10, and in ones.
    expect(modelled(1000, 0, ("adds", 10, 128, 0))["model_us"], 0.6 + 1)
    expect(modelled(1000, 0, ("adds", 1, 128, 0))["model_us"], 0.6 + 5)
    expect(modelled(0, 30e6, ("multiplies", 11, 128, 0))["model_us"], 0.6 + 30 * 2 / 11 * 10)
    expect(modelled(0, 30e6, ("adds", 11, 128, 0))["model_us"], 0.6 + 3000 * 2 / 11 * 10)
    expect(modelled(1000, 30e6, ("multiplies", 10, 128, 0))["floor_us"], 30.0)
    node = {"bytes": 1000, "flops": 30e6, "launches": [("adds", 10, 128, 0)]}
    gpu_model.modelled_us(node, GPU, BUDGET, "single")
    expect(node["floor_us"], 3000.0)
    # A second launch costs its node; two blocks of 255 registers and 128 threads fit, and one with 200 KB.
    expect(modelled(1000, 0, ("adds", 21, 128, 0), ("adds", 1, 32, 0))["model_us"], 1.2 + 1)
    expect(modelled(1000, 0, ("adds", 21, 128, 0))["waves"], 2)
    expect(modelled(1000, 0, ("adds", 21, 128, 200 << 10))["waves"], 3)

    build = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([build / "sparkpilot", "zoo", "build", "tiny_driving_policy", "--out", folder], check=True, capture_output=True)
        options = argparse.Namespace(build=build, precision="fp16", batch=1, output=[])
        nodes = gpu_model.plan_of(f"{folder}/tiny_driving_policy.onnx", "gb10", options)
    products = [n for n in nodes if n["op"] == "sparkpilot::Gemm"]
    if len(products) < 10 or any(not re.match("(gemv|gemm|direct_gemm)_", n["launches"][0][0]) for n in products):
        sys.exit(f"expected products to launch gemv, gemm or direct_gemm, got {[n['launches'] for n in products]}")
    # [1,16] x 16: four rows to a block of 128 threads.
    expect([n["launches"] for n in products if n["shape"] == "[1,8]"][0], [("gemv_f32_weights_f16", 2, 128, 0)])


if __name__ == "__main__":
    main()
