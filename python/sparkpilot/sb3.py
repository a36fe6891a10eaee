"""The simulated worlds as a VecEnv of Stable-Baselines3 (needs the package stable-baselines3, 2.6 or newer).

    from sparkpilot.sb3 import SimVecEnv
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    env = VecNormalize(SimVecEnv(256, scenarios="curves"))
    PPO("MlpPolicy", env, n_steps=64).learn(200_000)
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Type

import numpy as np
from gymnasium import Wrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvIndices

from sparkpilot import InputError
from sparkpilot._arguments import integer
from sparkpilot.gym import space_of
from sparkpilot.worlds import Step, Worlds


class SimVecEnv(VecEnv):
    """Worlds as Stable-Baselines3 wants them; the options are those of sparkpilot.worlds.Worlds.

    Observations are float32 [num_envs, columns] in units of their columns (observation_columns): VecNormalize makes
    them about 1. An episode that ends gives the first observation of the next one, and its own last one in
    infos[i]["terminal_observation"]; infos[i]["TimeLimit.truncated"] says whether only its time was over.
    """

    def __init__(self, num_envs: int = 1, **options: Any) -> None:
        for name in ("autoreset", "reuse"):
            if name in options:
                raise InputError(f"{name}: Stable-Baselines3 says when episodes begin, and keeps arrays of former steps")
        self.worlds = Worlds(num_envs, **options)
        self.observation_columns, self.action_columns = self.worlds.observation_columns, self.worlds.action_columns
        self.render_mode: Optional[str] = None
        self._actions: Optional[np.ndarray] = None
        super().__init__(num_envs, space_of(self.observation_columns), space_of(self.action_columns))

    def reset(self) -> np.ndarray:
        """With the seeds that seed() gave, once; otherwise with what follows in each world's own numbers."""
        seeds = [seed for seed in self._seeds if seed is not None] or None
        self._reset_seeds()
        self._actions = None
        self.reset_infos: List[Dict[str, Any]] = [{} for _ in range(self.num_envs)]
        return self.worlds.reset(seeds)

    def seed(self, seed: Optional[int] = None) -> List[Optional[int]]:
        """What the next reset() begins with: world i with seed + i; None: with numbers of the system's."""
        if seed is not None:
            seed = integer("seed", seed, 0, 2**63 - 1)
        return list(super().seed(seed))

    def set_options(self, options: Any = None) -> None:
        """Refused: worlds are reset without options."""
        if options:
            raise InputError("worlds are reset without options")

    def step_async(self, actions: np.ndarray) -> None:
        """Keeps the actions, float32 [num_envs, actions], for step_wait()."""
        self._actions = actions

    def step_wait(self) -> Tuple[np.ndarray, np.ndarray, np.ndarray, List[Dict[str, Any]]]:
        """Steps all worlds: observations, rewards, whether an episode ended, and infos."""
        if self._actions is None:
            raise InputError("step_wait: no actions were given (step_async)")
        made: Step = self.worlds.step(self._actions)
        self._actions = None
        infos: List[Dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(made.ended):
            infos[i] = {"terminal_observation": made.final_observations[i],
                        "TimeLimit.truncated": bool(made.truncated[i] and not made.terminated[i])}
        return made.observations, made.rewards, made.terminated | made.truncated, infos

    def close(self) -> None:
        """Frees the worlds."""
        self.worlds.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> List[Any]:
        """The attribute of this object, once for each world."""
        value = getattr(self, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Refused: worlds are no Python objects."""
        raise InputError(f"{attr_name} cannot be set: worlds are no Python objects")

    def env_method(self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any) -> List[Any]:
        """Refused: worlds are no Python objects."""
        raise InputError(f"{method_name} cannot be called: worlds are no Python objects")

    def env_is_wrapped(self, wrapper_class: Type[Wrapper], indices: VecEnvIndices = None) -> List[bool]:
        """Never: worlds are no Python objects."""
        return [False for _ in self._get_indices(indices)]
