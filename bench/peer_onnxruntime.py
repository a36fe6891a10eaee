#!/usr/bin/env python3
"""One process of ONNX Runtime on one model: what compare_onnxruntime.py starts beside each process of sparkpilot.

    peer_onnxruntime.py FILE --threads N --runs N [--inputs DIR] [--save DIR]

Prints one JSON object with the latency of a run in milliseconds. Inputs are seeded (or DIR/<index>.npy) and bound to the
session's own memory together with the outputs, so that no time goes into copying for Python.
"""
import argparse
import json
import pathlib
import time

import numpy
import onnxruntime

DTYPES = {"float": "float32", "double": "float64", "float16": "float16", "bool": "bool",
          **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}}


def open_session(path, threads):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def make_inputs(session, seed=1):
    """Normal floats, bytes of an image, and small indices that every table can take. Unfixed dimensions are 1."""
    random = numpy.random.default_rng(seed)
    inputs = []
    for value in session.get_inputs():
        shape = [size if isinstance(size, int) else 1 for size in value.shape]
        dtype = numpy.dtype(DTYPES[value.type.removeprefix("tensor(").removesuffix(")")])
        if dtype.kind == "f":
            inputs.append(random.standard_normal(shape).astype(dtype))
        elif dtype == numpy.uint8:
            inputs.append(random.integers(0, 256, shape, dtype))
        else:
            inputs.append(random.integers(0, 2, shape).astype(dtype))
    return inputs


def bind(session, inputs):
    binding = session.io_binding()
    for value, array in zip(session.get_inputs(), inputs):
        binding.bind_ortvalue_input(value.name, onnxruntime.OrtValue.ortvalue_from_numpy(array))
    for value in session.get_outputs():
        binding.bind_output(value.name, "cpu")
    # The first run finds the outputs' shapes; from then on they are written in place.
    session.run_with_iobinding(binding)
    for value, output in zip(session.get_outputs(), binding.get_outputs()):
        binding.bind_ortvalue_output(value.name, output)
    return binding


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--inputs", type=pathlib.Path, help="read inputs from here, one .npy each, in their order")
    parser.add_argument("--save", type=pathlib.Path, help="write inputs and outputs here as .npy")
    options = parser.parse_args()

    session = open_session(options.file, options.threads)
    if options.inputs:
        inputs = [numpy.load(options.inputs / f"in_{i}.npy") for i in range(len(session.get_inputs()))]
    else:
        inputs = make_inputs(session)
    binding = bind(session, inputs)
    for _ in range(options.warmup):
        session.run_with_iobinding(binding)
    times = []
    for _ in range(options.runs):
        start = time.perf_counter_ns()
        session.run_with_iobinding(binding)
        times.append((time.perf_counter_ns() - start) * 1e-6)

    names = {"inputs": [value.name for value in session.get_inputs()],
             "outputs": [value.name for value in session.get_outputs()]}
    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        for i, array in enumerate(inputs):
            numpy.save(options.save / f"in_{i}.npy", array)
        for i, array in enumerate(binding.copy_outputs_to_cpu()):
            numpy.save(options.save / f"out_{i}.npy", array)
    print(json.dumps({"engine": f"ONNX Runtime {onnxruntime.__version__}", "file": options.file,
                      "threads": options.threads, "runs": options.runs, "mean_ms": float(numpy.mean(times)),
                      "p50_ms": float(numpy.median(times)), "min_ms": float(numpy.min(times)), **names}))


if __name__ == "__main__":
    main()
