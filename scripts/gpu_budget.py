#!/usr/bin/env python3
"""What every CUDA kernel takes on every architecture, held to bench/gpu_budget.json.

Usage: gpu_budget.py IMAGES [--update] [--table]   (IMAGES: the folder of the fat binaries, build/generated/ops/cuda)

Reads the machine code and the PTX in the fat binaries; no GPU and no other tool is needed. A kernel fails if it takes more
registers, shared memory or instructions (by a quarter) than its budget, fits fewer blocks on a multiprocessor, keeps
anything on a stack, or spills. The kernels that take most of a driving model's time also fail where their PTX divides
integers in a loop, loads more often by less than 16 bytes in loops, or has no mma any more. --update writes the budget from what
is there; --table prints everything. Figures depend on the compiler: with another nvcc than the budget's only the rules
that need no budget are checked. Exit codes: 0 kept, 1 broken, 2 unreadable, 77 there are no images.
"""
import argparse
import bisect
import ctypes
import json
import pathlib
import re
import struct
import sys

BUDGET = pathlib.Path(__file__).resolve().parents[1] / "bench" / "gpu_budget.json"
LARGEST = 1 << 28  # bytes of an unpacked image
PTX, CUBIN, ZSTD = 1, 2, 0x8000

# Of one multiprocessor, CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability": threads, blocks,
# bytes of shared memory. All have 65,536 registers, given to warps by 256, and keep 1 KB of shared memory for each block.
LIMITS = {80: (2048, 32, 164 << 10), 89: (1536, 24, 100 << 10), 90: (2048, 32, 228 << 10), 120: (1536, 24, 100 << 10)}

# The kernels that take most of a driving model's time.
HOT = re.compile(r"gemm|gemv|conv|depthwise|attention")
COLUMNS = ["registers", "shared", "stack", "instructions", "threads", "blocks"]
PTX_COLUMNS = ["wide_loads", "narrow_loads", "mma", "divisions_in_loops", "early"]


class Damaged(Exception):
    pass


def unpacked(data, flags, packed, size):
    if not flags & 0x2000 and not flags & ZSTD:
        return data
    if not flags & ZSTD:
        raise Damaged("compressed otherwise than by zstd, as nvcc before 12.9 does")
    if size > LARGEST:
        raise Damaged(f"an image of {size} bytes, expected at most {LARGEST}")
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    out = ctypes.create_string_buffer(size)
    data = data[:packed] if packed else data
    got = library.ZSTD_decompress(out, ctypes.c_size_t(size), data, ctypes.c_size_t(len(data)))
    if got != size:
        raise Damaged(f"an image unpacks to {got} bytes, expected {size}")
    return out.raw


def images_of(data):
    """(kind, architecture, bytes) of each image of one fat binary (docs/stack.md has the layout)."""
    magic, _, header, size = struct.unpack_from("<IHHQ", data)
    if magic != 0xBA55ED50 or header != 16 or header + size > len(data):
        raise Damaged("no whole fat binary")
    at = header
    while at < header + size:
        fields = struct.unpack_from("<HHIQIIHHIIIQQQ", data, at)
        kind, image_header, bytes_, packed, number, flags, full = (fields[i] for i in (0, 2, 3, 4, 8, 11, 13))
        if image_header < 64 or at + image_header + bytes_ > len(data):
            raise Damaged("an image ends behind its container")
        body = data[at + image_header : at + image_header + bytes_]
        name = f"{'compute' if kind == PTX else 'sm'}_{number & 0xffff}"  # of a family (120f), too
        yield kind, name, unpacked(body, flags, packed, full)
        at += image_header + bytes_


def attributes(data):
    """(number, words) of each record of a section .nv.info."""
    at = 0
    while at + 4 <= len(data):
        form, number, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form != 4:  # the value is in the header
            continue
        yield number, struct.unpack_from(f"<{size // 4}I", data, at)
        at += size


def spills(code):
    """How many instructions of 16 bytes load from or store to a thread's local memory."""
    return sum(1 for at in range(0, len(code), 16) if (code[at] | code[at + 1] << 8) & 0xFFF in (0x983, 0x387))


