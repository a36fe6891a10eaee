#!/usr/bin/env python3
"""What `train --max-activations` costs: memory and time of a training step by the budget, in turns.

    bench/activation_memory.py driving_vision --batch 8 --rounds 5

Each budget is a process of its own (build/train_bench), so that its peak memory is its own; a round runs all of them.
Times are processor time of one thread, which other work on the machine disturbs least; ratios are the medians of the
rounds' own. The losses of all must be equal to the last digit.
"""
import argparse
import re
import statistics
import subprocess

BENCH = "build/train_bench"


def run(model, batch, budget, steps):
    command = [BENCH, model, "--batch", str(batch), "--threads", "1", "--steps", str(steps),
               "--max-activations", str(budget)]
    done = subprocess.run(command, capture_output=True, text=True)
    if least := re.search(r"at least (\d+) bytes", done.stderr + done.stdout):
        return {"least": int(least[1])}
    if done.returncode:
        raise SystemExit(done.stderr)
    line = re.search(r"activations (\d+) bytes, (\d+) nodes again, ([\d.]+) % more work; ([\d.]+) ms", done.stdout)
    return {"bytes": int(line[1]), "nodes": int(line[2]), "work": float(line[3]), "ms": float(line[4]),
            "peak": int(re.search(r"peak (\d+) MB", done.stdout)[1]) * 1.048576,
            "losses": re.search(r"losses: (.*)", done.stdout)[1]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    whole = run(args.model, args.batch, 0, 1)["bytes"]
    least = run(args.model, args.batch, 1, 1)["least"]
    budgets = [0] + [b for b in (whole * 3 // 4, whole // 2, whole // 3) if b > least] + [least]
    rounds = [{b: run(args.model, args.batch, b, args.steps) for b in budgets} for _ in range(args.rounds)]
    print(f"{args.model}, batch {args.batch}, one thread, {args.rounds} rounds of {args.steps} steps")
    print("| activations | peak memory | nodes again | work foretold | time |\n|---|---|---|---|---|")
    for b in budgets:
        last = rounds[-1][b]
        if any(r[b]["losses"] != rounds[0][0]["losses"] for r in rounds):
            raise SystemExit(f"other losses with {b} bytes")
        ratio = statistics.median(r[b]["ms"] / r[0]["ms"] for r in rounds)
        peak = statistics.median(r[b]["peak"] for r in rounds)
        print(f"| {last['bytes'] / 1e6:.0f} MB | {peak:.0f} MB | {last['nodes']} | {1 + last['work'] / 100:.2f} "
              f"| {ratio:.2f} |")


if __name__ == "__main__":
    main()
