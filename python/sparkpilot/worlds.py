"""Simulated worlds as an environment for learning: thousands of cars a step, written into NumPy arrays.

    from sparkpilot.worlds import Worlds

    worlds = Worlds(4096, scenarios="curves,s_curves")
    observations = worlds.reset(seed=1)
    step = worlds.step(np.zeros((4096, 1), np.float32))

docs/sim_env.md says what observations, actions and rewards are; sparkpilot.gym makes a Gymnasium VectorEnv of it.
"""
from __future__ import annotations

import contextlib
import ctypes as c
import itertools
import pathlib
import threading
from typing import Any, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from sparkpilot import _core
from sparkpilot._arguments import integer, text

AUTORESET = ("next_step", "same_step", "disabled")
_VERSION = 3  # of include/sparkpilot/sim_env.h
_TERMS = 10


class Column(NamedTuple):
    """One number of observations, actions or reward terms."""

    name: str
    unit: str
    meaning: str
    #: No value lies beyond them; actions beyond them are clipped.
    low: float
    high: float
    #: A usual size: observations divided by it are about 1. Of a term: its weight, where none is given.
    scale: float


class Step(NamedTuple):
    """What a step gives, a row for each world."""

    observations: np.ndarray  #: float32 [worlds, columns]
    rewards: np.ndarray  #: float32 [worlds]
    terminated: np.ndarray  #: bool [worlds]: a collision, a divergence, or the lane was left
    truncated: np.ndarray  #: bool [worlds]: the episode's time is over
    ended: np.ndarray  #: bool [worlds]: with "same_step", where final_observations has a row
    final_observations: np.ndarray  #: float32 [worlds, columns]; other rows are not written
    terms: np.ndarray  #: float32 [worlds, terms] of the reward


class _Options(c.Structure):  # as include/sparkpilot/sim_env.h has it
    _fields_ = [("version", c.c_int32), ("threads", c.c_int32), ("worlds", c.c_int64), ("seed", c.c_uint64),
                ("scenarios", c.c_char_p), ("vehicle", c.c_char_p), ("plant", c.c_char_p), ("planner", c.c_char_p),
                ("device", c.c_char_p), ("steering", c.c_int32), ("longitudinal", c.c_int32), ("autoreset", c.c_int32),
                ("steps_per_action", c.c_int32), ("most_seconds", c.c_double), ("lane", c.c_double),
                ("weights", c.c_float * _TERMS)]


class _Number(c.Structure):
    _fields_ = [(name, c.c_char_p) for name in ("name", "unit", "meaning")] + \
               [(name, c.c_double) for name in ("low", "high", "scale")]


def _open(path: Union[str, pathlib.Path, None]) -> c.CDLL:
    if path is None:
        here = pathlib.Path(__file__).parent
        path = next((file for file in (here / f"libsparkpilot_sim.so.{_VERSION}", here / "libsparkpilot_sim.so")
                     if file.exists()), f"libsparkpilot_sim.so.{_VERSION}")
    try:
        library = c.CDLL(str(path))
        version = library.sparkpilot_sim_version()
    except (OSError, AttributeError) as error:
        raise _core.InputError(f"the library of simulated worlds cannot be used: {error}") from None
    if version != _VERSION:
        raise _core.InputError(f"{path}: expected version {_VERSION} of the library of simulated worlds, got {version}")
    library.sparkpilot_sim_error.restype = c.c_char_p
    library.sparkpilot_sim_make.restype = c.c_void_p
    library.sparkpilot_sim_free.argtypes = [c.c_void_p]
    library.sparkpilot_sim_scenario.restype = c.c_char_p
    library.sparkpilot_sim_scenario.argtypes = [c.c_void_p, c.c_int64]
    for function in (library.sparkpilot_sim_observation, library.sparkpilot_sim_term, library.sparkpilot_sim_action):
        function.restype = c.POINTER(_Number)
    library.sparkpilot_sim_action.argtypes = [c.c_void_p, c.c_int32]
    library.sparkpilot_sim_reset.argtypes = [c.c_void_p] * 4
    library.sparkpilot_sim_step.argtypes = [c.c_void_p] * 3
    return library


def _columns(at: Any) -> List[Column]:
    found = [pointer[0] for pointer in itertools.takewhile(bool, map(at, itertools.count()))]
    return [Column(n.name.decode(), n.unit.decode(), n.meaning.decode(), n.low, n.high, n.scale) for n in found]


