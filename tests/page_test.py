#!/usr/bin/env python3
"""A report's page in a real browser: it is drawn, its sections are there, its script runs and nothing else does.

    page_test.py BUILD/route_test

The page is the sample that the unit test Page.IsWholeAndNeedsNothingElse writes. Exit code 77: no browser is installed.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PROGRAM = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else None


def png_rows(data):
    """Width, height and the rows of a PNG, still filtered."""
    width, height = struct.unpack(">II", data[16:24])
    packed, at = b"", 8
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        if kind == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    raw = zlib.decompress(packed)
    stride = len(raw) // height
    return width, height, [raw[i * stride:(i + 1) * stride] for i in range(height)]


class InBrowser(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.page = pathlib.Path(self.folder.name) / "page.html"
        subprocess.run([PROGRAM, "--gtest_filter=Page.IsWholeAndNeedsNothingElse"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "SPARKPILOT_SAMPLE_PAGE": str(self.page)})

    def browse(self, *words):
        browser = next(path for path in map(shutil.which, BROWSERS) if path)
        done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                               f"--user-data-dir={self.folder.name}/profile", "--virtual-time-budget=3000",
                               "--enable-logging=stderr", *words, self.page.as_uri()], capture_output=True, text=True,
                              timeout=120, check=True)
        refused = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        self.assertEqual(refused, [], "the page broke its own rules")
        return done.stdout

    def test_it_is_drawn_in_light_and_dark(self):
        for name, scheme in (("light", 1), ("dark", 0)):
            picture = pathlib.Path(self.folder.name) / f"{name}.png"
            self.browse(f"--screenshot={picture}", "--window-size=900,1400", f"--blink-settings=preferredColorScheme={scheme}")
            width, height, rows = png_rows(picture.read_bytes())
            self.assertEqual((width, height), (900, 1400))
            # Rows that repeat the one above are mostly empty; text, figures and pictures give hundreds of distinct
            # ones.
            self.assertGreater(len(set(rows)), 300, f"{name}: the page is blank")

    def test_its_parts_are_there(self):
        dom = self.browse("--dump-dom")
        self.assertEqual(re.findall(r"<h2>(.*?)</h2>", dom), ["Against the recorded model", "Speed", "Pictures"])
        self.assertEqual(len(re.findall(r"<svg ", dom)), 2)
        self.assertEqual(len(re.findall(r"<img ", dom)), 2)
        # The script has prepared the read-out of the one figure with lines.
        self.assertEqual(len(re.findall(r"<g style=\"pointer-events: none; display: none;\">", dom)), 1)

    def test_the_page_names_its_own_script(self):
        html = self.page.read_text()
        script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        self.assertIn(f"script-src 'sha256-{digest}'", html)


if __name__ == "__main__":
    if PROGRAM is None:
        sys.exit(__doc__)
    if not any(map(shutil.which, BROWSERS)):
        print(f"skipped: none of {', '.join(BROWSERS)} is installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
