#!/usr/bin/env python3
"""How much of a damaged model an adapter wins back: DoRA, LoRA and full fine-tuning side by side.

  .venv/bin/python bench/student_recovery.py --out out/recovery            (make peers makes .venv)

The teacher is the trained `models/demo_supercombo.onnx`. A student is the teacher whose layers' weights have noise: a
normal number times `--noise` times the root mean square of its row (output channel), for every weight of Conv, Gemm and
MatMul. Each student learns from the teacher's outputs on synthetic roads, and is judged by its path on ten others that neither saw,
with its own memory. "Regained" is the part of what the noise cost that is gone after training: of the mean distance from
the teacher's path after 4 s; in brackets stands the same of the distance from the driven path, in which the teacher
errs as well. Prints tables in Markdown and writes OUT/results.json; what is there is used again.
"""

import argparse
import json
import shutil
import statistics
import subprocess
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

HELD_OUT = ["--synthetic", "10", "--seed", "100001", "--seconds", "20", "--road", "rural", "--no-traffic"]
HELD_OUT += ["--after", "0.2"]
KINDS = {
    "dora": ["--kind", "dora", "--rank", "{rank}", "--merged"],
    "lora": ["--kind", "lora", "--rank", "{rank}", "--merged"],
    "full": ["--mode", "full"],
}


def perturb(model: Path, out: Path, noise: float, seed: int) -> None:
    student = onnx.load(model)
    random = np.random.default_rng(seed)
    outputs = {}  # the axis of each layer's output channels
    for node in student.graph.node:
        transposed = any(each.name == "transB" and each.i == 1 for each in node.attribute)
        if node.op_type in ("Conv", "Gemm", "MatMul"):
            outputs[node.input[1]] = 0 if node.op_type == "Conv" or transposed else -1
    for tensor in student.graph.initializer:
        if tensor.name not in outputs or len(tensor.dims) < 2:
            continue
        weight = numpy_helper.to_array(tensor)
        wide = np.moveaxis(weight.astype(np.float64), outputs[tensor.name], 0)
        size = np.sqrt(np.mean(wide**2, axis=tuple(range(1, wide.ndim)), keepdims=True))
        wide = np.moveaxis(wide + noise * size * random.standard_normal(wide.shape), 0, outputs[tensor.name])
        tensor.CopyFrom(numpy_helper.from_array(wide.astype(weight.dtype), tensor.name))
    out.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(student, out)


