#!/usr/bin/env python3
"""What the package shows: a text for every public name, and stubs that say what the modules have."""
import importlib
import inspect
import pathlib
import re
import subprocess
import sys
import unittest

from package import BUILD, need_route

need_route()

import sparkpilot

MODULES = ["sparkpilot", "sparkpilot.commands", "sparkpilot.frames", "sparkpilot.hardware", "sparkpilot.logs", "sparkpilot.worlds"]
MODULES += [name for name, needed in (("sparkpilot.gym", "gymnasium"), ("sparkpilot.sb3", "stable_baselines3"))
            if importlib.util.find_spec(needed)]


def shown(module):
    """The public names of a module and their objects; of its classes the members that they define, too."""
    for name in getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]:
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)) or not re.match(r"sparkpilot(\.(?!_arguments)|$)", value.__module__):
            continue
        yield f"{module.__name__}.{name}", value
        for base in inspect.getmro(value) if inspect.isclass(value) else ():
            if not base.__module__.startswith("sparkpilot"):
                continue
            for member, own in vars(base).items():
                if not member.startswith("_") and (callable(own) or isinstance(own, (property, classmethod, staticmethod))):
                    yield f"{module.__name__}.{name}.{member}", own


class Shown(unittest.TestCase):
    def test_every_public_name_has_a_text(self):
        without = []
        for module in map(importlib.import_module, MODULES):
            self.assertTrue(module.__doc__)
            without += [name for name, value in shown(module) if not inspect.getdoc(value)]
        self.assertEqual(without, [])

    def test_modules_are_there_without_an_import_of_their_own(self):
        code = "import sparkpilot; print(sparkpilot.commands.program(), sparkpilot.worlds.Worlds, sparkpilot.frames, sparkpilot.logs)"
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
        self.assertTrue({"commands", "worlds", "gym"} <= set(dir(sparkpilot)))
        self.assertIn("HARDWARE", dir(sparkpilot.hardware))

    def test_stubs(self):
        try:
            import mypy.stubtest  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no mypy")
        # What pybind11 makes otherwise than Python: metaclasses, __init__ of what cannot be made, properties as attributes.
        known = re.compile(r"metaclass differs|__init__ is inconsistent|is read-only at runtime")
        package = BUILD / "python"
        said = subprocess.run([sys.executable, "-m", "mypy.stubtest", "--concise", "--ignore-disjoint-bases", "sparkpilot._core",
                               "sparkpilot._route"], capture_output=True, text=True, check=False, cwd=package,
                              env={"PYTHONPATH": str(package), "MYPYPATH": str(package), "PATH": "/usr/bin:/bin"})
        self.assertIn("_core.Session is inconsistent, metaclass differs", said.stdout, said.stderr)  # it has looked
        wrong = [line for line in said.stdout.splitlines() if line and not known.search(line) and "Found" not in line]
        self.assertEqual(wrong, [], said.stderr)

    def test_types(self):
        try:
            import mypy  # noqa: F401
        except ImportError:
            self.skipTest("this Python has no mypy")
        package = pathlib.Path(sparkpilot.__file__).resolve().parent
        said = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir=/dev/null", "-p", "sparkpilot"],
                              capture_output=True, text=True, check=False, cwd=package.parent)
        self.assertEqual(said.returncode, 0, said.stdout)


if __name__ == "__main__":
    unittest.main()
