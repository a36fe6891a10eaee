#!/usr/bin/env python3
"""docs/python.md: its blocks run one after the other and print what the page says."""
import contextlib
import importlib.util
import io
import os
import pathlib
import re
import shutil
import tempfile
import unittest

from package import BUILD, ROOT, need_route, skip

need_route()
if not (BUILD / "libsparkpilot_sim.so").exists():
    skip("libsparkpilot_sim was not built")


class Page(unittest.TestCase):
    def test_blocks(self):
        page = (ROOT / "docs/python.md").read_text()
        blocks = re.findall(r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", page, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 10)
        names, back = {}, os.getcwd()
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(ROOT / "models/demo_supercombo.onnx", folder)
            os.chdir(folder)
            try:
                for code, expected in blocks:
                    needs = re.match(r"# needs (\w+)\n", code)
                    if needs and importlib.util.find_spec(needs[1]) is None:
                        continue
                    said = io.StringIO()
                    with contextlib.redirect_stdout(said):
                        exec(compile(code, "docs/python.md", "exec"), names)
                    self.assertEqual(said.getvalue(), expected, code)
                self.assertTrue(pathlib.Path("layer.onnx").exists())
            finally:
                os.chdir(back)


if __name__ == "__main__":
    unittest.main()
