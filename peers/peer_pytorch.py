#!/usr/bin/env python3
"""PyTorch as a peer, on modules that onnx2torch makes of the files.

Providers: cpu (the default), cuda; cuda-compiled by torch.compile, cuda-graph as a CUDA graph of the eager module.
"""
import os
import time

import sparkpilot_peer
from sparkpilot_peer import Refused


class Adapter:
    def __init__(self):
        torch = sparkpilot_peer.version_of("torch", "2.0").split("+")[0]
        self.engine = f"PyTorch {torch}, onnx2torch {sparkpilot_peer.version_of('onnx2torch', '1.5')}"
        self.module = self.arrays = self.results = None

    def load(self, request):
        provider = request["provider"] or "cpu"
        if provider not in ("cpu", "cuda", "cuda-compiled", "cuda-graph"):
            raise Refused(f"expected the provider cpu, cuda, cuda-compiled or cuda-graph, got {provider}")
        if request["precision"] not in ("model", "fp32"):
            raise Refused(f"computes in the types of the file, not in {request['precision']}")
        if request["outputs"]:
            raise Refused("gives the file's outputs only, no values inside")
        os.environ["OMP_NUM_THREADS"] = str(request["threads"])
        import onnx
        import onnx2torch
        import torch
        if provider != "cpu" and not torch.cuda.is_available():
            raise Refused("PyTorch finds no usable CUDA device")
        self.torch, self.device, self.graph = torch, provider.split("-")[0], provider == "cuda-graph"
        if self.module is None:
            torch.set_num_interop_threads(1)  # can be set once
        torch.set_num_threads(request["threads"])
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        model = onnx.load(request["model"])
        constant = {tensor.name for tensor in model.graph.initializer}
        self.inputs = [value.name for value in model.graph.input if value.name not in constant]
        self.names = [value.name for value in model.graph.output]
        self.module = onnx2torch.convert(model).eval().to(self.device)
        if provider == "cuda-compiled":
            self.module = torch.compile(self.module)
        return {"device": provider.upper(), "precision": sparkpilot_peer.precision_of(request),
                "threads": torch.get_num_threads() if provider == "cpu" else None}

    def set_inputs(self, arrays):
        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise Refused(f"no input is given for {missing[0]}")
        self.arrays = [self.torch.from_numpy(arrays[name]).to(self.device) for name in self.inputs]
        self.call = lambda: self.module(*self.arrays)
        if self.graph:
            self.record()
        self.run(1)

    def record(self):
        """After some runs beside the usual stream, as torch.cuda.graph asks for."""
        torch = self.torch
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.inference_mode(), torch.cuda.stream(stream):
            for _ in range(3):
                self.call()
        torch.cuda.current_stream().wait_stream(stream)
        recorded = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(recorded):
            results = self.call()

        def replay():
            recorded.replay()
            return results

        self.call = replay

    def run(self, count):
        times = []
        with self.torch.inference_mode():
            for _ in range(count):
                start = time.perf_counter_ns()
                self.results = self.call()
                if self.device == "cuda":
                    self.torch.cuda.synchronize()
                times.append((time.perf_counter_ns() - start) * 1e-6)
        return times

    def outputs(self):
        several = isinstance(self.results, (list, tuple))
        results = list(self.results) if several else [self.results]
        return {name: result.detach().cpu().numpy() for name, result in zip(self.names, results)}


if __name__ == "__main__":
    sparkpilot_peer.serve(Adapter)
