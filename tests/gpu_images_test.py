#!/usr/bin/env python3
"""The program holds the GPU code that lies in the build folder, not that of an earlier build.

Usage: gpu_images_test.py PROGRAM IMAGES
"""
import pathlib
import sys


def main():
    program = pathlib.Path(sys.argv[1]).read_bytes()
    images = sorted(pathlib.Path(sys.argv[2]).glob("*.fatbin"))
    old = [image.name for image in images if image.read_bytes() not in program]
    if not images or old:
        sys.exit(f"expected all of {len(images)} images in {sys.argv[1]}, not there: {', '.join(old)}")


if __name__ == "__main__":
    main()
