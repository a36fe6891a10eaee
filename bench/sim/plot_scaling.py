#!/usr/bin/env python3
"""How many steps a second sim_bench simulates with 1 to 1,048,576 worlds, as a table and a picture.

Usage: plot_scaling.py [--bench build/sim_bench] [--steps 1000] [--threads N] [--svg FILE.svg] [--from FILE]

Runs `sim_bench --scale` (under two minutes on two quiet cores of AVX-512 or AVX2), prints its first line and a table in
Markdown, and writes the picture. --from: reads that output from a file instead. Needs nothing but Python.
"""
import argparse
import html
import math
import re
import subprocess
import sys

LINE = re.compile(r"^(.*?)\s+(\d+) worlds\s+([0-9.]+) M/s$")
COLOURS = ["#1f77b4", "#d95f02", "#2a9d4a", "#7a5cc0"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 64, 36, 32, 52


def read(text):
    """The line that says what ran, and {case: [(worlds, million steps a second)]}."""
    lines = text.splitlines()
    cases = {}
    for line in lines[1:]:
        found = LINE.match(line)
        if not found:
            sys.exit(f"plot_scaling: \"{line}\": expected \"CASE N worlds X M/s\", as sim_bench --scale prints")
        cases.setdefault(found[1], []).append((int(found[2]), float(found[3])))
    if not cases or any(rate <= 0 for points in cases.values() for _, rate in points):
        sys.exit("plot_scaling: no figures above 0, expected those of sim_bench --scale")
    return lines[0], cases


def table(cases):
    names = list(cases)
    rows = ["| worlds | " + " | ".join(names) + " |", "|---" * (1 + len(names)) + "|"]
    for worlds in sorted({at for points in cases.values() for at, _ in points}):
        cells = [f"{dict(cases[name])[worlds]:.3g}" if worlds in dict(cases[name]) else "" for name in names]
        rows.append(f"| {worlds:,} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def picture(title, cases):
    """Both axes logarithmic: worlds by fours, million steps a second by tens."""
    worlds = [at for points in cases.values() for at, _ in points]
    rates = [rate for points in cases.values() for _, rate in points]
    low, high = math.floor(math.log10(min(rates))), math.ceil(math.log10(max(rates)))
    high = max(high, low + 1)
    most = max(math.log(max(worlds), 4), 1)

    def x(at):
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(at, 4) / most

    def y(rate):
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (math.log10(rate) - low) / (high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">',
           f"<title>{html.escape(title)}</title>", f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>']

    def text(at_x, at_y, words, anchor="middle", more=""):
        out.append(f'<text x="{at_x:.1f}" y="{at_y:.1f}" text-anchor="{anchor}" fill="#333333"{more}>{html.escape(words)}</text>')

    for power in range(low, high + 1):
        at = y(10.0**power)
        out.append(f'<path d="M{LEFT} {at:.1f}H{WIDTH - RIGHT}" stroke="#dddddd"/>')
        text(LEFT - 6, at + 4, f"{10.0**power:g}", "end")
    for power in range(0, math.floor(most) + 1, 2):
        text(x(4.0**power), HEIGHT - BOTTOM + 18, f"{4**power:,}")
    text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "worlds")
    middle = (TOP + HEIGHT - BOTTOM) / 2
    text(14, middle, "million steps a second", more=f' transform="rotate(-90 14 {middle})"')
    text(LEFT, 16, title, "start")
    for i, (name, points) in enumerate(cases.items()):
        colour = COLOURS[i % len(COLOURS)]
        line = " ".join(f"{x(at):.1f},{y(rate):.1f}" for at, rate in sorted(points))
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for at, rate in points:
            out.append(f'<circle cx="{x(at):.1f}" cy="{y(rate):.1f}" r="3" fill="{colour}"/>')
        # Below the lines, which rise to the right.
        key_x, key_y = WIDTH - RIGHT - 300, HEIGHT - BOTTOM - 18 * (len(cases) - i)
        out.append(f'<path d="M{key_x} {key_y - 4}h18" stroke="{colour}" stroke-width="2"/>')
        text(key_x + 24, key_y, name, "start")
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default="build/sim_bench")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--svg")
    parser.add_argument("--from", dest="source")
    args = parser.parse_args()
    if args.source:
        with open(args.source, encoding="utf-8") as file:
            output = file.read()
    else:
        command = [args.bench, "--scale", "--steps", str(args.steps), "--threads", str(args.threads)]
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    title, cases = read(output)
    print(f"{title}\n\n{table(cases)}")
    if args.svg:
        with open(args.svg, "w", encoding="utf-8") as file:
            file.write(picture(title, cases))


if __name__ == "__main__":
    main()
