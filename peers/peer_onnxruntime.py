#!/usr/bin/env python3
"""ONNX Runtime as a peer. Providers: cpu (the default), cuda, tensorrt."""
import importlib.metadata
import os
import time

import sparkpilot_peer
from sparkpilot_peer import Refused

PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
SHORT = {name: short for short, name in PROVIDERS.items()}
LABELS = {"cpu": "CPU", "cuda": "CUDA", "tensorrt": "TensorRT"}


class Adapter:
    def __init__(self):
        self.version = sparkpilot_peer.version_of(installed_package(), "1.17")
        self.engine = f"ONNX Runtime {self.version}"
        self.session = self.binding = None

    def load(self, request):
        import onnxruntime
        provider = request["provider"] or "cpu"
        if provider not in PROVIDERS:
            raise Refused(f"expected the provider cpu, cuda or tensorrt, got {provider}")
        available = onnxruntime.get_available_providers()
        if PROVIDERS[provider] not in available:
            has = ", ".join(SHORT.get(name, name) for name in available)
            raise Refused(f"this ONNX Runtime {self.version} was built without {PROVIDERS[provider]}; it has {has}")
        settings = provider_settings(provider, request["precision"])

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = request["threads"]
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        providers = [(PROVIDERS[provider], settings)]
        if provider == "tensorrt":
            providers.append((PROVIDERS["cuda"], {"use_tf32": "0"}))
        if provider != "cpu":
            providers.append((PROVIDERS["cpu"], {}))
        model = with_outputs(request["model"], request["outputs"]) if request["outputs"] else request["model"]
        self.session = onnxruntime.InferenceSession(model, options, providers=providers)
        # It leaves out a provider that fails to start, and says so in its log only.
        if self.session.get_providers()[0] != PROVIDERS[provider]:
            raise Refused(f"{PROVIDERS[provider]} did not start; it would have run on {self.session.get_providers()[0]}")
        self.names = request["outputs"] or [output.name for output in self.session.get_outputs()]
        self.device = "cpu" if provider == "cpu" else "cuda"
        return {"device": LABELS[provider], "precision": sparkpilot_peer.precision_of(request),
                "threads": request["threads"] if provider == "cpu" else None}

    def set_inputs(self, arrays):
        from onnxruntime import OrtValue
        known = {value.name for value in self.session.get_inputs()}
        self.binding = self.session.io_binding()
        for name in known:
            if name not in arrays:
                raise Refused(f"no input is given for {name}")
            self.binding.bind_ortvalue_input(name, OrtValue.ortvalue_from_numpy(arrays[name], self.device, 0))
        for name in self.names:
            self.binding.bind_output(name, self.device)
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()
        # Outputs of fixed shape are written where the first run put them, so that further runs allocate none.
        shapes = {value.name: value.shape for value in self.session.get_outputs()}
        values = self.binding.get_outputs()
        if all(isinstance(size, int) for name in self.names for size in shapes[name] or ()):
            self.binding.clear_binding_outputs()
            for name, value in zip(self.names, values):
                self.binding.bind_ortvalue_output(name, value)

    def run(self, count):
        times = []
        for _ in range(count):
            start = time.perf_counter_ns()
            self.session.run_with_iobinding(self.binding)
            if self.device != "cpu":
                self.binding.synchronize_outputs()
            times.append((time.perf_counter_ns() - start) * 1e-6)
        return times

    def outputs(self):
        values = zip(self.names, self.binding.get_outputs())
        return {name: value.numpy() for name, value in values if value.is_tensor()}


def installed_package():
    """ONNX Runtime is published under two names, which both bring the module onnxruntime."""
    try:
        importlib.metadata.version("onnxruntime-gpu")
        return "onnxruntime-gpu"
    except importlib.metadata.PackageNotFoundError:
        return "onnxruntime"


def provider_settings(provider, precision):
    """Options of the provider for the precision; it computes in the types of the file unless TensorRT is told more."""
    if precision in ("model", "fp32"):
        return {} if provider != "cuda" else {"use_tf32": "0"}
    if provider == "tensorrt" and precision in ("fp16", "bf16"):
        return {f"trt_{precision}_enable": "True"}
    raise Refused(f"computes in the types of the file, not in {precision}: give it a file of that type")


def with_outputs(path, names):
    """The model with these values as its outputs: its bytes, or a file here where they are too many."""
    sparkpilot_peer.version_of("onnx", "1.14")
    import onnx
    model = onnx.load(path)
    made = {name for node in model.graph.node for name in node.output}
    unknown = [name for name in names if name not in made]
    if unknown:
        raise Refused(f"the file has no value {unknown[0]}")
    infos = {info.name: info for info in (*model.graph.output, *model.graph.value_info)}
    outputs = [infos.get(name) or onnx.ValueInfoProto(name=name) for name in names]
    del model.graph.output[:]
    model.graph.output.extend(outputs)
    if model.ByteSize() < 1 << 30:
        return model.SerializeToString()
    onnx.save(model, "outputs.onnx", save_as_external_data=True, location="outputs.bin")
    return os.path.abspath("outputs.onnx")


if __name__ == "__main__":
    sparkpilot_peer.serve(Adapter)
