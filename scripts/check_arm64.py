#!/usr/bin/env python3
"""Does the program for 64-bit Arm do what the one for this machine does?

  scripts/check_arm64.py [--native build] [--arm build-aarch64] [--only PART...]

Runs both on the same inputs, the Arm one under qemu (user mode), and compares results: networks in every precision, logs and
videos, adapters, a short training, simulations, the table of ops, ONNX's own cases; reads the GPU code inside with our own
`stack audit`; and counts the instructions of products, convolutions and attention. `make arm64` calls it. Ends with 4 if a check
fails.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
NETWORKS = [
    "tiny_driving_vision",
    "tiny_driving_policy",
    "tiny_driving_supercombo",
    "tiny_dmonitoring_model",
    "tiny_big_driving_supercombo",
    "tiny_supercombo",
]
# Relative L2 between the two programs. They add in other orders, and where values are rounded on the way a last bit may fall
# to the other side: of these networks' results, which are f16, one such in 6,504 is 1e-5.
PRECISIONS = {"fp32": 3e-5, "fp16": 1e-4, "bf16": 3e-2, "fp8": 3e-5, "fp4": 3e-5}
# Largest differences of a drive, by unit.
DRIVEN = {"m": 0.01, "cm": 0.1, "1/m": 1e-5, "m/s2": 1e-3, "m/s": 0.01}
# Multiply-adds that one instruction does at best, and the least share of instructions that do arithmetic.
SHARES = {
    "product": (4, 0.7),
    "product_bf16": (16, 0.7),
    "product_int8": (16, 0.7),
    "conv3x3": (4, 0.7),
    "conv1x1": (4, 0.7),
    "conv1x1_bf16": (16, 0.7),
    "product_row": (4, 0.2),  # reads a weight for each product; what a run takes besides differs
    "depthwise3x3": (4, 0.2),
    "attention": (4, 0.7),
}


class Check:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.native = [str(Path(flags.native).resolve() / "sparkpilot")]
        self.build = Path(flags.arm).resolve()
        self.given = shlex.split(flags.emulator)
        # All that this qemu knows, a Spark's kinds of products among it; dot products of bytes only; neither.
        self.processors = [""] if self.given else ["max,sve=off", "neoverse-n1", "cortex-a72"]
        self.emulator = self.on(self.processors[0])
        self.arm = [*self.emulator, str(self.build / "sparkpilot")]
        self.folder = Path(tempfile.mkdtemp(prefix="check_arm64."))
        self.passed = self.failed = 0
        environment = {**os.environ, "SPARKPILOT_TUNE": "off", "XDG_CACHE_HOME": str(self.folder / "cache")}
        # Without it the program starts itself again (docs/configuration.md), which it cannot do under qemu.
        environment["OMP_WAIT_POLICY"] = "passive"
        self.environment = {**environment, "XDG_CONFIG_HOME": str(self.folder / "config")}

    def on(self, processor: str) -> list:
        if self.given:
            return self.given
        libraries = self.build / "sysroot"
        paths = ":".join(str(libraries / each) for each in ("usr/lib/aarch64-linux-gnu", "lib/aarch64-linux-gnu"))
        return ["qemu-aarch64", "-cpu", processor, "-L", "/usr/aarch64-linux-gnu", "-E", f"LD_LIBRARY_PATH={paths}"]

    def say(self, good: bool, what: str, found: str = "") -> None:
        self.passed += good
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {what}{': ' if found else ''}{found}", flush=True)

    def below(self, what: str, value: float, bound: float) -> None:
        self.say(bool(value <= bound), what, f"{value:.1e} (at most {bound:.0e})")

    def run(self, program: list, *arguments, codes=(0,)) -> str:
        command = [*program, *(str(each) for each in arguments)]
        result = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if result.returncode not in codes:
            lines = result.stderr.strip().splitlines()
            raise RuntimeError(f"{' '.join(command)} ended with {result.returncode}: {lines[-1] if lines else ''}")
        return result.stdout

    def both(self, *arguments, native=()) -> tuple:
        """What each prints; `OUT` in an argument is a folder of its own. `native`: flags for that program alone."""
        texts = []
        for name, program in (("native", self.native), ("arm", self.arm)):
            own = self.folder / name
            own.mkdir(exist_ok=True)
            more = native if name == "native" else ()
            texts.append(self.run(program, *(str(each).replace("OUT", str(own)) for each in arguments), *more))
        return tuple(texts)

    def arrays(self, name: str) -> float:
        """The largest relative L2 between the .npy files of a folder that both wrote."""
        largest = 0.0
        files = sorted((self.folder / "native" / name).glob("*.npy"))
        if not files:
            raise RuntimeError(f"{name}: nothing was written")
        for file in files:
            expected = np.load(file).astype(np.float64)
            got = np.load(self.folder / "arm" / name / file.name).astype(np.float64)
            if got.shape != expected.shape:
                return float("inf")
            size = np.linalg.norm(expected)
            largest = max(largest, float(np.linalg.norm(got - expected) / (size if size > 0 else 1)))
        return largest

    # --- parts

    def program(self) -> None:
        text = self.run(self.arm, "version")
        self.say("neon" in text, "version knows its instructions")
        flags = ["--path", self.arm[-1], "--gpu", "gb10", "--json"]
        library = json.loads(self.run(self.native, "stack", "audit", *flags, codes=(0, 4)))["libraries"][0]
        verdict, needed = library["verdict"], [each for each in library["needed"] if "cuda" in each or "nv" in each]
        native = verdict["native_containers"] + verdict["family_containers"]
        good = native > 0 and verdict["jit_containers"] == verdict["unusable_containers"] == 0
        self.say(good, "GPU code for 12.1", f"{verdict['standing']}: {native} containers, {verdict['cost'] or 'nothing compiled at start'}")
        self.say(not needed, "starts without an NVIDIA library", " ".join(needed))

    def networks(self) -> None:
        models = self.folder / "models"
        self.run(self.native, "zoo", "build", *NETWORKS, "--out", models, "--quiet")
        again = self.folder / "arm_models"
        self.run(self.arm, "zoo", "build", NETWORKS[1], "--out", again, "--quiet")
        same = (again / f"{NETWORKS[1]}.onnx").read_bytes() == (models / f"{NETWORKS[1]}.onnx").read_bytes()
        self.say(same, "zoo build writes the same bytes")
        for name in NETWORKS:
            for precision, bound in PRECISIONS.items():
                out = f"{name}.{precision}"
                flags = ["--precision", precision, "--threads", 1, "--quiet"]
                # Where this machine lacks bf16 it computes with plain kernels; Arm's have to be its own.
                native = ["--emulate"] if precision == "bf16" else []
                self.both("run", models / f"{name}.onnx", *flags, "--output-dir", f"OUT/{out}", native=native)
                self.below(f"{name} in {precision}", self.arrays(out), bound)
        for image in ("img", "big_img"):
            np.save(self.folder / f"{image}.npy", np.random.default_rng(1).integers(0, 256, (1, 12, 128, 256), np.uint8))
        samples = [each for image in ("img", "big_img") for each in ("--calibrate", f"{image}={self.folder}/{image}.npy")]
        quantized = self.folder / "int8.onnx"
        self.run(self.native, "model", "quantize", "--int8", models / f"{NETWORKS[0]}.onnx", quantized, *samples, "--quiet")
        self.both("run", quantized, "--threads", 1, "--output-dir", "OUT/int8", "--quiet")
        self.below("a quantized tiny_driving_vision", self.arrays("int8"), 1e-5)

    def ops(self) -> None:
        for cpu in self.processors:
            emulator = self.on(cpu)
            report = json.loads(self.run([*emulator, self.arm[-1]], "ops", "check", "--json", "--quiet", codes=(0, 4)))
            text = f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped"
            self.say(report["passed"] > 1000 and report["failed"] == 0, f"ops check on {cpu or 'the emulator'}", text)

    def conformance(self) -> None:
        """ONNX's own cases, whose expected outputs are other programs'."""
        runner = [str(ROOT / "tests" / "conformance" / "run.sh"), str(self.folder / "cases")]
        for cpu in self.processors:
            text = self.run([*runner, *self.on(cpu), str(self.build / "conformance"), "--json"], codes=(0, 4, 77))
            if text.startswith("skipped"):
                print(f"       conformance: {text.strip()}", flush=True)
                return
            report = json.loads(text)
            text = f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped"
            good = report["passed"] > 1300 and report["failed"] == 0
            self.say(good, f"ONNX's own cases on {cpu or 'the emulator'}", text)

    def readers(self) -> None:
        segment = self.segment()
        expected, got = self.both("route", "info", segment, "--json", "--quiet")
        self.say(expected == got, "route info says the same")
        for kind in ("carState", "modelV2", "liveCalibration"):
            expected, got = self.both("route", "dump", kind, segment, "--quiet")
            self.say(expected == got and len(expected) > 0, f"route dump {kind} prints the same")

    def adapters(self) -> None:
        model = self.model("tiny_driving_policy")
        self.both("adapter", "create", model, "--rank", 2, "--out", "OUT/adapter", "--quiet")
        self.both("adapter", "merge", model, "OUT/adapter", "--out", "OUT/merged.onnx", "--quiet")
        self.both("run", "OUT/merged.onnx", "--threads", 1, "--output-dir", "OUT/merged", "--quiet")
        self.below("a merged adapter", self.arrays("merged"), 1e-5)

    def training(self) -> None:
        model = self.model("tiny_driving_supercombo")
        shared = ["--supercombo", model, "--threads", 1, "--quiet"]
        self.both("dataset", "build", "--synthetic", 2, "--seconds", 4, "--no-traffic", "--out", "OUT/data", *shared)
        flags = ["--mode", "full", "--against", "labels", "--updates", 3, "--batch", 4]
        self.both("train", "--data", "OUT/data", "--out", "OUT/run", *flags, *shared)
        losses = []
        for name in ("native", "arm"):
            lines = (self.folder / name / "run" / "metrics.jsonl").read_text().splitlines()
            losses.append([line["loss"] for line in map(json.loads, lines) if "loss" in line])
        apart = max(abs(a - b) / abs(a) for a, b in zip(*losses))
        self.say(len(losses[0]) == 3 == len(losses[1]), "three updates each")
        self.below("losses of three updates", apart, 1e-4)

    def simulation(self) -> None:
        for plant in ("bicycle", "kinematic"):
            flags = ["--scenarios", "curves", "--variants", 2, "--plant", plant, "--device", "cpu", "--threads", 1]
            texts = self.both("sim", "run", "--algorithm", "lateral_torque", *flags, "--json", "--quiet")
            expected, got = (json.loads(text)["categories"][0]["means"] for text in texts)
            self.say(all((got[key] is None) == (expected[key] is None) for key in expected), "the same metrics")
            known = [(got[key], value) for key, value in expected.items() if value is not None and got[key] is not None]
            apart = max(abs(a - b) / max(abs(b), 1e-3) for a, b in known)
            self.below(f"metrics of simulated curves, {plant}", apart, 1e-3)

    def drive(self) -> None:
        segment, model = self.segment(), ROOT / "models" / "demo_supercombo.onnx"
        flags = ["--supercombo", model, "--qcamera", "--no-overlay", "--limit", 12, "--threads", 1, "--quiet"]
        self.both("drive", segment, "--out", "OUT/drive", *flags)
        a, b = (self.folder / name / "drive" for name in ("native", "arm"))
        report = json.loads(self.run(self.native, "compare", a, b, "--json", "--quiet", codes=(0, 4)))
        arm = report["drives"][1]
        self.say(arm["frames"] == 12, "twelve frames driven")
        for term in arm["terms"]:
            unit = term["unit"]
            self.below(f"{term['name']}, {unit}", term["max"] if term["frames"] else 0.0, DRIVEN[unit])

    def instructions(self) -> None:
        plugin = self.folder / "count.so"
        source = ROOT / "bench" / "arm64" / "count_instructions.c"
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, source], check=True)
        counts = self.folder / "counts"
        for case, (most, bound) in SHARES.items():
            found = []
            for runs in (2, 22):  # so many that what loading takes, which differs a little, does not count
                command = [*self.emulator, "-plugin", str(plugin), str(self.build / "one_op"), case, str(runs)]
                environment = {**self.environment, "COUNTS": str(counts)}
                result = subprocess.run(command, capture_output=True, text=True, env=environment)
                if result.returncode != 0:
                    raise RuntimeError(f"one_op {case}: {result.stderr.strip()}")
                found.append([int(each) for each in counts.read_text().split()])
            words = result.stdout.split()
            executed, products = ((found[1][i] - found[0][i]) / 20 for i in (0, 1))
            share = int(words[0]) / most / executed
            text = f"{share:.2f} of {executed / 1e6:.2f} M instructions (at least {bound}), {products / executed:.2f} by count"
            self.say(share >= bound, f"{case} ({' '.join(words[1:])})", text)

    def segment(self) -> Path:
        route = self.folder / "route"
        if not route.exists():
            self.run(self.native, "route", "synth", "--out", route, "--seconds", 2, "--qcamera-only", "--quiet")
        return next(each for each in route.iterdir() if each.is_dir())

    def model(self, name: str) -> Path:
        path = self.folder / "models" / f"{name}.onnx"
        if not path.exists():
            self.run(self.native, "zoo", "build", name, "--out", path.parent, "--quiet")
        return path


PARTS = ["program", "instructions", "networks", "ops", "conformance", "readers", "adapters", "training", "simulation", "drive"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--native", default=ROOT / "build", help="folder of this machine's build")
    parser.add_argument("--arm", default=ROOT / "build-aarch64", help="folder of the Arm build")
    parser.add_argument("--emulator", default="", help="what runs the Arm program, instead of qemu-aarch64")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    flags = parser.parse_args()
    check = Check(flags)
    try:
        for part in flags.only:
            try:
                getattr(check, part)()
            except (RuntimeError, OSError, KeyError, ValueError) as error:
                check.say(False, part, str(error))
    finally:
        shutil.rmtree(check.folder, ignore_errors=True)
    print(f"{check.passed} passed, {check.failed} failed")
    sys.exit(4 if check.failed else 0)


if __name__ == "__main__":
    main()
