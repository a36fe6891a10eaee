#!/usr/bin/env python3
"""PyTorch as a peer, on modules that onnx2torch makes of the files.

Providers: cpu (the default); cuda; cuda-graph, the same operations recorded as a CUDA graph; cpu-compiled and cuda-compiled, by
torch.compile, which is recorded on a GPU, too.
"""
import operator
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
        providers = ("cpu", "cpu-compiled", "cuda", "cuda-graph", "cuda-compiled")
        if provider not in providers:
            raise Refused(f"expected the provider {', '.join(providers[:-1])} or {providers[-1]}, got {provider}")
        if request["precision"] not in ("model", "fp32"):
            raise Refused(f"computes in the types of the file, not in {request['precision']}")
        if request["outputs"]:
            raise Refused("gives the file's outputs only, no values inside")
        os.environ["OMP_NUM_THREADS"] = str(request["threads"])
        import onnx
        import onnx2torch
        import torch
        if provider.startswith("cuda") and not torch.cuda.is_available():
            raise Refused("PyTorch finds no usable CUDA device")
        self.torch, self.device = torch, provider.split("-")[0]
        self.plain, self.compiled = "-" not in provider, provider.endswith("-compiled")
        if self.module is None:
            torch.set_num_interop_threads(1)  # can be set once
        torch.set_num_threads(request["threads"])
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True  # the fastest algorithms, found before the runs that are timed
        model = onnx.load(request["model"])
        constant = {tensor.name for tensor in model.graph.initializer}
        self.inputs = [value.name for value in model.graph.input if value.name not in constant]
        self.names = [value.name for value in model.graph.output]
        self.module = onnx2torch.convert(model).eval().to(self.device)
        self.shapes = None  # those that `operations` are made for
        return {"device": provider.upper(), "precision": sparkpilot_peer.precision_of(request),
                "threads": torch.get_num_threads() if self.device == "cpu" else None}

    def set_inputs(self, arrays):
        missing = [name for name in self.inputs if name not in arrays]
        if missing:
            raise Refused(f"no input is given for {missing[0]}")
        self.arrays = [self.torch.from_numpy(arrays[name]).to(self.device) for name in self.inputs]
        self.call = lambda: (self.module if self.plain else self.operations)(*self.arrays)
        shapes = [tuple(array.shape) for array in self.arrays]
        if not self.plain and self.shapes != shapes:
            self.operations, self.shapes = self.traced(), shapes
            if self.compiled:
                self.operations = self.torch.compile(self.operations)
        if not self.plain and self.device == "cuda":
            self.record()
        self.run(1)

    def traced(self):
        """The operations that depend on the inputs, as a module: onnx2torch's modules read shapes and bounds back from the
        GPU in each run, which cannot be recorded and which torch.compile would split the graph at."""
        torch = self.torch
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils._pytree import tree_leaves, tree_map_only
        root, graph = torch.nn.Module(), torch.fx.Graph()
        nodes, kept = {}, list(self.arrays)  # the nodes of tensors by id(), and those tensors, so that no id comes back
        for i, array in enumerate(self.arrays):
            nodes[id(array)] = graph.placeholder(f"input_{i}")

        def node_of(tensor):
            if id(tensor) not in nodes:
                name = f"constant_{len(kept)}"
                root.register_buffer(name, tensor)
                keep(tensor, graph.get_attr(name))
            return nodes[id(tensor)]

        def keep(tensor, node):
            kept.append(tensor)
            nodes[id(tensor)] = node

        class Recorder(TorchDispatchMode):
            def __torch_dispatch__(self, function, types, args=(), kwargs=None):
                results = function(*args, **(kwargs or {}))
                used = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
                if any(id(tensor) in inputs_of for tensor in used):
                    if function == torch.ops.aten._local_scalar_dense.default:
                        raise Refused("the network's shapes or branches depend on its inputs, which cannot be recorded")
                    node = graph.call_function(function, *tree_map_only(torch.Tensor, node_of, (args, kwargs or {})))
                    several = isinstance(results, (list, tuple))
                    for i, result in enumerate(results if several else [results]):
                        if isinstance(result, torch.Tensor):
                            keep(result, graph.call_function(operator.getitem, (node, i)) if several else node)
                            inputs_of.add(id(result))
                return results

        inputs_of = set(nodes)  # the tensors that depend on inputs
        with torch.no_grad(), Recorder():
            results = self.module(*self.arrays)
        graph.output(tree_map_only(torch.Tensor, node_of, results))
        graph.eliminate_dead_code()
        return torch.fx.GraphModule(root, graph)

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
