#!/usr/bin/env python3
"""docs/sim_env.md names the columns of libsparkpilot_sim, with their units and scales.

    sim_env_page_test.py LIBRARY
"""
import ctypes
import itertools
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = sys.argv.pop(1)


class Number(ctypes.Structure):
    _fields_ = [(name, ctypes.c_char_p) for name in ("name", "unit", "meaning")] + \
               [(name, ctypes.c_double) for name in ("low", "high", "scale")]


class Library(unittest.TestCase):
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
