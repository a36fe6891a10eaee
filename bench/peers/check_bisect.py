#!/usr/bin/env python3
"""Plants faults in real networks and has `compare --bisect --peer onnxruntime` find them.

    .venv/bin/python bench/peers/check_bisect.py [FILE...] [--program build/sparkpilot]     (after make peers)

In copies of each file the weights of one convolution or product are 5 % larger: at six places, one at a time. sparkpilot
runs the copy and ONNX Runtime the file; the node must be the one that is named, or among those computed with it. Without
FILEs: networks in fp32 under ../shared/assets. Exit code 4 where one is not found, or takes more runs than it may.
"""
import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ASSETS = pathlib.Path(os.environ.get("SPARKPILOT_ASSETS", ROOT.parent / "shared/assets"))
NETWORKS = ["openpilot_dm/dmonitoring_model_2021-06", "thirdparty/FastestDet", "wakeword/embedding_model",
            "controls_challenge/tinyphysics", "thirdparty/ultraface_version-RFB-320_128"]
PLACES = (0.05, 0.2, 0.4, 0.6, 0.8, 0.95)


def plant(path, place, copy):
    """Writes the copy; returns the label of the node whose weights are larger."""
    model = onnx.load(path)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    # Nodes without a name are numbered; constants are no nodes to sparkpilot.
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    products = [(i, node) for i, node in enumerate(nodes) if node.op_type in ("Conv", "Gemm", "MatMul")
                and len(node.input) > 1 and node.input[1] in weights]
    at, node = products[int(len(products) * place)]
    tensor = weights[node.input[1]]
    tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * numpy.float32(1.05), tensor.name))
    onnx.save(model, copy)
    return node.name or f"{node.op_type}#{at}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path, metavar="FILE")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/sparkpilot")
    options = parser.parse_args()
    files = options.files or [ASSETS / f"{name}.onnx" for name in NETWORKS if (ASSETS / f"{name}.onnx").is_file()]
    if not files:
        sys.exit(f"{ASSETS} is not there: name files")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            for place in PLACES:
                copy = pathlib.Path(folder) / "planted.onnx"
                label = plant(file, place, copy)
                done = subprocess.run([options.program, "compare", copy, file, "--bisect", "--peer", "onnxruntime",
                                       "--threads", "1", "--json"], capture_output=True, text=True, check=False)
                if done.returncode not in (0, 4):
                    sys.exit(f"{file}: {done.stderr.strip()}")
                found = json.loads(done.stdout)
                named = found["fault"]["nodes"] if found["fault"] else []
                most = found["sample"] + 2 + math.log2(found["values"])
                good = label in named and found["runs"] <= most
                wrong += not good
                print(f"{'ok   ' if good else 'WRONG'} {file.stem}: {label}, found among {len(named)} in "
                      f"{found['runs']} runs (at most {most:.1f})" + ("" if good else f": {', '.join(named)}"))
    print(f"{len(files) * len(PLACES) - wrong} of {len(files) * len(PLACES)} found")
    return 4 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
