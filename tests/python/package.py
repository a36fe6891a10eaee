"""For the tests of the Python package: finds it, or says why it is not there and exits with 77."""
import importlib.util
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("SPARKPILOT_BUILD", ROOT / "build"))


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def need(*modules):
    for module in modules:
        if importlib.util.find_spec(module) is None:
            skip(f"this Python has no {module}")


need("numpy")
if not list((BUILD / "python/sparkpilot").glob("_core*.so")):
    skip("the Python module was not built (pybind11-dev, python3-dev)")


def need_program():
    if not (BUILD / "sparkpilot").exists():
        skip("the program was not built")


def need_route():
    """The module of route logs and frames, and the program, which makes routes for tests."""
    need_program()
    if not list((BUILD / "python/sparkpilot").glob("_route*.so")):
        skip("the module of route logs was not built")


def address(array):
    return array.__array_interface__["data"][0]
