#!/usr/bin/env python3
"""Simulated worlds from Python: whose memory arrays are, episodes, what is refused."""
import copy
import pathlib
import pickle
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from package import BUILD, address, skip

if not (BUILD / "libsparkpilot_sim.so").exists():
    skip("libsparkpilot_sim was not built")

import numpy as np
from sparkpilot import InputError
from sparkpilot.worlds import Worlds

SHORT = {"scenarios": "curves,stop_and_go", "most_seconds": 1.5, "lane": 0.5}


class Simulated(unittest.TestCase):
    def test_a_drive(self):
        worlds = Worlds(64, scenarios="curves")
        names = [column.name for column in worlds.observation_columns]
        observations = worlds.reset(seed=1)
        self.assertEqual((observations.shape, observations.dtype), ((64, len(names)), np.float32))
        speed, asked, offset = (names.index(name) for name in ("speed", "desired_curvature", "offset"))
        for _ in range(20):
            torque = np.clip(observations[:, asked] * observations[:, speed] ** 2 / 1.653 - 0.3 * observations[:, offset],
                             -1, 1)
            step = worlds.step(torque[:, None])
            observations = step.observations
        self.assertFalse(step.terminated.any())
        self.assertLess(np.abs(observations[:, offset]).max(), 1)
        weights = np.array([column.scale for column in worlds.term_columns], np.float32)
        np.testing.assert_allclose(step.terms @ weights, step.rewards, rtol=1e-4, atol=1e-5)
        self.assertIn("curve", worlds.scenario(0))
        self.assertEqual(len(worlds), 64)

    def test_seeds_and_masks(self):
        a, b = Worlds(5, **SHORT), Worlds(5, **SHORT)
        np.testing.assert_array_equal(a.reset(seed=7), b.reset(seed=range(7, 12)))
        actions = np.zeros((5, 1), np.float32)
        np.testing.assert_array_equal(a.step(actions).observations, b.step(actions).observations)
        last = 2**64 - 1
        np.testing.assert_array_equal(a.reset(seed=last - 4), b.reset(seed=[last - 4, last - 3, last - 2, last - 1, last]))
        before = a.step(actions).observations.copy()
        after = a.reset(mask=[True, False, False, False, True])
        self.assertEqual([i for i in range(5) if (before[i] != after[i]).any()], [0, 4])

    def test_ends_of_episodes(self):
        worlds, ended = Worlds(16, **SHORT), 0
        worlds.reset(seed=3)
        for step in range(60):
            made = worlds.step(np.full((16, 1), np.sin(step), np.float32))
            np.testing.assert_array_equal(made.ended, made.terminated | made.truncated)
            ended += made.ended.sum()
            self.assertTrue(np.isfinite(made.final_observations[made.ended]).all())
        self.assertGreater(ended, 16)

    def test_nothing_is_copied(self):
        worlds, given = Worlds(8, reuse=True), []
        first = worlds.reset(seed=1)
        call = worlds._library.sparkpilot_sim_step
        actions = np.zeros((8, 1), np.float32)

        class Library:
            @staticmethod
            def sparkpilot_sim_step(handle, action, buffers):
                given.append((action, list(buffers)))
                return call(handle, action, buffers)

        library, worlds._library = worlds._library, Library
        made = [worlds.step(actions), worlds.step(actions)]
        worlds._library = library
        for step, (action, buffers) in zip(made, given):
            self.assertEqual(action, address(actions))
            self.assertEqual(buffers, [address(array) for array in step])
        self.assertEqual(address(made[0].observations), address(first))
        own = Worlds(8)
        own.reset(seed=1)
        kept = [own.step(actions) for _ in range(2)]
        self.assertNotEqual(*(address(step.observations) for step in kept))

    def test_refused(self):
        for options, said in [({"scenarios": "curvs"}, "did you mean curves"), ({"steering": "feet"}, "torque, angle"),
                              ({"weights": {"fun": 1}}, "the reward has no term 'fun'; it has: "),
                              ({"device": "tpu"}, "expected cpu, cuda or cuda:N"), ({"worlds": 0}, "worlds"),
                              ({"library": "/none.so"}, "cannot be used: /none.so")]:
            with self.assertRaisesRegex(InputError, said):
                Worlds(**options)
        for options, said in [({"lane": "wide"}, "lane: expected numbers"), ({"worlds": 2.0}, "worlds: expected an integer"),
                              ({"scenarios": b"curves"}, "scenarios: expected a text"), ({"longitudinal": "no"}, "integer")]:
            with self.assertRaisesRegex(TypeError, said):
                Worlds(**options)
        for options in ({"threads": 2**40}, {"threads": -1}, {"seed": -1}, {"seed": 2**64}, {"steps_per_action": 2**32 + 5},
                        {"steps_per_action": 0}, {"worlds": -1}, {"longitudinal": 2}):
            name, value = next(iter(options.items()))
            with self.assertRaisesRegex(InputError, rf"^{name}: expected \d+ to \d+, got {value}$"):
                Worlds(**options)
        with self.assertRaisesRegex(InputError, "scenarios: 'curves.*' holds a zero byte"):
            Worlds(scenarios="curves\0x")
        worlds = Worlds(3)
        with self.assertRaisesRegex(InputError, "reset.. comes first"):
            worlds.step(np.zeros((3, 1), np.float32))
        worlds.reset(seed=1)
        for actions, said in [(np.zeros((2, 1)), r"actions: expected the shape \(3, 1\), got \(2, 1\)"),
                              (np.zeros(3), r"got \(3,\)"), (np.full((3, 1), np.nan), "finite"), ("x", "actions: expected")]:
            with self.assertRaisesRegex(InputError, said):
                worlds.step(actions)
        with self.assertRaisesRegex(InputError, "mask: expected the shape"):
            worlds.reset(mask=[True])
        with self.assertRaisesRegex(InputError, "seed: expected 0 to .*, got -1"):
            worlds.reset(seed=[-1, 0, 1])
        with self.assertRaisesRegex(InputError, "seed: expected integers from 0 on"):
            worlds.reset(seed=[0.5, 0, 1])
        for world in (3, -1, 2**70):
            with self.assertRaisesRegex(InputError, f"world: expected 0 to 2, got {world}"):
                worlds.scenario(world)
        with self.assertRaisesRegex(TypeError, "world: expected an integer"):
            worlds.scenario("x")
        for given, said in [({"mask": ["False"] * 3}, "mask: expected True or False"), ({"mask": [2, 0, 0]}, "mask: expected True"),
                            ({"seed": 2**64 - 2}, "seed: expected 0 to"), ({"seed": -1}, "seed: expected 0 to")]:
            with self.assertRaisesRegex(InputError, said):
                worlds.reset(**given)
        for actions in ([["0.5"]] * 3, np.zeros((3, 1), complex)):
            with self.assertRaisesRegex(InputError, "actions: expected float32 .*real numbers"):
                worlds.step(actions)
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with self.assertRaisesRegex(TypeError, "neither copied nor pickled"):
                copied(worlds)
        self.assertEqual(repr(worlds), "<sparkpilot.Worlds: 3>")
        worlds.close()
        worlds.close()
        self.assertEqual(repr(worlds), "<sparkpilot.Worlds: 3, closed>")
        with self.assertRaisesRegex(InputError, "closed"):
            worlds.reset()

    def test_closing_while_a_step_runs_is_refused(self):
        # In a process of its own, which must not end by a signal.
        code = """
import threading, numpy as np
from sparkpilot import InputError
from sparkpilot.worlds import Worlds
worlds = Worlds(4096, threads=1)
worlds.reset(seed=1)
actions = np.zeros((4096, 1), np.float32)
said = []
def work():
    while not said:
        try:
            worlds.step(actions)
        except InputError:
            pass
thread = threading.Thread(target=work)
thread.start()
while not said:
    try:
        worlds.close()
        said.append("closed between two steps")
    except InputError as error:
        said.append(str(error))
thread.join()
worlds.close()
worlds.close()
print(said[0])
"""
        said = {subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
                for _ in range(3)}
        self.assertLessEqual(said, {"closed between two steps",
                                    "the worlds are in use by another call: each thread needs its own"})

    def test_another_library(self):
        for version, said in [(99, "expected version 3 of the library of simulated worlds, got 99"), (None, "cannot be used")]:
            with tempfile.TemporaryDirectory() as folder:
                source, made = pathlib.Path(folder, "other.c"), pathlib.Path(folder, "other.so")
                source.write_text(f"int sparkpilot_sim_version(void) {{ return {version}; }}" if version else "int x;")
                try:
                    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, source], check=True)
                except FileNotFoundError:
                    self.skipTest("there is no C compiler")
                with self.assertRaisesRegex(InputError, said):
                    Worlds(library=made)

    def test_two_threads_at_once(self):
        worlds, done, errors = Worlds(4096, threads=1), threading.Event(), []
        worlds.reset(seed=1)
        actions = np.zeros((4096, 1), np.float32)

        def work():
            while not done.is_set():
                try:
                    worlds.step(actions)
                except InputError as error:
                    errors.append(str(error))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        while not errors:
            time.sleep(0.01)
        done.set()
        for thread in threads:
            thread.join()
        self.assertIn("in use by another call", errors[0])


if __name__ == "__main__":
    unittest.main()
