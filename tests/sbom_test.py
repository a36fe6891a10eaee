#!/usr/bin/env python3
"""Tests scripts/sbom.py: what it lists, that it gives the same bytes twice, and what SPDX's tools say of it, where this Python has
them (scripts/make_peers.sh formats).

    sbom_test.py [--list FILE.spdx.json]        that one, of a package, besides
"""

import argparse
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    from packageurl import PackageURL
    from spdx_tools.spdx.parser.parse_anything import parse_file
    from spdx_tools.spdx.spdx_element_utils import calculate_package_verification_code
    from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
    MISSING = None
except ModuleNotFoundError as error:
    MISSING = f"this Python has no {error.name}"

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts/sbom.py"


class Sbom(unittest.TestCase):
    list = None

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
            self.assertIn(f"pkg:deb/{platform.freedesktop_os_release()['ID']}/libc6@", packages["libc6"]["externalRefs"][0]["referenceLocator"])
        known = {each["SPDXID"] for each in document["packages"] + document["files"]} | {"SPDXRef-DOCUMENT"}
        for each in document["relationships"]:
            self.assertIn(each["spdxElementId"], known)
            self.assertIn(each["relatedSpdxElement"], known)

    def test_refuses_what_is_no_folder(self):
        done = subprocess.run([sys.executable, SCRIPT, "--version", "1", "--depends", "", "/nowhere"], text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", "sbom: /nowhere: not a folder\n"))

    @unittest.skipIf(MISSING, MISSING)
    def test_is_valid_for_the_tools_of_spdx(self):
        with tempfile.TemporaryDirectory() as folder:
            root, made = pathlib.Path(folder) / "root", pathlib.Path(folder) / "made.spdx.json"
            (root / "usr/bin").mkdir(parents=True)
            for name in ("sparkpilot", "a name", "libstdc++.so"):
                (root / "usr/bin" / name).write_text(name)
            made.write_bytes(self.made(root, "libc6, libstdc++6, nobody-has-this"))
            self.valid(made)
            if self.list:
                self.valid(self.list)
            document = json.loads(made.read_text())
            document["relationships"].pop(0)
            document["relationships"][0]["relatedSpdxElement"] = "SPDXRef-nothing"
            made.write_text(json.dumps(document))
            self.assertEqual(len(validate_full_spdx_document(parse_file(str(made)))), 2)  # so it can say no

    def valid(self, path):
        document = parse_file(str(path))
        self.assertEqual([message.validation_message for message in validate_full_spdx_document(document)], [])
        own = document.packages[0]
        self.assertEqual(own.verification_code, calculate_package_verification_code(document.files))
        addresses = [each.locator for package in document.packages for each in package.external_references]
        self.assertEqual(addresses, [PackageURL.from_string(address).to_string() for address in addresses])
        if shutil.which("dpkg-query"):
            self.assertTrue([address for address in addresses if "%2B" in address], addresses)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=pathlib.Path)
    flags, rest = parser.parse_known_args()
    Sbom.list = flags.list
    if flags.list and MISSING:
        sys.exit(f"sbom_test: {MISSING}")
    unittest.main(argv=[sys.argv[0], *rest])
