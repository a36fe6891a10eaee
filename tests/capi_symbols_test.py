#!/usr/bin/env python3
"""A shared library of C functions shows those that its header declares, all and alone; its number is the header's; and what a
version once had it keeps.

    capi_symbols_test.py LIBRARY HEADER
"""
import pathlib
import re
import subprocess
import sys
import unittest

# What programs that were linked with these versions call. A function may come to a version; none may go.
KEPT = {"libsparkpilot_c.so.1": """
    sparkpilot_api_version sparkpilot_close sparkpilot_default_options sparkpilot_error sparkpilot_find_input
    sparkpilot_find_output sparkpilot_input sparkpilot_input_count sparkpilot_load sparkpilot_load_bytes
    sparkpilot_output sparkpilot_output_count sparkpilot_read sparkpilot_run sparkpilot_set_shape
    sparkpilot_version sparkpilot_write""",
        "libsparkpilot_sim.so.3": """
    sparkpilot_sim_action sparkpilot_sim_default_options sparkpilot_sim_error sparkpilot_sim_error_kind
    sparkpilot_sim_free sparkpilot_sim_make sparkpilot_sim_observation sparkpilot_sim_reset
    sparkpilot_sim_scenario sparkpilot_sim_step sparkpilot_sim_term sparkpilot_sim_version"""}

HEADER, LIBRARY = sys.argv.pop(), sys.argv.pop()


class Library(unittest.TestCase):
    def test_it_shows_what_the_header_declares(self):
        header = re.sub(r"/\*.*?\*/", "", pathlib.Path(HEADER).read_text(), flags=re.DOTALL)
        declared = set(re.findall(r"\b(sparkpilot_\w+)\(", header))
        self.assertGreater(len(declared), 5)
        said = subprocess.run(["nm", "--dynamic", "--defined-only", LIBRARY], capture_output=True, text=True, check=True)
        shown = {line.split()[-1].split("@")[0] for line in said.stdout.splitlines() if " A " not in line}
        self.assertEqual(shown, declared)

    def test_its_number_is_that_of_what_it_keeps(self):
        said = subprocess.run(["readelf", "--dynamic", "--wide", LIBRARY], capture_output=True, text=True, check=True).stdout
        name = re.search(r"SONAME.*\[(.*)\]", said).group(1)
        header = pathlib.Path(HEADER).read_text()
        number = re.search(r"#define SPARKPILOT_(?:API|SIM)_VERSION (\d+)", header).group(1)
        self.assertEqual(name.rsplit(".", 1)[1], number)
        self.assertIn(name, KEPT, "a new version: list what it has")
        declared = set(re.findall(r"\b(sparkpilot_\w+)\(", header))
        self.assertLessEqual(set(KEPT[name].split()), declared)


if __name__ == "__main__":
    unittest.main()
