"""The simulated worlds as a Gymnasium VectorEnv (needs the package gymnasium, 1.1 or newer).

    from sparkpilot.gym import SimVectorEnv

    env = SimVectorEnv(4096, scenarios="curves")
    observations, infos = env.reset(seed=1)
    observations, rewards, terminated, truncated, infos = env.step(env.action_space.sample())
"""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from sparkpilot import InputError
from sparkpilot.worlds import Column, Worlds

_MODES = {AutoresetMode.NEXT_STEP: "next_step", AutoresetMode.SAME_STEP: "same_step", AutoresetMode.DISABLED: "disabled"}


class SimVectorEnv(VectorEnv):
    """Worlds as Gymnasium wants them; the options are those of sparkpilot.worlds.Worlds.

    Observations are float32 [num_envs, columns] in units of their columns (observation_columns), which the library
    writes into the arrays that step returns. With reuse=True these are the same arrays at each step.
    """

    def __init__(self, num_envs: int = 1, autoreset_mode: Union[AutoresetMode, str] = AutoresetMode.SAME_STEP,
                 **options: Any) -> None:
        if "autoreset" in options:
            raise InputError("autoreset: Gymnasium calls it autoreset_mode")
        try:
            autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            known = ", ".join(f"AutoresetMode.{mode.name}" for mode in AutoresetMode)
            raise InputError(f"autoreset_mode: expected {known}, got {autoreset_mode!r}") from None
        self.worlds = Worlds(num_envs, autoreset=_MODES[autoreset_mode], **options)
        self.num_envs, self.autoreset_mode = num_envs, autoreset_mode
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.observation_columns, self.action_columns = self.worlds.observation_columns, self.worlds.action_columns
        self.single_observation_space = space_of(self.observation_columns)
        self.single_action_space = space_of(self.action_columns)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: Any = None, options: Optional[Dict[str, Any]] = None) -> Tuple[np.ndarray, Dict[str, Any]]:
        """seed: an integer (world i gets seed + i) or one for each world. options: {"reset_mask": bool [num_envs]}."""
        for name in options or {}:
            if name != "reset_mask":
                raise InputError(f"options: there is no {name!r}, only 'reset_mask'")
        super().reset(seed=int(seed) if isinstance(seed, (int, np.integer)) else None)
        return self.worlds.reset(seed, (options or {}).get("reset_mask")), {}

    def step(self, actions: np.ndarray) -> Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, Dict[str, Any]]:
        """actions: float32 [num_envs, actions]. infos has final_obs and _final_obs where episodes ended (SAME_STEP)."""
        made = self.worlds.step(actions)
        infos: Dict[str, Any] = {}
        ended = made.ended.nonzero()[0].tolist()
        if ended:
            rows = np.empty(self.num_envs, object)  # of None
            final = made.final_observations
            for i in ended:
                rows[i] = final[i]
            infos = {"final_obs": rows, "_final_obs": made.ended}
        return made.observations, made.rewards, made.terminated, made.truncated, infos

    def close_extras(self, **kwargs: Any) -> None:
        """Frees the worlds; called by close()."""
        self.worlds.close()


def space_of(columns: List[Column]) -> Box:
    """The bounds of columns as a space, float32."""
    return Box(np.array([column.low for column in columns], np.float32),
               np.array([column.high for column in columns], np.float32))
