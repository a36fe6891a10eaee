#!/usr/bin/env python3
"""A list of what is in a package and what it was made of: SPDX 2.3 as JSON, on stdout.

  scripts/sbom.py --version V --depends 'libc6 (>= 2.36), libfmt9' ROOT

ROOT holds the files as they are installed. Packages are named as Debian names them, with the versions that are installed
here. SOURCE_DATE_EPOCH is the time of its making: the same files and packages give the same bytes.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import urllib.parse
import uuid

# Headers whose code becomes part of the program; it is linked with nothing of them.
COMPILED_IN = ["libcli11-dev", "nlohmann-json3-dev", "libtomlplusplus-dev", "libhwy-dev"]
TOOLS = ["g++", "cmake", "protobuf-compiler", "capnproto"]


def installed(name):
    """Version and architecture of a package, None if it is not installed."""
    if not shutil.which("dpkg-query"):
        return None
    answer = subprocess.run(["dpkg-query", "-W", "-f", "${Version}\t${Architecture}\t${Homepage}", name],
                            capture_output=True, text=True)
    if answer.returncode != 0 or not answer.stdout.split("\t")[0]:
        return None
    return answer.stdout.split("\t")


def spdx_id(kind, name):
    return f"SPDXRef-{kind}-" + "".join(c if c.isalnum() or c in ".-" else "-" for c in name)


def package(name, distribution):
    found = installed(name)
    out = {"SPDXID": spdx_id("Package", name), "name": name, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
           "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION"}
    if found:
        version, architecture, homepage = found
        out["versionInfo"] = version
        if homepage:
            out["homepage"] = homepage
        quoted = urllib.parse.quote(f"{name}@{version}", safe="@:")  # an address has no plus sign
        out["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                "referenceLocator": f"pkg:deb/{distribution}/{quoted}?arch={architecture}"}]
    return out


def checksums(path):
    data = path.read_bytes()
    return [{"algorithm": algorithm.upper(), "checksumValue": hashlib.new(algorithm, data).hexdigest()}
            for algorithm in ("sha1", "sha256")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", required=True)
    parser.add_argument("--depends", required=True, help="as in a package's control file")
    parser.add_argument("--distribution", default=platform.freedesktop_os_release()["ID"], help="of the packages' addresses")
    parser.add_argument("root", type=pathlib.Path)
    flags = parser.parse_args()
    if not flags.root.is_dir():
        sys.exit(f"sbom: {flags.root}: not a folder")

    own = spdx_id("Package", "sparkpilot")
    files = []
    for path in sorted(p for p in flags.root.rglob("*") if p.is_file() and not p.is_symlink() and "DEBIAN" not in p.parts):
        name = "./" + str(path.relative_to(flags.root))
        files.append({"SPDXID": spdx_id("File", hashlib.sha1(name.encode()).hexdigest()[:16]), "fileName": name,
                      "checksums": checksums(path), "licenseConcluded": "MIT", "copyrightText": "NOASSERTION"})
    # SPDX 2.3, 7.9: the SHA-1 of the files' sorted SHA-1s.
    sums = sorted(file["checksums"][0]["checksumValue"] for file in files)
    code = hashlib.sha1("".join(sums).encode()).hexdigest()
    linked = sorted({alternative.split()[0].split(":")[0]
                     for part in flags.depends.split(",") if part.strip() for alternative in [part.split("|")[0].strip()]})
    packages = [{"SPDXID": own, "name": "sparkpilot", "versionInfo": flags.version, "downloadLocation": "NOASSERTION",
                 "filesAnalyzed": True, "packageVerificationCode": {"packageVerificationCodeValue": code},
                 "licenseConcluded": "MIT", "licenseDeclared": "MIT", "copyrightText": "NOASSERTION"}]
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", own)]
    relations += [(own, "CONTAINS", file["SPDXID"]) for file in files]
    for names, relation in ((linked, "DYNAMIC_LINK"), (COMPILED_IN, "STATIC_LINK"), (TOOLS, "BUILD_TOOL_OF")):
        for name in names:
            if relation != "DYNAMIC_LINK" and not installed(name):
                continue
            packages.append(package(name, flags.distribution))
            ends = (own, packages[-1]["SPDXID"])
            relations.append((ends[1], relation, ends[0]) if relation == "BUILD_TOOL_OF" else (ends[0], relation, ends[1]))
    created = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    document = {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"sparkpilot-{flags.version}",
        "documentNamespace": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, json.dumps([packages, code], sort_keys=True))}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": ["Tool: sparkpilot-scripts-sbom.py"]},
        "packages": packages, "files": files,
        "relationships": [{"spdxElementId": a, "relationshipType": relation, "relatedSpdxElement": b}
                          for a, relation, b in relations]}
    json.dump(document, sys.stdout, indent=1)
    print()


main()
