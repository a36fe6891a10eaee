#!/usr/bin/env python3
"""Holds what `stack audit` finds in libraries against NVIDIA's cuobjdump, image by image.

    bench/check_fatbin.py --cuobjdump $(which cuobjdump) /usr/local/cuda/lib64 wheels-unpacked/

cuobjdump comes with the CUDA toolkit, or as the Python package nvidia-cuda-cuobjdump. It lists the sections .nv_fatbin and
__nv_relfatbin, names machine code for a family (sm_120f) without the letter, and does not list LTO code; so the images of
those two sections are counted by architecture with that letter left out. What lies elsewhere is counted beside it.
Prints a table; exit code 4 where a library differs.
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import time

SECTIONS = (".nv_fatbin", "__nv_relfatbin")


def listed(cuobjdump, library):
    """Counts of ('sass' or 'ptx', architecture) as cuobjdump lists them; None where it gives up."""
    counts = collections.Counter()
    for flag, kind, end in (("-lelf", "sass", "cubin"), ("-lptx", "ptx", "ptx")):
        done = subprocess.run([cuobjdump, "-all", flag, library], capture_output=True, text=True, check=False)
        if "cuobjdump fatal" in done.stdout + done.stderr:
            return None
        for name in re.findall(rf"^\w+ file +\d+: .*\.sm_(\w+)\.{end}$", done.stdout, re.MULTILINE):
            counts[kind, name.rstrip("f") if kind == "sass" else name] += 1
    return counts


def found(program, library):
    """Ours of the same two sections; how many images lie in each other place; seconds."""
    begin = time.monotonic()
    text = subprocess.run([program, "stack", "audit", "--json", "--quiet", "--path", library], capture_output=True, text=True,
                          check=True).stdout
    seconds = time.monotonic() - begin
    counts, elsewhere = collections.Counter(), collections.Counter()
    for entry in json.loads(text)["libraries"]:
        for group in entry["gpu_code"]:
            prefix, name = group["target"].split("_")
            if group["section"] not in SECTIONS or group["bare"]:
                elsewhere[group["section"] + (" bare" if group["bare"] else "")] += group["images"]
            elif prefix == "sm":
                counts["sass", name.rstrip("f")] += group["images"]
            elif prefix == "compute":
                counts["ptx", name] += group["images"]
            else:
                elsewhere["LTO"] += group["images"]
    return counts, elsewhere, seconds


def libraries(paths):
    for path in map(pathlib.Path, paths):
        inside = [path] if path.is_file() else sorted(path.rglob("*.so*"))
        yield from (file for file in inside if file.is_file() and not file.is_symlink() and re.search(r"\.so(\.\d+)*$", file.name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--program", default="build/sparkpilot")
    parser.add_argument("paths", nargs="+", metavar="PATH", help="libraries, or folders of them")
    arguments = parser.parse_args()
    print("| library | MB | images that cuobjdump lists | the same | elsewhere | ms |\n|---|---|---|---|---|---|")
    checked = different = 0
    for file in libraries(arguments.paths):
        ours, elsewhere, seconds = found(arguments.program, str(file))
        theirs = listed(arguments.cuobjdump, str(file))
        if not ours and not theirs and not elsewhere:
            continue
        if theirs is None:
            print(f"{file}: cuobjdump gives up on it", file=sys.stderr)
            continue
        checked += 1
        different += ours != theirs
        places = ", ".join(f"{count:,} in {place}" if place != "LTO" else f"{count:,} of LTO code" for place, count in sorted(elsewhere.items()))
        print(f"| {file.name} | {file.stat().st_size / 1e6:.0f} | {sum(theirs.values()):,} | {'yes' if ours == theirs else 'NO'} | "
              f"{places or '-'} | {seconds * 1e3:.0f} |", flush=True)
        for key in sorted(set(ours) | set(theirs)):
            if ours[key] != theirs[key]:
                print(f"{file}: {' '.join(key)}: {ours[key]} found, {theirs[key]} listed by cuobjdump", file=sys.stderr)
    print(f"{checked} libraries with GPU code, {different} different", file=sys.stderr)
    return 4 if different or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
