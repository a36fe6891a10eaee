#!/usr/bin/env python3
"""An adapter for tests, without any package: its engine computes y = 1.5 * x. The provider says how it misbehaves."""
import json
import os
import random
import re
import struct
import sys
import time


def read_npy(file):
    """Shape and floats of a .npy file of 32-bit floats."""
    with open(file, "rb") as data:
        size = struct.unpack("<H", data.read(10)[8:])[0]
        header = data.read(size).decode()
        shape = [int(number) for number in re.search(r"'shape': \((.*?)\)", header)[1].split(",") if number.strip()]
        rest = data.read()
    return shape, struct.unpack(f"<{len(rest) // 4}f", rest)


def write_npy(file, shape, values, code="<f4"):
    header = f"{{'descr': '{code}', 'fortran_order': False, 'shape': ({''.join(f'{size},' for size in shape)}), }}"
    header = header.ljust(117) + "\n"
    with open(file, "wb") as data:
        data.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        data.write(struct.pack(f"<{len(values)}f", *values))


def say(answer):
    print(json.dumps(answer), flush=True)


class Fake:
    def __init__(self, mode):
        self.mode, self.file, self.runs = mode, None, 0

    def load(self, request):
        if self.mode == "refuse":
            return {"error": "this engine\nhas no device"}
        if self.mode == "crash":
            sys.exit("RuntimeError: out of device memory")
        if self.mode == "abort":
            os.abort()
        if self.mode == "hang":
            time.sleep(1000)
        if self.mode == "silent_end":
            os._exit(0)
        if self.mode == "garbage":
            sys.stdout.buffer.write(b"\xff\xfe\x00garbage\x1b[31m\n")
            sys.stdout.flush()
            time.sleep(1000)
        if self.mode.startswith("random."):
            source = random.Random(int(self.mode.split(".")[1]))
            sys.stdout.buffer.write(random_bytes(source) + b"\n")
            sys.stdout.flush()
            return None
        if self.mode == "endless":
            while True:
                sys.stdout.write("x" * 65536)
        if self.mode == "deep":
            print("[" * 1_000_000 + "]" * 1_000_000, flush=True)
            return None
        if self.mode == "threads":
            return {"device": "CPU", "precision": "fp32", "threads": "many"}
        if self.mode == "huge_threads":
            return {"device": "CPU", "precision": "fp32", "threads": 2**40}
        if self.mode == "no_device":
            return {"precision": "fp32", "threads": 1}
        precision = "model" if self.mode == "model" else request["precision"]
        return {"device": "CPU", "precision": precision, "threads": request["threads"]}

    def inputs(self, request):
        self.file = request["files"]["x"]
        return {}

    def run(self, request):
        self.runs += 1
        if self.mode == "crash_later" and self.runs == 4:
            sys.exit("Segfault: in a kernel")
        if self.mode == "hang_run":
            time.sleep(1000)
        start = time.perf_counter()
        times = [0.01] * request["count"]
        while (time.perf_counter() - start) * 1e3 < sum(times):
            pass
        wrong = {"fewer": times[1:], "negative": [-1.0] * len(times), "long": [1e9] * len(times),
                 "text": ["1"] * len(times), "none": None}
        return {"ms": wrong.get(self.mode, times)}

    def outputs(self, _):
        shape, values = read_npy(self.file)
        code = "<f4"
        if self.mode == "shape":
            shape, values = [len(values) - 1], values[1:]
        if self.mode == "double":
            code = "<f8"
        write_npy("y.npy", shape, [1.5 * value for value in values], code)
        if self.mode == "nan":
            write_npy("y.npy", shape, [float("nan")] * len(values))
        name, file = "y", "y.npy"
        if self.mode == "outside":
            file = "../y.npy"
        if self.mode == "link":
            os.symlink("y.npy", "z.npy")
            file = "z.npy"
        if self.mode == "folder":
            os.mkdir("z.npy")
            file = "z.npy"
        if self.mode == "huge":
            os.truncate("y.npy", 1 << 40)
        if self.mode == "other_name":
            name = "z"
        if self.mode == "twice":
            return {"outputs": [{"name": "y", "file": file}, {"name": "y", "file": file}]}
        if self.mode == "no_list":
            return {"outputs": 3}
        return {"outputs": [{"name": name, "file": file}]}


def random_bytes(source):
    """Bytes, or an answer with some of its characters changed."""
    if source.random() < 0.5:
        return bytes(source.randrange(256) for _ in range(source.randrange(300)))
    answer = bytearray(b'{"device": "CPU", "precision": "fp32", "threads": 1, "more": [1e3, null, "\\u00e9"]}')
    for _ in range(source.randrange(1, 6)):
        answer[source.randrange(len(answer))] = source.randrange(256)
    return bytes(answer)


def main():
    print("chatter on stderr", file=sys.stderr)
    say({"protocol": 1, "engine": "Fake 1.0"})
    fake = None
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "load":
            fake = Fake(request["provider"])
        answer = getattr(fake, request["do"])(request)
        if answer is not None:
            say(answer)


if __name__ == "__main__":
    main()
