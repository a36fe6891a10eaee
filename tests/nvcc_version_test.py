#!/usr/bin/env python3
"""An nvcc that is too old for the kernels is left alone, one that is new enough compiles what it knows.

Usage: nvcc_version_test.py CMAKE SOURCES
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE, SOURCES = sys.argv[1:3]
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(images LANGUAGES CXX)
include({sources}/cmake/cuda.cmake)
add_library(fmt::fmt INTERFACE IMPORTED)
function(sparkpilot_flags target)
endfunction()
add_library(images OBJECT empty.cc)
sparkpilot_kernel_images(images)
"""
NVCC = """#!/bin/sh
case $1 in
  --version) echo "Cuda compilation tools, release {version}, V{version}.0" ;;
  --list-gpu-arch) printf 'compute_80\\ncompute_89\\ncompute_90\\n' ;;
esac
"""


class NvccVersion(unittest.TestCase):
    def configured(self, version):
        """What CMake says, and the table of images that it makes."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "CMakeLists.txt").write_text(PROJECT.format(sources=SOURCES))
            (folder / "empty.cc").write_text("")
            nvcc = folder / "nvcc"
            nvcc.write_text(NVCC.format(version=version))
            nvcc.chmod(0o755)
            result = subprocess.run([CMAKE, "-S", name, "-B", folder / "build", f"-DNVCC={nvcc}"], text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(result.returncode, 0, result.stdout)
            return result.stdout, (folder / "build/generated/ops/cuda/image_table.cc").read_text()

    def test_one_that_is_too_old(self):
        said, table = self.configured("11.8")
        self.assertIn("CUDA 11.8", said)
        self.assertIn("this build holds no GPU code", " ".join(said.split()))
        self.assertIn("table = {}", table)

    def test_one_that_does_not_know_all(self):
        said, table = self.configured("12.0")
        self.assertNotIn("holds no GPU code", " ".join(said.split()))
        self.assertIn("does not know sm_120", said)
        self.assertIn('"sm_80", "sm_89", "sm_90", "compute_90"', table)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
