#!/usr/bin/env python3
"""Runs the commands of a page of docs/tutorial as a reader would: tutorial_test.py SPARKPILOT PAGE

The page's `sh` blocks are one script for bash, in an empty folder with the model beside it. A line of the output that the page
quotes with metres must come, with as many (to a tenth, as processors round differently).
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def script_of(page):
    blocks = re.findall(r"^```sh\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    if not blocks:
        sys.exit(f"{page}: no commands")
    return "set -euo pipefail\nset -x\n" + "\n".join(blocks)


def wrong_quotes(page, output):
    for text, metres in re.findall(r"`([^`\n]+: )([\d.]+) m`", page.read_text()):
        said = re.search(re.escape(text) + r"([\d.]+) m", output)
        if said is None or abs(float(said[1]) - float(metres)) > 0.1 * float(metres):
            yield f"{text}{metres} m: it was {said[1] + ' m' if said else 'never said'}"


def main():
    program, page = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        model = "demo_supercombo.onnx"
        (pathlib.Path(folder) / model).write_bytes((ROOT / "models" / model).read_bytes())
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARKPILOT_", "OPENPILOT_"))}
        environment |= {"PATH": f"{program.parent}:{os.environ['PATH']}", "MODEL": model, "HOME": folder,
                        "SPARKPILOT_DEVICE": "cpu", "SPARKPILOT_TUNE": "off"}
        done = subprocess.run(["bash", "-c", script_of(page)], cwd=folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            print(done.stdout)
            sys.exit(f"{page}: exit code {done.returncode}")
        if wrong := list(wrong_quotes(page, done.stdout)):
            print(done.stdout)
            sys.exit(f"{page}: {'; '.join(wrong)}")


main()
