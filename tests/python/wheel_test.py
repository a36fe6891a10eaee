#!/usr/bin/env python3
"""The wheel: what is in it, and that module and program run from a fresh environment without network.

    SPARKPILOT_CMAKE names cmake; exit code 77 where the module was not built or Python has no venv.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

from package import BUILD, ROOT, need, need_route, skip

need("venv", "ensurepip")
need_route()
if not (BUILD / "libsparkpilot_sim.so").exists():
    skip("libsparkpilot_sim was not built")
ELSEWHERE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(*words, cwd="/"):
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env=ELSEWHERE, cwd=cwd)
    if done.returncode:
        raise AssertionError(f"{' '.join(str(word) for word in words)}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


class Wheel(unittest.TestCase):
    def test_it_installs_and_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            said = run(sys.executable, ROOT / "scripts/make_wheel.py", BUILD, "--out", folder / "one", "--cmake",
                       os.environ.get("SPARKPILOT_CMAKE", "cmake"))
            self.assertRegex(said, r"needs of the distribution: .*libav\w*format")
            wheel, = (folder / "one").glob("sparkpilot-*.whl")
            self.assertRegex(wheel.name, rf"^sparkpilot-[0-9.]+-cp3\d+-cp3\d+-linux_\w+\.whl$")
            with zipfile.ZipFile(wheel) as packed:
                names = packed.namelist()
                metadata = packed.read(next(name for name in names if name.endswith("METADATA"))).decode()
            self.assertIn("sparkpilot/py.typed", names)
            self.assertFalse([name for name in names if "__pycache__" in name])
            self.assertRegex(metadata, r"(?m)^Requires-External: libdnnl")
            python = folder / "env/bin/python"
            if sys.prefix == sys.base_prefix:  # NumPy is the system's, so that nothing comes from the network
                run(sys.executable, "-m", "venv", "--system-site-packages", folder / "env")
                run(python, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", wheel)
            else:  # `make test-python`: NumPy comes from Python's index, as the wheel asks
                run(sys.executable, "-m", "venv", folder / "env")
                run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
            where = run(python, "-c", "import sparkpilot; print(sparkpilot.__file__)")
            self.assertTrue(where.startswith(str(folder / "env")), where)
            run(python, "-c", "import numpy as np\nfrom sparkpilot import Builder, Session\nfrom sparkpilot.worlds import Worlds\n"
                "b = Builder()\nb.output(b.add('Relu', b.input('x', 'float32', (3,))), 'y')\n"
                "assert Session(b.model())(x=np.float32([-1, 0, 2]))['y'].tolist() == [0, 0, 2]\n"
                "assert Worlds(2).reset(seed=1).shape[0] == 2")
            program = folder / "env/bin/sparkpilot"
            self.assertIn("--out", run(program, "drive", "--help"))
            self.assertIn(run(python, "-c", "import sparkpilot; print(sparkpilot.__version__)").strip(),
                          run(program, "--version"))
            run(program, "drive", "--demo", "--quiet", cwd=folder)
            self.assertGreater((folder / "sparkpilot-demo/summary.html").stat().st_size, 10_000)
            run(program, "zoo", "build", "--quiet", "tiny_driving_policy", "--out", folder)
            run(python, "-c", f"import sparkpilot; sparkpilot.Session({str(folder / 'tiny_driving_policy.onnx')!r}).run()")
            self.assertTrue((folder / "env/share/sparkpilot/peers/sparkpilot_peer.py").exists())
            # The package starts the program beside it, and reads its routes.
            self.assertEqual(run(python, "-c", "from sparkpilot import commands; print(commands.program())").strip(),
                             str(program.resolve()))
            said = run(python, "-c", "import sparkpilot\nsparkpilot.run('route synth', out='routes', seconds=0.5, no_video=True)\n"
                       "print(sparkpilot.LogReader('routes').first('initData').deviceType)", cwd=folder)
            self.assertTrue(said.endswith("tici\n"), said)


if __name__ == "__main__":
    unittest.main()