def blocks_of(architecture, registers, threads, shared):
    most_threads, most_blocks, memory = LIMITS[architecture]
    warps = -(-threads // 32)
    by_registers = 65536 // (-(-registers * 32 // 256) * 256) // warps
    return min(most_blocks, most_threads // (warps * 32), by_registers, memory // (-(-shared // 128) * 128 + 1024))


def kernels_of(cubin, name):
    """What each kernel of a cubin takes, in the order of COLUMNS; blocks by what is known when it is compiled."""
    if cubin[:4] != b"\x7fELF":
        raise Damaged("machine code without an ELF header")
    table = struct.unpack_from("<Q", cubin, 40)[0]
    entry, count, names = struct.unpack_from("<HHH", cubin, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * entry) for i in range(count)]

    def text(at):
        return cubin[at : cubin.index(b"\0", at)].decode()

    sections = {text(headers[names][4] + h[0]): h for h in headers}

    def body(section):
        return cubin[section[4] : section[4] + section[5]]

    symbols, strings = sections[".symtab"], sections[".strtab"]
    symbol = [text(strings[4] + struct.unpack_from("<I", cubin, at)[0])
              for at in range(symbols[4], symbols[4] + symbols[5], 24)]
    registers, stack = {}, {}
    for number, words in attributes(body(sections[".nv.info"])):
        if number == 0x2F:
            registers[symbol[words[0]]] = words[1]
        elif number in (0x11, 0x12):  # the frame; the least stack
            stack[symbol[words[0]]] = max(words[1], stack.get(symbol[words[0]], 0))
    out = {}
    for section, header in sections.items():
        if not section.startswith(".text."):
            continue
        kernel = section[len(".text."):]
        threads = next((w[0] * w[1] * w[2] for n, w in attributes(body(sections[".nv.info." + kernel])) if n == 5), 1024)
        shared = sections.get(".nv.shared." + kernel, [0] * 6)[5]
        architecture = int(re.search(r"\d+", name)[0])
        if architecture >= 90 and shared:  # there the section holds what the system keeps, too
            shared -= 1024
        out[kernel] = [registers[kernel], shared, stack.get(kernel, 0) + spills(body(header)), header[5] // 16, threads,
                       blocks_of(architecture, registers[kernel], threads, shared)]
    return out


def ptx_of(text):
    """Of each kernel of a PTX text, in the order of PTX_COLUMNS."""
    out, target = {}, int(re.search(r"^\.target sm_(\d+)", text, re.M)[1])
    for entry in re.finditer(r"\.entry (\w+)\s*\((.*?)(?=\n\.visible|\n\.func|\Z)", text, re.S):
        body = entry[2]
        labels = {label[1]: label.start() for label in re.finditer(r"^(\$\w+):", body, re.M)}
        loops = sorted((labels[b[1]], b.start()) for b in re.finditer(r"\bbra(?:\.uni)?\s+(\$\w+)", body)
                       if labels.get(b[1], b.start()) < b.start())
        ends, furthest = [], 0
        for _, end in loops:
            furthest = max(furthest, end)
            ends.append(furthest)

        def in_loop(at):
            before = bisect.bisect_right(loops, (at, 1 << 60))
            return before > 0 and ends[before - 1] > at

        if re.search(r"\b(ld|st)\.local", body):
            raise Damaged(f"{entry[1]}: its PTX has ld.local or st.local, expected none")
        # From 9.0 on the launch before may still be under way (begin_kernel() of device.cuh). What is read once, without a place in
        # the first-level cache, are constant weights. Those that device.cuh loads or copies ahead may come between two waits, of
        # which the first is for weights that are not constant.
        ahead = r"ld\.global\.L1::no_allocate|cp\.async\.cg\.shared\.global\.L2::128B"
        accesses = re.search(rf"\b(?!{ahead})(ld\.global(?!\.nc\.L1::no_allocate)|(st|red|atom|cp\.async\.c[ag]\.shared)\.global)|\bcall", body)
        waits = [m.start() for m in re.finditer(r"griddepcontrol\.wait", body)]
        needed = waits[-1:] if re.search(ahead, body) else waits[:1]
        early = target >= 90 and accesses is not None and not (needed and needed[0] < accesses.start())
        loads = [m[0] for m in re.finditer(r"\bld\.global[.\w:]*", body) if in_loop(m.start())]
        copies = re.findall(r"\bcp\.async\.c[ag]\.shared\.global[^;]*?, (\d+)", body)
        wide = sum(".v4" in load and not load.endswith(("8", "16")) or load.endswith(".v2.b64") for load in loads)
        divisions = sum(in_loop(m.start()) for m in re.finditer(r"\b(div|rem)\.[su](16|32|64)\b", body))
        out[entry[1]] = [wide + copies.count("16"), len(loads) - wide + len(copies) - copies.count("16"),
                         len(re.findall(r"\bmma\.sync", body)), divisions, int(early)]
    return out


def measure(folder):
    kernels = {}
    for file in sorted(pathlib.Path(folder).glob("*.fatbin")):
        if file.stem == "words":  # tests of single words
            continue
        for kind, name, data in images_of(file.read_bytes()):
            found = kernels_of(data, name) if kind == CUBIN else ptx_of(data.rstrip(b"\0").decode())
            for kernel, values in found.items():
                kernels.setdefault(kernel, {})["ptx" if kind == PTX else name] = values
    return kernels


def compiler_of(folder):
    """The release of nvcc, out of its note in the machine code."""
    file = sorted(pathlib.Path(folder).glob("*.fatbin"))[0]
    for kind, _, data in images_of(file.read_bytes()):
        if kind == CUBIN and (found := re.search(rb"release [\d.]+, V[\d.]+", data)):
            return found[0].decode()
    return "an unknown nvcc"


def broken(kernel, where, got, budget):
    """What a kernel exceeds, as texts."""
    columns = PTX_COLUMNS if where == "ptx" else COLUMNS
    got = dict(zip(columns, got))
    if got.get("stack"):
        yield f"{kernel} {where}: stack or spills {got['stack']}, expected 0"
    if got.get("early"):
        yield f"{kernel} {where}: uses memory before griddepcontrol.wait, expected device::begin_kernel() first"
    if HOT.search(kernel) and got.get("divisions_in_loops"):
        yield f"{kernel} {where}: integer divisions in loops {got['divisions_in_loops']}, expected 0"
    if budget is None:
        return
    for column, limit in zip(columns, budget):
        value = got[column]
        worse = {"registers": value > limit, "shared": value > limit, "instructions": value > limit * 5 // 4,
                 "blocks": value < limit, "narrow_loads": HOT.search(kernel) and value > limit,
                 "mma": limit > 0 and value == 0}.get(column, False)
        if worse:
            yield f"{kernel} {where}: {column.replace('_', ' ')} {value}, expected {limit}"


def main():
    options = argparse.ArgumentParser()
    options.add_argument("images")
    options.add_argument("--update", action="store_true")
    options.add_argument("--table", action="store_true")
    options.add_argument("--budget", default=BUDGET, type=pathlib.Path)
    options = options.parse_args()
    if not list(pathlib.Path(options.images).glob("*.fatbin")):
        print(f"skipped: no fat binary in {options.images} (built without nvcc)")
        return 77
    try:
        kernels, compiler = measure(options.images), compiler_of(options.images)
    except (Damaged, struct.error, KeyError, IndexError, ValueError) as error:
        print(f"gpu budget: {options.images}: {error}", file=sys.stderr)
        return 2
    if options.table:
        for kernel, places in sorted(kernels.items()):
            for where, values in places.items():
                print(f"{kernel:34} {where:8}", *(f"{c} {v}" for c, v in zip(PTX_COLUMNS if where == "ptx" else COLUMNS, values)))
    if options.update:
        lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(kernels[k])}" for k in sorted(kernels))
        text = (f'{{"compiler": {json.dumps(compiler)},\n "columns": {json.dumps(COLUMNS)},\n'
                f' "ptx_columns": {json.dumps(PTX_COLUMNS)},\n "kernels": {{\n{lines}\n}}}}\n')
        aside = options.budget.with_suffix(".tmp")
        aside.write_text(text)
        aside.replace(options.budget)
    budget = json.loads(options.budget.read_text())
    same = budget["compiler"] == compiler
    if not same:
        print(f"gpu budget: made with {budget['compiler']}, this is {compiler}: only what needs no budget is checked")
    findings = []
    for kernel, places in sorted(kernels.items()):
        for where, got in places.items():
            limits = budget["kernels"].get(kernel, {}).get(where) if same else None
            if same and limits is None:
                findings.append(f"{kernel} {where}: no budget, expected one (make gpu-budget UPDATE=1)")
            findings += broken(kernel, where, got, limits)
    if same:
        findings += [f"{k}: in the budget, but not compiled (make gpu-budget UPDATE=1)"
                     for k in sorted(set(budget["kernels"]) - set(kernels))]
    print(*findings, sep="\n", end="\n" if findings else "")
    entries = sum(len(places) for places in kernels.values())
    print(f"gpu budget: {len(kernels)} kernels, {entries} entries, {len(findings)} broken")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
