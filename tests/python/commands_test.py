#!/usr/bin/env python3
"""The program's commands from Python: flags, results, errors by exit code, Ctrl-C, and which program is started."""
import json
import os
import pickle
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from package import BUILD, need_route

need_route()

import sparkpilot
from sparkpilot import commands

QUIET = {"say": lambda note: None}


class Folder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def setUp(self):
        self.addCleanup(os.environ.pop, "SPARKPILOT_PROGRAM", None)
        # As a terminal has it; what runs tests may ignore the signal.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def stand_in(self, script):
        """A shell script in the program's place."""
        path = self.folder / "stand in"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        os.environ["SPARKPILOT_PROGRAM"] = str(path)


class Real(Folder):
    """What each function returns, of the real program."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sparkpilot.run("zoo build", ["tiny_driving_vision", "tiny_driving_policy"], out=cls.folder / "models", quiet=True,
                       json_output=False)
        cls.policy = cls.folder / "models/tiny_driving_policy.onnx"
        sparkpilot.run("route synth", out=cls.folder / "routes", seconds=2, device="mici", qcamera_only=True, quiet=True)

    def test_drive(self):
        notes = []
        summary = sparkpilot.drive(self.folder / "routes", models=self.folder / "models", out=self.folder / "drive", qcamera=True,
                                   no_overlay=True, limit=8, threads=1, say=notes.append)
        self.assertEqual((summary["frames"], summary["complete"], summary["threads"]["infer"]), (8, True, 1))
        self.assertEqual(json.loads((self.folder / "drive/summary.json").read_text())["frames"], 8)
        models = [event.modelV2.frameId for event in sparkpilot.LogReader(self.folder / "drive").events("modelV2")]
        self.assertEqual(len(models), 8)
        self.assertTrue(all(isinstance(note, str) and not note.endswith("\n") for note in notes))
        with self.assertRaisesRegex(sparkpilot.InputError, "^sparkpilot drive: .*no_models"):
            sparkpilot.drive(self.folder / "routes", models=self.folder / "no_models", out=self.folder / "other", **QUIET)

    def test_compare_and_its_check(self):
        asked = {"precision": ["fp32", "bf16"], "emulate": True, "no_time": True, "no_layers": True, "quiet": True}
        result = sparkpilot.compare(self.policy, **asked)
        self.assertEqual([variant["precision"] for variant in result["variants"]], ["fp32", "bf16"])
        with self.assertRaisesRegex(sparkpilot.CheckFailed, "allowed 1e-09") as caught:
            sparkpilot.compare(self.policy, max_relative_l2=1e-9, **asked)
        self.assertEqual([variant["precision"] for variant in caught.exception.result["variants"]], ["fp32", "bf16"])
        self.assertIsInstance(caught.exception, sparkpilot.Error)

    def test_bench(self):
        result = sparkpilot.bench(self.policy, runs=3, repeats=0, threads=1, tune="off", quiet=True)
        self.assertEqual(result["format"], "sparkpilot bench")

    def test_adapters(self):
        adapter, merged = self.folder / "adapter", self.folder / "merged.onnx"
        made = sparkpilot.adapter_create(self.policy, adapter, rank=2, tag={"car": "CIVIC", "of": "a=b"})
        self.assertEqual(made["tags"], {"car": "CIVIC", "of": "a=b"})
        info = sparkpilot.adapter_info(adapter, model=self.policy)
        self.assertEqual(sorted(map(str, info["layers"])), sorted(map(str, made["layers"])))
        with self.assertRaisesRegex(sparkpilot.InputError, "^sparkpilot adapter info: "):
            sparkpilot.adapter_info(adapter, model=self.folder / "models/tiny_driving_vision.onnx")
        sparkpilot.adapter_merge(self.policy, f"{adapter}:0.5", out=merged, threads=1)
        self.assertIn("outputs", sparkpilot.Session(merged, threads=1).outputs)

    def test_training(self):
        sparkpilot.build_dataset(synthetic=1, seconds=1, every=2, validation=0, models=self.folder / "models",
                                 out=self.folder / "data", **QUIET)
        result = sparkpilot.train(models=self.folder / "models", network="policy", data=self.folder / "data",
                                  out=self.folder / "run", updates=1, batch=2, rank=2, threads=1, loss={"plan": 1}, **QUIET)
        self.assertEqual((result["ended"], result["updates"]), ("updates", 1))

    def test_simulation(self):
        runs = [sparkpilot.sim_run(scenarios=["curves", "s_curves"], threads=1, set={"kp": kp}, out=self.folder / f"kp{kp}", **QUIET)
                for kp in (1, 0.05)]
        self.assertEqual([run["parameters"]["kp"] for run in runs], [1, 0.05])
        same = sparkpilot.sim_compare(self.folder / "kp1", self.folder / "kp1", **QUIET)
        self.assertEqual(same["a"], same["b"])
        with self.assertRaises(sparkpilot.CheckFailed):
            sparkpilot.sim_run(scenarios="all", algorithm="lateral_torque", set={"kp": 0, "ki": 0, "friction": 0, "accel_factor": 50},
                               threads=1, check=True, **QUIET)

    def test_wrong_words(self):
        for call, why in ((lambda: sparkpilot.drive("nowhere", out=self.folder / "none", from_log=True), "^sparkpilot drive: nowhere: "),
                          (lambda: sparkpilot.bench(self.policy, runn=1), "no option is named --runn .did you mean --runs"),
                          (lambda: sparkpilot.bench(self.policy, runs="many"), "sparkpilot bench: "),
                          (lambda: sparkpilot.bench("--help"), "^sparkpilot bench: --help: No such file"),
                          (lambda: sparkpilot.bench("a; echo b"), "a; echo b: No such file"),
                          (lambda: sparkpilot.bench(), "FILE is missing"),
                          (lambda: sparkpilot.run("bench nothing", self.policy), "was not expected"),
                          (lambda: sparkpilot.run("--version"), "^command: expected a command such as 'route info'"),
                          (lambda: sparkpilot.run("sim"), "one of its commands is missing: list, run"),
                          (lambda: sparkpilot.bench("a\0b"), "holds a zero byte"),
                          (lambda: sparkpilot.run("bench", help=True), "prints no document")):
            with self.assertRaisesRegex(sparkpilot.InputError, why):
                call()
        for call in (lambda: sparkpilot.run(None), lambda: sparkpilot.drive(None), lambda: sparkpilot.run("version", say=5)):
            self.assertRaisesRegex(TypeError, "expected (a|paths)", call)
        failed = pickle.loads(pickle.dumps(sparkpilot.CheckFailed("a bound", {"a": 1})))
        self.assertEqual((str(failed), failed.result), ("a bound", {"a": 1}))

    def test_ctrl_c_finishes_the_files(self):
        def press():
            while not list(self.folder.glob("stopped/*/*")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread, notes = threading.Thread(target=press), []
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            sparkpilot.drive(self.folder / "routes", models=self.folder / "models", out=self.folder / "stopped", qcamera=True,
                             no_overlay=True, realtime=True, threads=1, say=notes.append)
        thread.join()
        summary = json.loads((self.folder / "stopped/summary.json").read_text())
        self.assertEqual((summary["complete"], summary["frames"] < 40), (False, True))
        self.assertIn("stopping", "".join(notes))
        done = sparkpilot.drive(self.folder / "routes", models=self.folder / "models", out=self.folder / "stopped", qcamera=True,
                                no_overlay=True, threads=1, resume=True, **QUIET)
        self.assertEqual((done["complete"], done["frames"]), (True, 40))


class Calls(Folder):
    """How the program is called, seen by a stand-in."""

    def test_flags(self):
        self.stand_in("""