class Worlds:
    """Simulated worlds, each with one car, that are stepped at once.

    worlds: how many. threads: 0 is one for each processor. seed: world i has seed + i.
    scenarios: names of scenarios and categories, with commas (`sparkpilot sim list`). vehicle: a preset, or "any".
    plant: "bicycle", "bicycle_linear" or "kinematic". planner: "idm", "cruise" or "mpc".
    device: "cpu", or "cuda" or "cuda:N", a GPU, without the planner mpc.
    steering: "torque" or "angle": what the lateral action is. longitudinal: actions have acceleration too.
    autoreset: when the episode after one that ended begins: "next_step", "same_step" or "disabled".
    steps_per_action: of 10 ms. most_seconds: of an episode; 0: as long as its scenario.
    lane: m; further from the middle of its lane an episode ends. weights: of the reward's terms, by name.
    library: the path of libsparkpilot_sim.so; None: the package's own.
    reuse: step and reset write into the same arrays each time, which saves time with many worlds.

    Used by one call at a time: another thread's call meanwhile raises InputError. Other Python threads go on.
    """

    def __init__(self, worlds: int = 1, *, threads: int = 0, seed: int = 0, scenarios: str = "all",
                 vehicle: str = "civic", plant: str = "bicycle", planner: str = "idm", device: str = "cpu",
                 steering: str = "torque", longitudinal: bool = False, autoreset: str = "same_step",
                 steps_per_action: int = 5, most_seconds: float = 0.0, lane: float = 1.8,
                 weights: Optional[Mapping[str, float]] = None, library: Union[str, pathlib.Path, None] = None,
                 reuse: bool = False) -> None:
        self._handle: Optional[int] = None
        self._library = _open(library)
        self._lock = threading.Lock()
        self.observation_columns = _columns(self._library.sparkpilot_sim_observation)
        self.term_columns = _columns(self._library.sparkpilot_sim_term)
        options = _Options()
        self._library.sparkpilot_sim_default_options(c.byref(options))
        worlds = integer("worlds", worlds, 1, 2**62)
        integers = {"worlds": worlds, "threads": integer("threads", threads, 0, 2**31 - 1),
                    "seed": integer("seed", seed, 0, 2**64 - 1),
                    "steering": _choice("steering", steering, ("torque", "angle")),
                    "longitudinal": integer("longitudinal", bool(longitudinal) if isinstance(longitudinal, np.bool_)
                                             else longitudinal, 0, 1),
                    "autoreset": _choice("autoreset", autoreset, AUTORESET),
                    "steps_per_action": integer("steps_per_action", steps_per_action, 1, 2**31 - 1)}
        texts = {name: text(name, value).encode() for name, value in
                 (("scenarios", scenarios), ("vehicle", vehicle), ("plant", plant), ("planner", planner), ("device", device))}
        try:
            numbers = {"most_seconds": float(most_seconds), "lane": float(lane)}
        except (TypeError, ValueError):
            raise TypeError(f"most_seconds, lane: expected numbers, got {most_seconds!r}, {lane!r}") from None
        for name, value in {**integers, **numbers, **texts}.items():
            setattr(options, name, value)
        names = [column.name for column in self.term_columns]
        if not isinstance(weights or {}, Mapping):
            raise TypeError(f"weights: expected numbers by the names of terms, got {weights!r}")
        for name, weight in (weights or {}).items():
            if name not in names:
                raise _core.InputError(f"the reward has no term {name!r}; it has: {', '.join(names)}")
            try:
                options.weights[names.index(name)] = weight
            except TypeError:
                raise TypeError(f"weights[{name!r}]: expected a number, got {weight!r}") from None
        self._handle = self._library.sparkpilot_sim_make(c.byref(options))
        if not self._handle:
            raise self._error()
        self.action_columns = _columns(lambda i: self._library.sparkpilot_sim_action(self._handle, i))
        self.worlds = worlds
        self._arrays = self._new_arrays() if reuse else None
        self._buffers = _buffers_of(self._arrays) if self._arrays else None

    def __len__(self) -> int:
        return self.worlds

    def __repr__(self) -> str:
        return f"<sparkpilot.Worlds: {self.worlds}{'' if self._handle else ', closed'}>"

    def __reduce__(self) -> Any:
        raise TypeError("simulated worlds can be neither copied nor pickled")

    def reset(self, seed: Union[int, Sequence[int], None] = None, mask: Optional[np.ndarray] = None) -> np.ndarray:
        """Begins the next episode of all worlds, or of those where the mask is True, and returns all observations,
        float32 [worlds, columns].

        seed: world i begins with the first episode of seed + i, or of seed[i].
        """
        seeds = None
        if isinstance(seed, (int, np.integer)):
            first = integer("seed", seed, 0, 2**64 - self.worlds)
            seeds = np.arange(self.worlds, dtype=np.uint64) + np.uint64(first)
        elif seed is not None:
            try:  # each by itself: NumPy makes floats of a list in which some are beyond int64
                given = [integer("seed", each, 0, 2**64 - 1) for each in seed]
            except TypeError:
                raise _core.InputError(f"seed: expected integers from 0 on, got {repr(seed)[:60]}") from None
            seeds = self._array("seed", np.array(given, np.uint64), np.uint64, (self.worlds,))
        if mask is not None:
            if np.asarray(mask).dtype != bool:
                raise _core.InputError(f"mask: expected True or False for each world, got {repr(mask)[:60]}")
            mask = self._array("mask", mask, bool, (self.worlds,))
        out = self._arrays or self._new_arrays()
        self._call(self._library.sparkpilot_sim_reset, [mask, seeds], out)
        return out.observations

    def step(self, actions: np.ndarray) -> Step:
        """One action for each world, float32 [worlds, actions]: taken as it is if it has that type and no gaps."""
        actions = self._array("actions", actions, np.float32, (self.worlds, len(self.action_columns)))
        out = self._arrays or self._new_arrays()
        self._call(self._library.sparkpilot_sim_step, [actions], out)
        return out

    def scenario(self, world: int) -> str:
        """The name of the scenario that the world's episode is one of."""
        world = integer("world", world, 0, self.worlds - 1)
        with self._in_use():
            name = self._library.sparkpilot_sim_scenario(self._open_handle(), world)
            if name is None:
                raise self._error()
            found: str = name.decode()
            return found

    def close(self) -> None:
        """Frees the worlds; nothing can be done with them afterwards. Raises InputError while another thread's call runs."""
        with self._in_use():
            self._free()

    def __del__(self) -> None:  # then no call runs
        if getattr(self, "_handle", None):
            self._free()

    def _free(self) -> None:
        handle, self._handle = self._handle, None
        if handle:
            self._library.sparkpilot_sim_free(handle)

    def _new_arrays(self) -> Step:
        count, columns = self.worlds, len(self.observation_columns)
        terminated, truncated, ended = np.empty((3, count), bool)
        return Step(np.empty((count, columns), np.float32), np.empty(count, np.float32), terminated, truncated, ended,
                    np.empty((count, columns), np.float32), np.empty((count, _TERMS), np.float32))

    @staticmethod
    def _array(name: str, given: Any, dtype: Any, shape: Tuple[int, ...]) -> np.ndarray:
        try:
            array = np.asarray(given)
            if array.dtype.kind not in "biuf":
                raise TypeError("these are no real numbers")
            array = np.ascontiguousarray(array, dtype)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise _core.InputError(f"{name}: expected {np.dtype(dtype)} of shape {shape}: {error}") from None
        if array.shape != shape:
            raise _core.InputError(f"{name}: expected the shape {shape}, got {array.shape}")
        return array

    def _open_handle(self) -> int:
        if not self._handle:
            raise _core.InputError("the worlds are closed")
        return self._handle

    @contextlib.contextmanager
    def _in_use(self) -> Iterator[None]:
        if not self._lock.acquire(blocking=False):
            raise _core.InputError("the worlds are in use by another call: each thread needs its own")
        try:
            yield
        finally:
            self._lock.release()

    def _error(self) -> _core.Error:
        """What the last call of this thread could not do."""
        kind = {1: _core.InternalError, 3: _core.DeviceError}.get(self._library.sparkpilot_sim_error_kind(), _core.InputError)
        return kind(self._library.sparkpilot_sim_error().decode())

    def _call(self, function: Any, given: List[Optional[np.ndarray]], out: Step) -> None:
        buffers = self._buffers if out is self._arrays else _buffers_of(out)
        places = [None if array is None else array.ctypes.data for array in given]
        with self._in_use():
            if function(self._open_handle(), *places, buffers):
                raise self._error()


def _buffers_of(arrays: Step) -> Any:
    """sparkpilot_sim_buffers on their memory."""
    return (c.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def _choice(name: str, given: str, choices: Sequence[str]) -> int:
    if given not in choices:
        raise _core.InputError(f"{name}: expected {', '.join(choices)}, got {given!r}")
    return list(choices).index(given)
