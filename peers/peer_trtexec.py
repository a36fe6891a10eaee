#!/usr/bin/env python3
"""TensorRT as a peer, through the trtexec program that comes with it: an engine is built once, then run by trtexec, whose
trace and outputs are read. Times are those of computation on the GPU, without transfers.

Written after trtexec's documentation and sources and tested with a stand-in for it; it has not yet run on a GPU.
"""
import json
import os
import re
import shutil
import subprocess

import numpy

import sparkpilot_peer
from sparkpilot_peer import Refused

PLACES = "/usr/src/tensorrt/bin:/usr/local/tensorrt/bin:/opt/tensorrt/bin"  # outside of PATH, where packages put it
FLAGS = {"model": [], "fp32": ["--noTF32"], "fp16": ["--fp16"], "bf16": ["--bf16"]}


class Adapter:
    def __init__(self):
        self.program = shutil.which("trtexec") or shutil.which("trtexec", path=PLACES)
        if not self.program:
            raise Refused("trtexec is not installed: expected in PATH or /usr/src/tensorrt/bin")
        banner = subprocess.run([self.program, "--version"], capture_output=True, text=True, check=False)
        version = version_in(banner.stdout + banner.stderr)
        if version < (8, 6):
            found = ".".join(map(str, version)) or "none that it says"
            raise Refused(f"TensorRT 8.6 or newer expected, found {found} ({self.program})")
        self.engine = "TensorRT " + ".".join(map(str, version))
        self.inputs = []

    def load(self, request):
        if request["provider"]:
            raise Refused(f"has no providers, got {request['provider']}")
        if request["outputs"]:
            raise Refused("gives the file's outputs only, no values inside")
        if request["precision"] not in FLAGS:
            raise Refused(f"expected the precision model, fp32, fp16 or bf16, got {request['precision']}")
        words = [f"--onnx={request['model']}", "--saveEngine=engine.plan", "--skipInference",
                 *FLAGS[request["precision"]]]
        # trtexec refuses shapes for inputs whose shape is fixed.
        if request["shapes"]:
            words.append("--shapes=" + shapes_text(request["shapes"]))
        self.shapes = words[-1:] if request["shapes"] else []
        self.call(*words)
        if not os.path.exists("engine.plan"):
            raise Refused("trtexec wrote no engine")
        return {"device": "GPU", "precision": sparkpilot_peer.precision_of(request), "threads": None}

    def set_inputs(self, arrays):
        self.inputs = []
        for i, (name, array) in enumerate(arrays.items()):
            numpy.ascontiguousarray(array).tofile(f"in_{i}.bin")
            self.inputs.append(f"{name}:in_{i}.bin")

    def run(self, count):
        self.call("--loadEngine=engine.plan", *self.shapes, f"--loadInputs={','.join(self.inputs)}",
                  f"--iterations={count}", "--duration=0", "--warmUp=100", "--useSpinWait", "--exportTimes=times.json",
                  "--exportOutput=outputs.json")
        with open("times.json", encoding="utf-8") as file:
            times = [float(one["computeMs"]) for one in json.load(file)]
        if len(times) < count:
            raise Refused(f"trtexec timed {len(times)} runs, expected {count}")
        return times[-count:]  # those before are the warm-up

    def outputs(self):
        with open("outputs.json", encoding="utf-8") as file:
            text = file.read()
        # C++ writes values that JSON does not have.
        text = re.sub(r"-nan\b|\bnan\b", "NaN", text)
        text = re.sub(r"\binf\b", "Infinity", text)
        arrays = {}
        for output in json.loads(text):
            sizes = [int(size) for size in output["dimensions"].split("x") if size]
            arrays[output["name"]] = numpy.array(output["values"], dtype=numpy.float32).reshape(sizes)
        return arrays

    def call(self, *words):
        done = subprocess.run([self.program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", check=False)
        if done.returncode == 0:
            return
        errors = [line.split("[E]", 1)[1].strip() for line in done.stdout.splitlines() if "[E]" in line]
        last = [line for line in done.stdout.splitlines() if line.strip()][-1:]
        raise Refused(f"trtexec ended with {done.returncode}: {(errors[:1] or last or ['it said nothing'])[0]}")


def version_in(banner):
    """The version in "[TensorRT v100900]" (10.9.0) or "[TensorRT v8602]" (8.6.2) as numbers; () if there is none."""
    found = re.search(r"\[TensorRT v(\d+)\]", banner)
    if not found:
        return ()
    number = int(found[1])
    if number >= 10_000:
        return number // 10_000, number // 100 % 100, number % 100
    return number // 1000, number // 100 % 10, number % 100


def shapes_text(shapes):
    return ",".join(f"{name}:{'x'.join(map(str, sizes)) or 'scalar'}" for name, sizes in shapes.items())


if __name__ == "__main__":
    sparkpilot_peer.serve(Adapter)
