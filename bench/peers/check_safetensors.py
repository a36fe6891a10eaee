#!/usr/bin/env python3
"""Safetensors files of Hugging Face's package and of sparkpilot.

check_safetensors.py --golden FILE: writes the file that src/tensor/safetensors_test.cc compares with, one tensor a type.
check_safetensors.py FILE...: loads each of sparkpilot's files with the package, prints its tensors, and writes it again:
the data must be the same bytes.

Needs the packages safetensors and torch."""
import argparse
import json
import struct
import sys

import safetensors
import safetensors.torch
import torch

TYPES = {"f64": torch.float64, "i64": torch.int64, "u64": torch.uint64, "f32": torch.float32, "i32": torch.int32,
         "u32": torch.uint32, "f16": torch.float16, "bf16": torch.bfloat16, "i16": torch.int16, "u16": torch.uint16,
         "bool": torch.bool, "i8": torch.int8, "u8": torch.uint8}


def write_golden(path):
    tensors = {"nothing": torch.empty((0, 5), dtype=torch.uint8)}
    for i, (name, dtype) in enumerate(TYPES.items()):
        shape = [[], [3], [2, 2], [1, 3, 1]][i % 4]
        count = 1
        for size in shape:
            count *= size
        # A boolean is 0 or 1.
        data = bytearray((7 * k + i) % (2 if name == "bool" else 120) for k in range(count * dtype.itemsize))
        tensors[f"{name}.weight"] = torch.frombuffer(data, dtype=dtype).reshape(shape)
    with open(path, "wb") as file:
        file.write(safetensors.torch.save(tensors, {"format": 'p"t'}))


def data_of(bytes_):
    length = struct.unpack("<Q", bytes_[:8])[0]
    header = json.loads(bytes_[8:8 + length])
    header.pop("__metadata__", None)
    return {name: bytes_[8 + length + at["data_offsets"][0]:8 + length + at["data_offsets"][1]] for name, at in header.items()}


def check(path):
    tensors = safetensors.torch.load_file(path)
    with safetensors.safe_open(path, "pt") as file:
        metadata = file.metadata()
    for name, tensor in tensors.items():
        print(f"  {name}: {tensor.dtype} {list(tensor.shape)}")
    again = data_of(safetensors.torch.save(tensors, metadata))
    with open(path, "rb") as file:
        mine = data_of(file.read())
    if again != mine:
        return f"{path}: the data differs: {sorted(name for name in mine if again.get(name) != mine[name])}"
    print(f"{path}: {len(tensors)} tensors, the same bytes; safetensors {safetensors.__version__}, torch {torch.__version__}")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--golden")
    args = parser.parse_args()
    if args.golden:
        write_golden(args.golden)
    wrong = [error for error in map(check, args.files) if error]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
