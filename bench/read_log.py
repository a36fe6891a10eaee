#!/usr/bin/env python3
"""How long it takes to read a minute of route log at full rate (zstd, about 79,000 events), on one core.

    bench/read_log.py [--runs N]

A test of route_test makes the log, anew each time, and reads it once. Prints the median.
"""
import argparse
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--runs", type=int, default=11)
done = subprocess.run(["taskset", "-c", "0", ROOT / "build/route_test", f"--gtest_repeat={parser.parse_args().runs}",
                       "--gtest_filter=LogSpeed.*"], capture_output=True, text=True, check=True)
found = re.findall(r"^(\d+ events.*): ([\d.]+) ms$", done.stdout, re.MULTILINE)
times = [float(ms) for _, ms in found]
print(f"{found[0][0]}: median {statistics.median(times):.1f} ms of {len(times)} runs ({min(times)} to {max(times)})")