printf '['
for word in "$@"; do printf '"%s",' "$word"; done
echo '0]'""")
        words = sparkpilot.run("a b", "one", ["two", pathlib.Path("-three")], max_seconds=3, no_wide=True, json_output=True,
                               left=None, out=False, rate=1e-4, adapter=["x", "y:0.5"], precision=("fp32", "bf16"), threads=[1, 2],
                               set={"kp": 1.5}, from_="f", none=[])
        self.assertEqual(words, ["a", "b", "--max-seconds=3", "--no-wide", "--rate=0.0001", "--adapter=x", "--adapter=y:0.5",
                                 "--precision=fp32,bf16", "--threads=1,2", "--set=kp=1.5", "--from=f", "--json", "--", "one", "two",
                                 "-three", 0])
        self.assertEqual(sparkpilot.run("a", json_output=False), '["a","--",0]\n')

    def test_exit_codes(self):
        for code, error in ((1, sparkpilot.InternalError), (2, sparkpilot.InputError), (3, sparkpilot.DeviceError),
                            (4, sparkpilot.CheckFailed), (130, sparkpilot.InternalError)):
            self.stand_in(f"echo a note >&2; echo sparkpilot x: why >&2; echo '{{}}'; exit {code}")
            notes = []
            with self.assertRaisesRegex(error, "^sparkpilot x: why$"):
                sparkpilot.run("x", say=notes.append)
            self.assertEqual(notes, ["a note"])
        self.stand_in("kill -SEGV $$")
        with self.assertRaisesRegex(sparkpilot.InternalError, "sparkpilot x: ended with signal 11"):
            sparkpilot.run("x")
        for printed in ("", "{", "{} {}"):
            self.stand_in(f"echo '{printed}'")
            with self.assertRaisesRegex(sparkpilot.InternalError, "expected a JSON document"):
                sparkpilot.run("x")

    def test_much_output(self):
        self.stand_in("""
