#!/usr/bin/env python3
"""sparkpilot.gym against Gymnasium: its checks of an environment, and its own vector environment."""
import unittest

from package import BUILD, address, need, skip

need("gymnasium")
if not (BUILD / "libsparkpilot_sim.so").exists():
    skip("libsparkpilot_sim was not built")

import numpy as np
from gymnasium.utils import env_checker
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from one_world import OPTIONS, OneWorld
from sparkpilot import InputError
from sparkpilot.gym import SimVectorEnv


class Gymnasium(unittest.TestCase):
    def test_its_checks_pass(self):
        for mode in AutoresetMode:
            env_checker.check_env(OneWorld(mode), skip_render_check=True)
            env = SimVectorEnv(3, mode, **OPTIONS)
            env_checker.check_reset_return_type(env)
            env_checker.check_reset_seed_determinism(env)
            env_checker.check_reset_options(env)

    def test_it_does_what_its_own_vector_environment_does(self):
        count = 7
        for mode in AutoresetMode:
            ours, theirs = SimVectorEnv(count, mode, **OPTIONS), SyncVectorEnv([OneWorld] * count, autoreset_mode=mode)
            self.assertEqual(ours.observation_space, theirs.observation_space)
            self.assertEqual(ours.action_space, theirs.action_space)
            np.testing.assert_array_equal(ours.reset(seed=np.int64(5))[0], theirs.reset(seed=5)[0])
            self.assertEqual(ours.np_random_seed, 5)
            ended = 0
            for step in range(60):
                actions = np.sin(np.arange(count) + step / 10).astype(np.float32)[:, None]
                mine, other = ours.step(actions), theirs.step(actions)
                for a, b in zip(mine[:4], other[:4]):
                    np.testing.assert_array_equal(a, b)
                self.assertEqual("final_obs" in mine[4], "final_obs" in other[4])
                for i in np.flatnonzero(mine[4].get("_final_obs", [])):
                    np.testing.assert_array_equal(mine[4]["final_obs"][i], other[4]["final_obs"][i])
                done = mine[2] | mine[3]
                ended += done.sum()
                if mode == AutoresetMode.DISABLED and done.any():
                    again = ours.reset(options={"reset_mask": done})[0]
                    np.testing.assert_array_equal(again, theirs.reset(options={"reset_mask": done})[0])
            self.assertGreater(ended, count, mode)

    def test_nothing_is_copied(self):
        env, given = SimVectorEnv(8, reuse=True), []
        first, _ = env.reset(seed=1)
        call = env.worlds._library.sparkpilot_sim_step
        actions = np.zeros((8, 1), np.float32)

        class Library:
            @staticmethod
            def sparkpilot_sim_step(handle, action, buffers):
                given.append((action, list(buffers)))
                return call(handle, action, buffers)

        library, env.worlds._library = env.worlds._library, Library
        observations, rewards, terminated, truncated, _ = env.step(actions)
        env.worlds._library = library
        (action, buffers), = given
        self.assertEqual(action, address(actions))
        self.assertEqual(buffers[:4], [address(array) for array in (observations, rewards, terminated, truncated)])
        self.assertEqual(address(observations), address(first))

    def test_errors_and_the_end(self):
        with self.assertRaisesRegex(InputError, "did you mean curves"):
            SimVectorEnv(1, scenarios="curvs")
        for options, said in [({"autoreset_mode": "sometimes"}, "autoreset_mode: expected AutoresetMode.NEXT_STEP"),
                              ({"autoreset": "same_step"}, "Gymnasium calls it autoreset_mode")]:
            with self.assertRaisesRegex(InputError, said):
                SimVectorEnv(1, **options)
        env = SimVectorEnv(2, autoreset_mode=AutoresetMode.DISABLED.value)
        with self.assertRaisesRegex(InputError, "options: there is no 'typo'"):
            env.reset(options={"typo": 1})
        env.close()
        env.close()
        with self.assertRaisesRegex(InputError, "closed"):
            env.reset()


if __name__ == "__main__":
    unittest.main()
