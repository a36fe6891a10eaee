#!/usr/bin/env python3
"""Tests scripts/sbom.py: what it lists, and that it gives the same bytes twice. sbom_test.py"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts/sbom.py"


class Sbom(unittest.TestCase):
    def made(self, root, depends="libc6 (>= 2.36), libfmt9 | libfmt10:any, nobody-has-this"):
        return subprocess.run([sys.executable, SCRIPT, "--version", "1.2-3", "--depends", depends, root], check=True,
                              stdout=subprocess.PIPE, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}).stdout

    def test_lists_files_and_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "usr/bin").mkdir(parents=True)
            (root / "usr/bin/sparkpilot").write_bytes(b"program")
            (root / "usr/bin/link").symlink_to("sparkpilot")
            (root / "DEBIAN").mkdir()
            (root / "DEBIAN/control").write_text("not installed")
            text = self.made(root)
            self.assertEqual(text, self.made(root))
            document = json.loads(text)
            (root / "usr/bin/sparkpilot").write_bytes(b"another")
            self.assertNotEqual(json.loads(self.made(root))["documentNamespace"], document["documentNamespace"])
        self.assertEqual(document["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        self.assertEqual([file["fileName"] for file in document["files"]], ["./usr/bin/sparkpilot"])
        sums = {each["algorithm"]: each["checksumValue"] for each in document["files"][0]["checksums"]}
        self.assertEqual(sums["SHA256"], hashlib.sha256(b"program").hexdigest())
        linked = [each["relatedSpdxElement"] for each in document["relationships"] if each["relationshipType"] == "DYNAMIC_LINK"]
        self.assertEqual(linked, ["SPDXRef-Package-libc6", "SPDXRef-Package-libfmt9", "SPDXRef-Package-nobody-has-this"])
        packages = {each["name"]: each for each in document["packages"]}
        self.assertNotIn("versionInfo", packages["nobody-has-this"])
        if shutil.which("dpkg-query"):
            self.assertIn("pkg:deb/debian/libc6@", packages["libc6"]["externalRefs"][0]["referenceLocator"])
        known = {each["SPDXID"] for each in document["packages"] + document["files"]} | {"SPDXRef-DOCUMENT"}
        for each in document["relationships"]:
            self.assertIn(each["spdxElementId"], known)
            self.assertIn(each["relatedSpdxElement"], known)

    def test_refuses_what_is_no_folder(self):
        done = subprocess.run([sys.executable, SCRIPT, "--version", "1", "--depends", "", "/nowhere"], text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", "sbom: /nowhere: not a folder\n"))


unittest.main()
