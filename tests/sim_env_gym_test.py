#!/usr/bin/env python3
"""examples/sim_env_gym.py against Gymnasium: its checks of an environment, and its own vector environment.

    sim_env_gym_test.py LIBRARY         exit code 77 where there is no gymnasium
"""
import importlib.util
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
if importlib.util.find_spec("gymnasium") is None or importlib.util.find_spec("numpy") is None:
    print("skipped: this Python has no gymnasium")
    sys.exit(77)

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
from gymnasium.utils import env_checker  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

sys.path.insert(0, str(ROOT / "examples"))
from sim_env_gym import SimEnv  # noqa: E402

LIBRARY = sys.argv.pop(1)
OPTIONS = {"scenarios": "curves,stop_and_go", "most_seconds": 1.5, "lane": 0.5}


class OneWorld(gymnasium.Env):
    """A vector environment's only world, which begins anew when Gymnasium says so."""

    def __init__(self, mode=AutoresetMode.DISABLED):
        self.worlds = SimEnv(LIBRARY, 1, mode, **OPTIONS)
        self.observation_space = self.worlds.single_observation_space
        self.action_space = self.worlds.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.worlds.reset(seed=seed)[0][0], {}

    def step(self, action):
        observations, rewards, terminated, truncated, _ = self.worlds.step(action[None])
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}


class Gymnasium(unittest.TestCase):
    def test_its_checks_pass(self):
        for mode in AutoresetMode:
            env_checker.check_env(OneWorld(mode), skip_render_check=True)
            worlds = SimEnv(LIBRARY, 3, mode, **OPTIONS)
            env_checker.check_reset_return_type(worlds)
            env_checker.check_reset_seed_determinism(worlds)
            env_checker.check_reset_options(worlds)

    def test_each_mode_is_that_of_its_own_vector_environment(self):
        count = 7
        for mode in AutoresetMode:
            ours = SimEnv(LIBRARY, count, mode, **OPTIONS)
            theirs = SyncVectorEnv([OneWorld] * count, autoreset_mode=mode)
            self.assertEqual(ours.metadata["autoreset_mode"], theirs.metadata["autoreset_mode"])
            self.assertEqual(ours.observation_space, theirs.observation_space)
            self.assertEqual(ours.action_space, theirs.action_space)
            np.testing.assert_array_equal(ours.reset(seed=np.int64(5))[0], theirs.reset(seed=5)[0])
            ended = 0
            for step in range(120):
                actions = np.sin(np.arange(count) + step / 10).astype(np.float32)[:, None]
                mine, other = ours.step(actions), theirs.step(actions)
                for a, b in zip(mine[:4], other[:4]):
                    np.testing.assert_array_equal(a, b)
                self.assertEqual("final_obs" in mine[4], "final_obs" in other[4])
                if "final_obs" in mine[4]:
                    np.testing.assert_array_equal(mine[4]["_final_obs"], other[4]["_final_obs"])
                    for i in np.flatnonzero(mine[4]["_final_obs"]):
                        np.testing.assert_array_equal(mine[4]["final_obs"][i], other[4]["final_obs"][i])
                done = mine[2] | mine[3]
                ended += done.sum()
                if mode == AutoresetMode.DISABLED and done.any():
                    a = ours.reset(options={"reset_mask": done})[0]
                    np.testing.assert_array_equal(a, theirs.reset(options={"reset_mask": done})[0])
            self.assertGreater(ended, 3 * count, mode)

    def test_nothing_is_copied(self):
        worlds = SimEnv(LIBRARY, 5, **OPTIONS)
        worlds.reset(seed=1)
        given = []
        library, call = worlds.lib, worlds.lib.sparkpilot_sim_step
        actions = np.zeros((5, 1), np.float32)
        worlds.lib = type("Library", (), {"sparkpilot_sim_step": staticmethod(
            lambda env, action, buffers: given.append((action, list(buffers))) or call(env, action, buffers))})
        observations, rewards, terminated, truncated, _ = worlds.step(actions)
        worlds.lib = library
        action, buffers = given[0]
        self.assertEqual(action, actions.ctypes.data)
        self.assertEqual(buffers[:4], [a.ctypes.data for a in (observations, rewards, terminated, truncated)])

    def test_errors_are_python_errors(self):
        with self.assertRaisesRegex(ValueError, "did you mean curves"):
            SimEnv(LIBRARY, 1, scenarios="curvs")
        with self.assertRaisesRegex(ValueError, 'no planner is named "ipm"'):
            SimEnv(LIBRARY, 1, planner="ipm")
        worlds = SimEnv(LIBRARY, 1)
        with self.assertRaisesRegex(ValueError, "reset.. comes first"):
            worlds.step(np.zeros((1, 1)))
        worlds.close()
        worlds.close()

    def test_the_example_runs(self):
        said = subprocess.run([sys.executable, ROOT / "examples/sim_env_gym.py", LIBRARY], capture_output=True,
                              text=True, check=True).stdout
        self.assertRegex(said, r"10 s of 1024 worlds: -\d+\.\d reward a world, \d+ episodes ended")


if __name__ == "__main__":
    unittest.main()
