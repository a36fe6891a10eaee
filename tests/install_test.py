#!/usr/bin/env python3
"""The library from outside: installed and found by find_package(), or a part of another project by add_subdirectory().

    install_test.py --build BUILD [--cmake CMAKE] [--compiler CXX]

The project that uses it is the one that README.md shows, word for word, compiled with the warnings that its reader may
have switched on.
"""
import argparse
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FLAGS = "-Wall -Wextra -Wpedantic -Werror"
# Names of rooms, which an enclosing project may use as well.
NEIGHBOURS = "".join(f"add_custom_target({name})\n" for name in ("base", "ir", "ops", "runtime", "bench"))


def run(*words):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode:
        raise AssertionError(f"{' '.join(str(word) for word in words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def readme_block(language):
    """The first block of that language after the heading."""
    section = (ROOT / "README.md").read_text().split("## Use the library", 1)[1]
    return re.search(rf"^```{language}\n(.*?)^```", section, re.MULTILINE | re.DOTALL)[1]


class Outside(unittest.TestCase):
    options = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sparkpilot_install_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def project(self, lists):
        source = self.folder / "project"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(lists)
        (source / "main.cc").write_text(readme_block("cpp"))
        return source

    def configure(self, source, *words):
        build = self.folder / "build"
        run(self.options.cmake, "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_CXX_FLAGS={FLAGS}",
            f"-DCMAKE_CXX_COMPILER={self.options.compiler}", *words)
        return build

    def test_the_installed_package(self):
        prefix = self.folder / "prefix"
        run(self.options.cmake, "--install", self.options.build, "--prefix", prefix)
        moved = prefix.rename(self.folder / "elsewhere")  # no file may refer to the first installation path
        build = self.configure(self.project(readme_block("cmake")), f"-DCMAKE_PREFIX_PATH={moved}")
        run(self.options.cmake, "--build", build)
        run(moved / "bin/sparkpilot", "zoo", "build", "--quiet", "tiny_driving_policy", "--out", self.folder)
        said = subprocess.run([moved / "bin/sparkpilot", "compare", self.folder / "tiny_driving_policy.onnx", "--peer",
                               "onnxruntim"], capture_output=True, text=True, check=False).stderr
        self.assertIn("(did you mean onnxruntime?)", said)
        for file in ("sparkpilot/peers/sparkpilot_peer.py", "sparkpilot/models/demo_supercombo.onnx", "man/man1/sparkpilot-drive.1",
                     "bash-completion/completions/sparkpilot", "zsh/site-functions/_sparkpilot",
                     "fish/vendor_completions.d/sparkpilot.fish"):
            self.assertTrue((moved / "share" / file).exists(), file)
        self.a_program_in_c(moved)
        library, = moved.glob("lib*/**/libsparkpilot_sim.so")
        header = (moved / "include/sparkpilot/sim_env.h").read_text()
        version = int(re.search(r"define SPARKPILOT_SIM_VERSION (\d+)", header)[1])
        self.assertEqual(ctypes.CDLL(library).sparkpilot_sim_version(), version)
        said = run(build / "app", self.folder / "tiny_driving_policy.onnx")
        self.assertRegex(said, r"(?m)^plan +-?\d")

    def a_program_in_c(self, prefix):
        """The one of docs/install.md."""
        source, program = self.folder / "main.c", self.folder / "main"
        page = (ROOT / "docs/install.md").read_text()
        source.write_text(re.search(r"^```c\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1])
        pc, = prefix.glob("lib*/**/pkgconfig")
        said = subprocess.run(["pkg-config", "--cflags", "--libs", "sparkpilot"], capture_output=True, text=True, check=True,
                              env={**os.environ, "PKG_CONFIG_PATH": str(pc)}).stdout
        run("cc", *FLAGS.split(), source, "-o", program, *said.split(), f"-Wl,-rpath,{pc.parent}")
        self.assertRegex(run(program, self.folder / "tiny_driving_policy.onnx"), r"^outputs has \d+ bytes\n$")

    def test_an_example_that_uses_both_libraries(self):
        """By the targets that docs/sim_env.md and docs/install.md name."""
        prefix = self.folder / "prefix"
        run(self.options.cmake, "--install", self.options.build, "--prefix", prefix)
        lists = re.sub(r"add_executable\(.*", f"add_executable(app {ROOT}/examples/clone_mpc.cc)", readme_block("cmake"))
        lists += "target_link_libraries(app PRIVATE sparkpilot::sim)\n"
        lists += "add_library(other SHARED main.cc)\ntarget_link_libraries(other PRIVATE sparkpilot::c)\n"
        source = self.project(lists)
        (source / "main.cc").write_text("#include <sparkpilot/sparkpilot.h>\n"
                                        "const char* version() { return sparkpilot_version(); }\n")
        build = self.configure(source, f"-DCMAKE_PREFIX_PATH={prefix}")
        run(self.options.cmake, "--build", build)
        said = subprocess.run([build / "app", "policy.onnx", "none"], capture_output=True, text=True, check=False)
        self.assertNotIn("loading shared libraries", said.stderr)

    def test_a_part_of_another_project(self):
        found = "find_package(sparkpilot REQUIRED)"
        lists = readme_block("cmake")
        self.assertIn(found, lists)
        build = self.configure(self.project(lists.replace(found, f"{NEIGHBOURS}add_subdirectory({ROOT} sparkpilot)")))
        rules = (build / "build.ninja").read_text()
        # Its tests, programs and warning flags must not leak out; the only -Werror is that of FLAGS, which applies to
        # everything.
        for word in ("gtest", "cli/main.cc", "synthetic_drive", "build_graph", "-Werror -Wnon-virtual-dtor"):
            self.assertNotIn(word, rules)
        self.assertRegex(run("ninja", "-C", build, "-t", "commands", "app"), r"-o app .*sparkpilot/libsparkpilot\.a")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="where sparkpilot is built")
    parser.add_argument("--cmake", default="cmake")
    parser.add_argument("--compiler", default="c++")
    Outside.options, rest = parser.parse_known_args()
    unittest.main(argv=[sys.argv[0], *rest])
