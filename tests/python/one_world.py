"""For the tests of learners' environments: one simulated world as a Gymnasium Env."""
import gymnasium
from gymnasium.vector import AutoresetMode
from sparkpilot.gym import SimVectorEnv

OPTIONS = {"scenarios": "curves,stop_and_go", "most_seconds": 1.5, "lane": 0.5}


class OneWorld(gymnasium.Env):
    """A vector environment's only world, which begins anew when the caller says so."""

    def __init__(self, mode=AutoresetMode.DISABLED):
        self.env = SimVectorEnv(1, mode, **OPTIONS)
        self.observation_space = self.env.single_observation_space
        self.action_space = self.env.single_action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.env.reset(seed=seed)[0][0], {}

    def step(self, action):
        observations, rewards, terminated, truncated, _ = self.env.step(action[None])
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}
