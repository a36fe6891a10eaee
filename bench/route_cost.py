#!/usr/bin/env python3
"""What `compare --route` costs beyond the networks' own runs and one decoding.

    bench/route_cost.py ROUTE MODELS [--precisions model,fp32,fp16,bf16,int8] [--limit N] [--threads N]

Printed are the time of the comparison, without loading and quantizing; the networks' own times, each by a separate `drive` where
that has the precision (else, for int8 and what has to be emulated, as they were in turns); the time of decoding the road
camera alone (`drive --from-log`, which is less than what a model needs decoded and prepared); and the first divided by the sum
of the others. Then what taking turns costs in caches: the networks' time in turns divided by that of their own drive.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

PROGRAM = pathlib.Path(__file__).resolve().parent.parent / "build" / "sparkpilot"


def run(*words):
    done = subprocess.run([str(PROGRAM), *words, "--quiet", "--json"], check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("route")
    parser.add_argument("models")
    parser.add_argument("--precisions", default="model,fp32,fp16,bf16,int8")
    parser.add_argument("--limit", default="0")
    parser.add_argument("--threads", default="2", help="of all stages of a drive together")
    args = parser.parse_args()
    precisions = args.precisions.split(",")
    emulated = ["--emulate"] if "bf16" in precisions else []
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        common = ["--limit", args.limit, "--threads", args.threads]
        log = run("drive", args.route, "--from-log", *common, "--no-overlay", "--out", str(out / "log"))
        decoding, networks = log["seconds"], str(log["threads"]["infer"])  # `compare` takes the networks' threads alone
        run("compare", "--route", args.route, "--models", args.models, "--limit", args.limit, "--threads", networks,
            "--precision", args.precisions, "--out", str(out / "all"), *emulated)
        turns, seconds, frames = {}, 0.0, 0
        for precision in precisions:
            segments = [json.loads(file.read_text()) for file in sorted((out / "all" / precision).glob("*/segment.json"))]
            turns[precision] = sum(sum(s["frames"]["vision_ms"]) + sum(s["frames"]["policy_ms"]) for s in segments) / 1e3
            seconds = sum(s["seconds"] for s in segments)
            frames = sum(len(s["frames"]["vision_ms"]) for s in segments)
        own = dict(turns)
        for precision in (p for p in precisions if p != "int8"):
            try:
                alone = run("drive", args.route, "--models", args.models, *common, "--precision", precision, "--no-overlay",
                            "--out", str(out / precision))
            except subprocess.CalledProcessError as error:
                if error.returncode != 2:
                    raise
                continue  # this processor lacks it
            own[precision] = alone["latency"]["mean_ms"] * alone["latency"]["count"] / 1e3
            print(f"{precision}: {turns[precision]:.2f} s in turns, {own[precision]:.2f} s in a drive of its own: "
                  f"{turns[precision] / own[precision]:.3f}")
    total = sum(own.values()) + decoding
    print(f"{frames} frames in {args.precisions}: {seconds:.2f} s; networks {sum(own.values()):.2f} s, decoding "
          f"{decoding:.2f} s; ratio {seconds / total:.3f}")


if __name__ == "__main__":
    main()
