#!/usr/bin/env python3
"""What libsparkpilot_sim shows to a program that loads it: the functions of its header, all and alone; and that
docs/sim_env.md names its columns, with their units and scales.

    sim_env_symbols_test.py LIBRARY
"""
import ctypes
import itertools
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = sys.argv.pop(1)


class Number(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "unit", "meaning")] + \
               [(name, ctypes.c_double) for name in ("low", "high", "scale")]


class Library(unittest.TestCase):
    def test_it_shows_what_the_header_declares(self):
        header = re.sub(r"/\*.*?\*/", "", (ROOT / "include/sparkpilot/sim_env.h").read_text(), flags=re.DOTALL)
        declared = set(re.findall(r"\b(sparkpilot_sim_\w+)\(", header))
        said = subprocess.run(["nm", "--dynamic", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
        self.assertEqual({line.split()[-1] for line in said.stdout.splitlines()}, declared)

    def test_the_page_names_its_columns(self):
        page = (ROOT / "docs/sim_env.md").read_text()
        library = ctypes.CDLL(LIBRARY)
        for function in ("observation", "term"):
            at = getattr(library, f"sparkpilot_sim_{function}")
            at.restype = ctypes.POINTER(Number)
            numbers = [n[0] for n in itertools.takewhile(bool, map(at, itertools.count()))]
            self.assertGreater(len(numbers), 5)
            for n in numbers:
                bounds = f"{n.low:g} | {n.high:g} | " if function == "observation" else ""
                row = f"| `{n.name.decode()}` | {n.unit.decode()} | {bounds}{n.scale:g} | {n.meaning.decode()} |"
                self.assertIn(row, page)


if __name__ == "__main__":
    unittest.main()
