#!/usr/bin/env python3
"""How long it takes to read a minute of route log at full rate (zstd, about 79,000 events), on one core.

    bench/read_log.py [--rounds N]

The log is made by drive_test; each round writes it anew and reads it five times. Prints the median of all.
"""
import argparse
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--rounds", type=int, default=5)
times, what = [], ""
for _ in range(parser.parse_args().rounds):
    done = subprocess.run(["taskset", "-c", "0", ROOT / "build/drive_test", "--gtest_also_run_disabled_tests",
                           "--gtest_filter=LogSpeed.*"], capture_output=True, text=True, check=True)
    for what, ms in re.findall(r"^(\d+ events.*): (\d+) ms$", done.stdout, re.MULTILINE):
        times.append(int(ms))
print(f"{what}: median {statistics.median(times):.0f} ms of {len(times)} runs ({min(times)} to {max(times)})")