class Recovery:
    def __init__(self, flags: argparse.Namespace) -> None:
        self.flags, self.out = flags, Path(flags.out)
        self.teacher = Path(flags.teacher)
        self.data, self.held_out = self.out / "data", self.out / "held_out"
        model = ["--supercombo", self.teacher, "--every", "4", "--device", "cpu", "--quiet"]
        roads = ["--synthetic", flags.roads, "--seed", "200001", "--seconds", "4", "--after", "0.2"]
        self.program("dataset", "build", *roads, "--out", self.data, *model)
        self.program("dataset", "build", *HELD_OUT, "--out", self.held_out, *model)

    def program(self, *arguments) -> str:
        command = [self.flags.program, *(str(each) for each in arguments)]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if result.returncode != 0:
            raise SystemExit(f"failed: {' '.join(command)}")
        return result.stdout

    def errors(self, model: Path) -> dict:
        """Metres after 1, 2, 4 and 6 s, from the teacher's path and from the driven one."""
        arguments = ["--against", "teacher", "--split", "all", "--supercombo", model]
        arguments += ["--threads", self.flags.threads, "--json", "--quiet"]
        score = json.loads(self.program("dataset", "evaluate", self.held_out, *arguments))
        return {"teacher": score["from_target"]["distance"], "driven": score["model"]["distance"]}

    def train(self, kind: str, seed: int, student: Path) -> dict:
        run = self.out / f"{kind}{seed}"
        summary = run / "summary.json"
        if summary.exists() and json.loads(summary.read_text())["ended"] == "interrupted":
            shutil.rmtree(run)
        if not summary.exists():
            how = [part.format(rank=self.flags.rank) for part in KINDS[kind]]
            rate = self.flags.full_rate if kind == "full" else self.flags.rate
            arguments = ["--supercombo", student, "--data", self.data, "--out", run, *how]
            arguments += ["--epochs", self.flags.epochs, "--rate", rate, "--warmup", "50", "--seed", seed]
            # A damaged student is sure of what is wrong, and remembers what it sees itself, which means nothing at first.
            # The features' squares are 1e-5, beside sums of likelihoods of some thousands.
            arguments += ["--least-scale", "0.1", "--own-features", "--teacher-features", "1"]
            arguments += ["--loss", "plan=2", "--loss", "pose=4", "--features", "l2", "--loss", "hidden_state=3e6"]
            if self.flags.match:
                arguments += ["--teacher", self.teacher, "--match", self.flags.match, "--loss", "layers=3000"]
            arguments += ["--evaluate-every", self.flags.evaluate_every, "--threads", self.flags.threads, "--quiet"]
            arguments += ["--device", self.flags.device]
            self.program("train", *arguments)
        lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        updates = [line for line in lines if "loss" in line]
        curve = [
            (line["update"], line["evaluation_reports"].get("rollout_plan_error_4s", float("nan")))
            for line in lines
            if "evaluation_reports" in line
        ]
        seconds = updates[-1]["time"]["seconds"]
        return {
            "updates": updates[-1]["update"],
            "minutes": seconds / 60,
            "step_ms": 1e3 * 32 / updates[-1]["time"]["samples_per_second"],
            "curve": curve,
            "errors": self.errors(run / student.name),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="out/recovery")
    parser.add_argument("--program", default="build/sparkpilot")
    parser.add_argument("--teacher", default="models/demo_supercombo.onnx")
    parser.add_argument("--noise", type=float, default=0.2)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--roads", type=int, default=1200)
    parser.add_argument("--match", default="vision.ground.*", help="layers compared with the teacher's, none if empty")
    parser.add_argument("--epochs", type=float, default=6)
    parser.add_argument("--evaluate-every", type=int, default=675)
    parser.add_argument("--rate", type=float, default=2e-3, help="of adapters")
    parser.add_argument("--full-rate", type=float, default=5e-4)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", help="where students are trained; the rest is the CPU's")
    flags = parser.parse_args()

    recovery = Recovery(flags)
    teacher = recovery.errors(recovery.teacher)
    results = {"flags": vars(flags), "teacher": teacher, "students": []}
    print(f"after 4 s, metres from the teacher's path (from the driven one: the teacher {teacher['driven'][2]:.2f}):\n")
    print("| seed | kind | with noise | after | regained | updates | step | minutes |")
    print("|---|---|---|---|---|---|---|---|")
    for seed in flags.seeds:
        student = recovery.out / f"student{seed}" / recovery.teacher.name
        perturb(recovery.teacher, student, flags.noise, seed)
        damaged = recovery.errors(student)
        for kind in flags.kinds:
            run = recovery.train(kind, seed, student)
            left = run["errors"]
            # The teacher's file against its own stored answers is nearly 0: it runs in fp32 here.
            floor = teacher["teacher"][2]
            regained = 1 - (left["teacher"][2] - floor) / (damaged["teacher"][2] - floor)
            cost = damaged["driven"][2] - teacher["driven"][2]
            driven = (damaged["driven"][2] - left["driven"][2]) / cost if cost > 0 else float("nan")
            parts = {"regained": regained, "regained_of_driven": driven}
            results["students"].append({"seed": seed, "kind": kind, "damaged": damaged, **parts, **run})
            print(
                f"| {seed} | {kind} | {damaged['teacher'][2]:.2f} ({damaged['driven'][2]:.2f}) "
                f"| {left['teacher'][2]:.2f} ({left['driven'][2]:.2f}) | {regained:.1%} ({driven:.1%}) "
                f"| {run['updates']} | {run['step_ms']:.0f} ms | {run['minutes']:.1f} |",
                flush=True,
            )
    (recovery.out / "results.json").write_text(json.dumps(results, indent=1))
    print("\non the roads for validation, with the student's own features of the past,")
    print("metres from the teacher's path after 4 s (medians over the seeds):\n")
    by_kind = {kind: [s["curve"] for s in results["students"] if s["kind"] == kind] for kind in flags.kinds}
    steps = [update for update, _ in next(iter(by_kind.values()))[0]]
    print("| kind | " + " | ".join(map(str, steps)) + " |")
    print("|---" * (len(steps) + 1) + "|")
    for kind, curves in by_kind.items():
        medians = [statistics.median(curve[i][1] for curve in curves) for i in range(len(steps))]
        print(f"| {kind} | " + " | ".join(f"{each:.2f}" for each in medians) + " |")


if __name__ == "__main__":
    main()
