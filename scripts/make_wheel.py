#!/usr/bin/env python3
"""Packs the Python package, the program and our shared libraries as one wheel: `make wheel`.

    make_wheel.py BUILD [--out out] [--cmake cmake]      after `cmake --build BUILD`

Needs Python alone. The wheel is of this Python's version and this platform: sparkpilot-0.1.0-cp311-cp311-linux_x86_64.whl.
Libraries of the distribution are not in it. They are named as Requires-External in its METADATA, by the packages that they
are in here, and docs/python.md says what that means.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
# What every system with a C library and a compiler's runtime has.
EVERYWHERE = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libgcc_s.so", "libstdc++.so", "ld-linux")

METADATA = """Metadata-Version: 2.1
Name: sparkpilot
Version: {version}
Summary: openpilot's driving models on any PC or an NVIDIA DGX Spark: run, measure, adapt and test them
License: MIT
Description-Content-Type: text/markdown
Requires-Python: =={python}.*
Requires-Dist: numpy>=1.23
Provides-Extra: gym
Requires-Dist: gymnasium>=1.1; extra == "gym"
Provides-Extra: sb3
Requires-Dist: stable-baselines3>=2.6; extra == "sb3"
Requires-Dist: gymnasium>=1.1; extra == "sb3"
{external}

"""


def run(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"make_wheel: {' '.join(str(word) for word in words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def needed_libraries(file):
    names = re.findall(r"\(NEEDED\)\s+Shared library: \[([^]]+)\]", run("readelf", "-d", file))
    return [name for name in names if not name.startswith(EVERYWHERE)]


def libraries_loaded_later(file):
    """FFmpeg's, which are loaded by name when they are needed (src/route/video/ffmpeg.h)."""
    found = re.findall(rb"(libav(?:format|codec|util)\.so\.\d+)\0", pathlib.Path(file).read_bytes())
    return sorted({name.decode() for name in found})


def packages_of(file):
    """The distribution's packages that a binary's libraries are in; where there is no dpkg, the libraries' names."""
    paths = dict(re.findall(r"^\s*(\S+) (?:\([^)]*\) )?=> (/\S+)", run("/sbin/ldconfig", "-p") + run("ldd", file), re.MULTILINE))
    found = set()
    for name in needed_libraries(file) + libraries_loaded_later(file):
        if name not in paths:
            sys.exit(f"make_wheel: {file} needs {name}, which is not found")
        owner = None
        for path in (paths[name], os.path.realpath(paths[name])):
            for spelling in {path, path.removeprefix("/usr")}:
                said = subprocess.run(["dpkg", "-S", spelling], capture_output=True, text=True, check=False) if \
                    shutil.which("dpkg") else None
                if said and said.returncode == 0:
                    owner = owner or said.stdout.split(":")[0]
        found.add(owner or name)
    return found


def stripped(file, to):
    to.parent.mkdir(parents=True, exist_ok=True)
    run("strip", "--strip-unneeded", "-o", to, file)
    to.chmod(0o755)


def gather(build, cmake, tree):
    """Lays out the wheel's files in `tree` and returns its binaries and the version."""
    package = tree / "sparkpilot"
    shutil.copytree(ROOT / "python/sparkpilot", package, ignore=shutil.ignore_patterns("__pycache__"))
    binaries = []
    for name in ("_core", "_route"):
        module, = (build / "python/sparkpilot").glob(f"{name}.*.so")
        stripped(module, package / module.name)
        binaries.append(package / module.name)
    version = run(sys.executable, "-c", f"import sys; sys.path.insert(0, {str(build / 'python')!r}); "
                  "from sparkpilot import _core; print(_core.__version__)").strip()
    data = tree / f"sparkpilot-{version}.data"
    with tempfile.TemporaryDirectory() as prefix:
        prefix = pathlib.Path(prefix)
        run(cmake, "--install", build, "--prefix", prefix)
        stripped(prefix / "bin/sparkpilot", data / "scripts/sparkpilot")
        binaries.append(data / "scripts/sparkpilot")
        shutil.copytree(prefix / "share/sparkpilot", data / "data/share/sparkpilot",
                        ignore=shutil.ignore_patterns("__pycache__"))
        for library in prefix.glob("lib*/**/libsparkpilot_sim.so.*"):
            stripped(library, package / library.name)
            binaries.append(package / library.name)
    return binaries, version


def pack(tree, out, version, external):
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    tag = f"cp{here.replace('.', '')}-cp{here.replace('.', '')}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"sparkpilot-{version}.dist-info"
    (tree / info).mkdir()
    lines = "\n".join(f"Requires-External: {name}" for name in sorted(external))
    (tree / info / "METADATA").write_text(METADATA.format(version=version, python=here, external=lines)
                                          + (ROOT / "README.md").read_text())
    (tree / info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: sparkpilot {version}\nRoot-Is-Purelib: false\nTag: {tag}\n")
    shutil.copy(ROOT / "LICENSE", tree / info / "LICENSE")
    out.mkdir(parents=True, exist_ok=True)
    wheel = out / f"sparkpilot-{version}-{tag}.whl"
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as packed:
        def add(name, content, mode):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))  # the same bytes whenever it is made
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            packed.writestr(entry, content)

        files = sorted(path for path in tree.rglob("*") if path.is_file())
        for path in files:
            name, content = path.relative_to(tree).as_posix(), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(content)}")
            add(name, content, 0o755 if os.access(path, os.X_OK) else 0o644)
        add(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,"]) + "\n", 0o644)
    return wheel


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "out")
    parser.add_argument("--cmake", default="cmake")
    options = parser.parse_args()
    if not list((options.build / "python/sparkpilot").glob("_core*.so")):
        sys.exit(f"make_wheel: there is no Python module in {options.build} (pybind11-dev, python3-dev)")
    with tempfile.TemporaryDirectory(prefix="sparkpilot_wheel_") as folder:
        tree = pathlib.Path(folder)
        binaries, version = gather(options.build, options.cmake, tree)
        external = set().union(*(packages_of(file) for file in binaries))
        wheel = pack(tree, options.out, version, external)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB; needs of the distribution: {' '.join(sorted(external))}")


if __name__ == "__main__":
    main()
