#!/usr/bin/env python3
"""sparkpilot.sb3 against Stable-Baselines3: its own vector environment over one world each, and its learners."""
import unittest

from package import BUILD, need, skip

need("stable_baselines3")
if not (BUILD / "libsparkpilot_sim.so").exists():
    skip("libsparkpilot_sim was not built")

import numpy as np
from one_world import OPTIONS, OneWorld
from sparkpilot import InputError
from sparkpilot.sb3 import SimVecEnv
from stable_baselines3 import PPO, SAC
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecMonitor, VecNormalize


class StableBaselines(unittest.TestCase):
    def test_it_does_what_their_vector_environment_does(self):
        count = 7
        ours, theirs = SimVecEnv(count, **OPTIONS), DummyVecEnv([OneWorld] * count)
        self.assertEqual(ours.observation_space, theirs.observation_space)
        self.assertEqual(ours.action_space, theirs.action_space)
        for env in (ours, theirs):
            env.seed(5)
        np.testing.assert_array_equal(ours.reset(), theirs.reset())
        ended, over = 0, 0
        for step in range(60):
            actions = np.sin(np.arange(count) + step / 10).astype(np.float32)[:, None]
            mine, other = ours.step(actions), theirs.step(actions)
            for a, b in zip(mine[:3], other[:3]):
                np.testing.assert_array_equal(a, b)
            for done, a, b in zip(mine[2], mine[3], other[3]):
                self.assertEqual("terminal_observation" in a, bool(done))
                if done:
                    np.testing.assert_array_equal(a["terminal_observation"], b["terminal_observation"])
                    self.assertEqual(a["TimeLimit.truncated"], b["TimeLimit.truncated"])
                    over += a["TimeLimit.truncated"]
            ended += mine[2].sum()
        self.assertGreater(ended, count)
        self.assertGreater(over, 0)
        self.assertGreater(ended, over)
        # Seeds are for one reset; the next goes on.
        self.assertFalse(np.array_equal(ours.reset(), ours.reset()))
        ours.seed(5)
        again = ours.reset()
        ours.seed(5)
        np.testing.assert_array_equal(ours.reset(), again)

    def test_a_policy_learns_to_steer(self):
        options = {"scenarios": "s_curves", "most_seconds": 10, "lane": 0.5}
        env = VecNormalize(VecMonitor(SimVecEnv(64, seed=1, **options)))
        model = PPO("MlpPolicy", env, n_steps=32, batch_size=512, seed=1, device="cpu")
        held_out = VecNormalize(VecMonitor(SimVecEnv(64, seed=1000, **options)), training=False, norm_reward=False)

        def judged():
            held_out.obs_rms = env.obs_rms
            held_out.seed(1000)
            lengths = evaluate_policy(model, held_out, n_eval_episodes=64, return_episode_rewards=True)[1]
            return np.mean(lengths)

        env.reset()
        before = judged()
        model.learn(64 * 32 * 24)
        self.assertGreater(judged(), 1.5 * before)  # steps until the car has left its lane

    def test_a_learner_that_keeps_steps(self):
        model = SAC("MlpPolicy", SimVecEnv(4, **OPTIONS), learning_starts=20, buffer_size=200, seed=1, device="cpu")
        model.learn(60)

    def test_errors_and_the_end(self):
        with self.assertRaisesRegex(InputError, "did you mean curves"):
            SimVecEnv(1, scenarios="curvs")
        with self.assertRaisesRegex(InputError, "autoreset"):
            SimVecEnv(1, autoreset="disabled")
        env = SimVecEnv(2)
        self.assertEqual(env.env_is_wrapped(Monitor), [False, False])
        self.assertEqual(env.get_attr("num_envs", [0]), [2])
        with self.assertRaisesRegex(InputError, "Python objects"):
            env.env_method("reset")
        with self.assertRaisesRegex(InputError, "without options"):
            env.set_options({"lane": 1})
        env.set_options({})
        env.step_async(np.zeros((2, 1), np.float32))
        env.reset()
        with self.assertRaisesRegex(InputError, "no actions"):
            env.step_wait()
        env.close()
        env.close()
        with self.assertRaisesRegex(InputError, "closed"):
            env.reset()


if __name__ == "__main__":
    unittest.main()
