#!/usr/bin/env python3
"""A Gymnasium VectorEnv of sparkpilot's simulated worlds: ctypes, NumPy and gymnasium, and no copies.

    sim_env_gym.py LIBRARY        drives 1,024 worlds by random torque (LIBRARY: build/libsparkpilot_sim.so)

docs/sim_env.md says what observations, actions and rewards are.
"""
import ctypes as c
import itertools
import sys

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


class Options(c.Structure):  # as include/sparkpilot/sim_env.h has it
    _fields_ = [("version", c.c_int32), ("threads", c.c_int32), ("worlds", c.c_int64), ("seed", c.c_uint64),
                ("scenarios", c.c_char_p), ("vehicle", c.c_char_p), ("plant", c.c_char_p),
                ("planner", c.c_char_p), ("device", c.c_char_p),
                ("steering", c.c_int32), ("longitudinal", c.c_int32), ("autoreset", c.c_int32),
                ("steps_per_action", c.c_int32), ("most_seconds", c.c_double), ("lane", c.c_double),
                ("weights", c.c_float * 10)]


class Number(c.Structure):
    _fields_ = [(name, c.c_char_p) for name in ("name", "unit", "meaning")] + \
               [(name, c.c_double) for name in ("low", "high", "scale")]


class SimEnv(VectorEnv):
    """Other options by their names: SimEnv(library, 4096, scenarios="curves", longitudinal=1)."""

    def __init__(self, library, num_envs=1, autoreset_mode=AutoresetMode.SAME_STEP, **options):
        lib = self.lib = c.CDLL(library)
        lib.sparkpilot_sim_error.restype = c.c_char_p
        lib.sparkpilot_sim_make.restype = c.c_void_p
        lib.sparkpilot_sim_free.argtypes = [c.c_void_p]
        lib.sparkpilot_sim_observation.restype = lib.sparkpilot_sim_action.restype = c.POINTER(Number)
        lib.sparkpilot_sim_action.argtypes = [c.c_void_p, c.c_int32]
        lib.sparkpilot_sim_reset.argtypes = [c.c_void_p] * 4
        lib.sparkpilot_sim_step.argtypes = [c.c_void_p] * 3
        made = Options()
        lib.sparkpilot_sim_default_options(c.byref(made))
        for name, value in (options | {"worlds": num_envs, "autoreset": MODES.index(autoreset_mode)}).items():
            if name not in dict(Options._fields_):
                raise TypeError(f"no option {name}")
            setattr(made, name, value.encode() if isinstance(value, str) else value)
        self.handle = lib.sparkpilot_sim_make(c.byref(made))
        if not self.handle:
            raise ValueError(lib.sparkpilot_sim_error().decode())
        self.num_envs, self.autoreset_mode = num_envs, autoreset_mode
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.observation_names, self.single_observation_space = self.columns(lib.sparkpilot_sim_observation)
        self.action_names, self.single_action_space = self.columns(lambda i: lib.sparkpilot_sim_action(self.handle, i))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    @staticmethod
    def columns(at):
        numbers = [number[0] for number in itertools.takewhile(bool, map(at, itertools.count()))]
        low, high = (np.array([getattr(n, bound) for n in numbers], np.float32) for bound in ("low", "high"))
        return [n.name.decode() for n in numbers], Box(low, high)

    def call(self, function, first, *out):
        """`out`: arrays in the order of sparkpilot_sim_buffers."""
        buffers = (c.c_void_p * 7)(*(array.ctypes.data for array in out))
        if function(self.handle, *(None if array is None else array.ctypes.data for array in first), buffers):
            raise ValueError(self.lib.sparkpilot_sim_error().decode())

    def reset(self, *, seed=None, options=None):
        one = isinstance(seed, (int, np.integer))
        super().reset(seed=int(seed) if one else None)
        if one:  # as in Gymnasium's own: one after the other
            seed = range(int(seed), int(seed) + self.num_envs)
        seeds = None if seed is None else np.array(seed, np.uint64)
        mask = (options or {}).get("reset_mask")
        mask = None if mask is None else np.ascontiguousarray(mask, bool)
        if any(each is not None and each.shape != (self.num_envs,) for each in (seeds, mask)):
            raise ValueError(f"expected {self.num_envs} seeds and as many entries of reset_mask")
        observations = np.empty(self.observation_space.shape, np.float32)
        self.call(self.lib.sparkpilot_sim_reset, (mask, seeds), observations)
        return observations, {}

    def step(self, actions):
        actions = np.ascontiguousarray(actions, np.float32).reshape(self.action_space.shape)
        observations, final = np.empty((2, *self.observation_space.shape), np.float32)
        rewards = np.empty(self.num_envs, np.float32)
        terminated, truncated, ended = np.empty((3, self.num_envs), bool)
        self.call(self.lib.sparkpilot_sim_step, (actions,), observations, rewards, terminated, truncated, ended, final)
        infos = {}
        if ended.any():
            rows = np.full(self.num_envs, None, object)
            for i in np.flatnonzero(ended):
                rows[i] = final[i]
            infos = {"final_obs": rows, "_final_obs": ended}
        return observations, rewards, terminated, truncated, infos

    def close_extras(self, **kwargs):
        self.lib.sparkpilot_sim_free(self.handle)
        self.handle = None


if __name__ == "__main__":
    env = SimEnv(sys.argv[1], 1024)
    env.reset(seed=0)
    rewards, episodes = 0.0, 0
    for _ in range(200):
        _, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        rewards += reward.mean()
        episodes += (terminated | truncated).sum()
    print(f"10 s of {env.num_envs} worlds: {rewards:.1f} reward a world, {episodes} episodes ended")
    env.close()
