#!/usr/bin/env python3
"""tinygrad as a peer, through its own ONNX reader and its JIT. Providers: its devices, cpu (the default), cuda, nv ..."""
import os
import shutil
import time

import sparkpilot_peer
from sparkpilot_peer import Refused


class Adapter:
    def __init__(self):
        self.engine = f"tinygrad {sparkpilot_peer.version_of('tinygrad', '0.11')}"
        self.loaded = None

    def load(self, request):
        device = (request["provider"] or "cpu").upper()
        if request["precision"] not in ("model", "fp32"):
            raise Refused(f"computes in the types of the file, not in {request['precision']}")
        if request["outputs"]:
            raise Refused("gives the file's outputs only, no values inside")
        asked = (device, request["threads"])
        if self.loaded not in (None, asked):
            raise Refused("device and threads are chosen once, when tinygrad starts")
        if device == "CPU" and not shutil.which("clang"):
            raise Refused("tinygrad compiles its CPU kernels with clang, which is not installed")
        # It reads these when it is imported.
        os.environ["DEV"] = device
        os.environ["NUM_CPU_THREADS"] = str(request["threads"])
        import tinygrad
        from tinygrad.nn.onnx import OnnxRunner
        self.tinygrad, self.loaded = tinygrad, asked
        self.device = tinygrad.Device.DEFAULT
        if self.device.split(":")[0] != device:
            raise Refused(f"tinygrad runs on {self.device}, expected {device}")
        self.runner = OnnxRunner(request["model"])
        self.inputs = list(self.runner.graph_inputs)
        return {"device": self.device, "precision": sparkpilot_peer.precision_of(request),
                "threads": request["threads"] if device == "CPU" else None}

    def set_inputs(self, arrays):
        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise Refused(f"no input is given for {missing[0]}")
        Tensor, TinyJit = self.tinygrad.Tensor, self.tinygrad.TinyJit
        self.arrays = {name: Tensor(arrays[name], device=self.device).realize() for name in self.inputs}
        runner = self.runner
        self.names = list(runner.graph_outputs)
        self.jit = TinyJit(lambda **inputs: [value.contiguous().realize() for value in runner(inputs).values()])
        self.run(3)  # the JIT records the second call and replays it from the third on

    def run(self, count):
        device, times = self.tinygrad.Device[self.device], []
        for _ in range(count):
            start = time.perf_counter_ns()
            self.results = self.jit(**self.arrays)
            device.synchronize()
            times.append((time.perf_counter_ns() - start) * 1e-6)
        return times

    def outputs(self):
        return {name: value.numpy() for name, value in zip(self.names, self.results)}


if __name__ == "__main__":
    sparkpilot_peer.serve(Adapter)