i=0
while [ $i -lt 3000 ]; do echo "a line of a note that fills the pipe, number $i" >&2; i=$((i + 1)); done
printf '"'; head -c 300000 /dev/zero | tr '\\0' x; printf '"'""")
        notes = []
        self.assertEqual(len(sparkpilot.run("x", say=notes.append)), 300000)
        self.assertEqual((len(notes), notes[-1][-4:]), (3000, "2999"))

    def test_streams(self):
        self.stand_in("echo '{\"a\": 1}'; echo '{\"a\": 2}'")
        self.assertEqual(sparkpilot.run("route dump", "carState", "route"), [{"a": 1}, {"a": 2}])
        self.stand_in("echo '{\"a\": 1}'")
        self.assertEqual(sparkpilot.run("route dump", "carState", "route"), [{"a": 1}])

    def test_what_say_raises_stops_the_program(self):
        ended = self.folder / "ended"
        script = f"trap 'echo finished >\"{ended}\"; exit 130' INT TERM; echo a >&2; echo b >&2; while :; do sleep 0.02; done"
        for raised in (KeyboardInterrupt, ZeroDivisionError):
            def say(note):
                raise raised

            self.stand_in(script)
            with self.assertRaises(raised):
                sparkpilot.run("x", say=say)
            self.assertEqual(ended.read_text(), "finished\n")
            ended.unlink()

    def test_a_second_ctrl_c_ends_it(self):
        first, begun = self.folder / "first", threading.Event()
        self.stand_in(f"trap '[ ! -e \"{first}\" ] || exit 130; : >\"{first}\"' TERM; echo a >&2; echo b >&2; "
                      "while :; do sleep 0.02; done")

        def press():
            begun.wait()
            os.kill(os.getpid(), signal.SIGINT)
            while not first.exists():
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=press)
        thread.start()
        with self.assertRaises(KeyboardInterrupt):
            sparkpilot.run("x", say=lambda note: begun.set())
        thread.join()


class Found(Folder):
    """Which program is started."""

    def test_the_builds_own(self):
        self.assertEqual(commands.program(), str(BUILD.resolve() / "sparkpilot"))

    def test_named(self):
        os.environ["SPARKPILOT_PROGRAM"] = str(self.folder / "none")
        with self.assertRaisesRegex(sparkpilot.InputError, "SPARKPILOT_PROGRAM: .*none is no program"):
            sparkpilot.run("version")

    def test_path(self):
        """A package that is neither in a build nor in a wheel takes the PATH's program, of its version alone."""
        package, bin_ = self.folder / "elsewhere/sparkpilot", self.folder / "bin"
        shutil.copytree(BUILD / "python/sparkpilot", package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        for library in (BUILD / "python/sparkpilot").glob("_core*.so"):
            (package / library.name).symlink_to(library)
        bin_.mkdir()
        program = bin_ / "sparkpilot"

        def found(path):
            done = subprocess.run([sys.executable, "-c", "from sparkpilot import commands\nprint(commands.program())"],
                                  env={"PATH": path, "PYTHONPATH": str(package.parent)}, cwd=bin_, capture_output=True,
                                  text=True, check=False)
            return done.stdout.strip() or done.stderr.splitlines()[-1]

        program.symlink_to(BUILD / "sparkpilot")
        self.assertEqual(found(f"/nonexistent:{bin_}"), str(program))
        self.assertIn("the program sparkpilot was not found", found(":.:"))  # never the current folder's
        program.unlink()
        program.write_text("#!/bin/sh\necho sparkpilot 0.0.1\n")
        program.chmod(0o755)
        self.assertRegex(found(str(bin_)), "InputError: .*got sparkpilot 0.0.1")


if __name__ == "__main__":
    unittest.main()
