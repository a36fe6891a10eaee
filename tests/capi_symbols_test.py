#!/usr/bin/env python3
"""A shared library of C functions shows those that its header declares, all and alone.

    capi_symbols_test.py LIBRARY HEADER
"""
import pathlib
import re
import subprocess
import sys
import unittest

HEADER, LIBRARY = sys.argv.pop(), sys.argv.pop()


class Library(unittest.TestCase):
    def test_it_shows_what_the_header_declares(self):
        header = re.sub(r"/\*.*?\*/", "", pathlib.Path(HEADER).read_text(), flags=re.DOTALL)
        declared = set(re.findall(r"\b(sparkpilot_\w+)\(", header))
        self.assertGreater(len(declared), 5)
        said = subprocess.run(["nm", "--dynamic", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
        shown = {line.split()[-1].split("@")[0] for line in said.stdout.splitlines() if " A " not in line}
        self.assertEqual(shown, declared)


if __name__ == "__main__":
    unittest.main()
