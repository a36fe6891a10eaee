#!/usr/bin/env python3
"""One process of ONNX Runtime on one model: what compare_onnxruntime.py starts beside each process of sparkpilot.

    peer_onnxruntime.py FILE --threads N --runs N [--inputs DIR] [--save DIR]

Prints one JSON object with the latency of a run in milliseconds. Inputs are seeded (or DIR/in_<index>.npy); they and the
outputs are arrays that the engine reads and writes in place. It is called through its C API, and what ctypes takes for
the call is taken off.
"""
import argparse
import json
import pathlib

import numpy
import onnxruntime

import onnxruntime_c

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


def outputs_of(session, inputs):
    """Arrays for the outputs by name, filled by a first run."""
    names = [value.name for value in session.get_outputs()]
    feed = dict(zip([value.name for value in session.get_inputs()], inputs))
    return feed, {name: numpy.ascontiguousarray(array) for name, array in zip(names, session.run(names, feed))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--inputs", type=pathlib.Path, help="read inputs from here, one .npy each, in their order")
    parser.add_argument("--save", type=pathlib.Path, help="write inputs and outputs here as .npy")
    options = parser.parse_args()

    # Python's session tells names and shapes; what is timed is another one, of the C API.
    session = open_session(options.file, 1)
    if options.inputs:
        inputs = [numpy.load(options.inputs / f"in_{i}.npy") for i in range(len(session.get_inputs()))]
    else:
        inputs = make_inputs(session)
    feed, outputs = outputs_of(session, [numpy.ascontiguousarray(array) for array in inputs])
    del session
    timed = onnxruntime_c.Session(options.file, options.threads, feed, outputs)
    first = timed.time(1)[0]
    timed.time(options.warmup)
    times = timed.time(options.runs)

    if options.save:
        options.save.mkdir(parents=True, exist_ok=True)
        for kind, arrays in (("in", feed), ("out", outputs)):
            for i, array in enumerate(arrays.values()):
                numpy.save(options.save / f"{kind}_{i}.npy", array)
    print(json.dumps({"engine": f"ONNX Runtime {onnxruntime.__version__}", "file": options.file,
                      "threads": options.threads, "runs": options.runs, "first_ms": first,
                      "mean_ms": float(numpy.mean(times)), "p50_ms": float(numpy.median(times)),
                      "p99_ms": float(numpy.percentile(times, 99, method="inverted_cdf")),
                      "min_ms": float(numpy.min(times)), "inputs": list(feed), "outputs": list(outputs)}))


if __name__ == "__main__":
    main()
