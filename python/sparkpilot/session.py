"""Models that are ready to run."""
from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple, Union

import numpy as np

from sparkpilot import _core
from sparkpilot._arguments import names, path, text
from sparkpilot.model import Model, TensorInfo, load


class Arrays(Mapping[str, np.ndarray]):
    """A session's inputs, outputs or states by name, as NumPy arrays on the session's own memory.

    Nothing is copied. An array keeps the session alive. PyTorch and others take it without a copy, too:
    `torch.from_dlpack(session.inputs["x"])`.
    """

    def __init__(self, kind: str, names: Callable[[], List[str]], array: Callable[[str], np.ndarray],
                 bits: Optional[Callable[[str], np.ndarray]] = None) -> None:
        self._kind, self._names, self._array, self._bits = kind, names, array, bits

    def __getitem__(self, name: str) -> np.ndarray:
        if not isinstance(name, str):
            raise TypeError(f"{self._kind}s are named by a str, got {name!r}")
        return self._array(name)

    def __setitem__(self, name: str, value: Any) -> None:
        own = self[name]
        if isinstance(value, np.ndarray) and value.shape == own.shape and (
                value.size == 0 or value.ctypes.data == own.ctypes.data):
            return  # the end of `session.inputs[name] += 1`
        raise TypeError(f"the {self._kind} {name!r} is memory of the session: write into it, "
                        f"session.{self._kind}s[{name!r}][...] = value")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def get(self, name: str, default: Any = None) -> Any:
        """The array of that name; `default` if there is none."""
        return self[name] if name in self else default

    # As objects: arrays have no single truth of being equal.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def bits(self, name: str) -> np.ndarray:
        """The same memory as unsigned integers, for types that NumPy does not have.

        bf16: uint16 in the array's shape. Types of 8 bits: uint8. Types of 4 and 2 bits: its bytes, a uint8 array of one
        dimension.
        """
        if self._bits is None:
            raise TypeError(f"{self._kind}s have no bits()")
        return self._bits(text(self._kind, name))

    def __repr__(self) -> str:
        return f"<{self._kind}s of a session: {', '.join(self)}>"


class Session(_core.Session):
    """A model compiled for this machine, with memory of its own.

        session = sparkpilot.Session("driving_policy.onnx", threads=2)
        session.inputs["desire_pulse"][...] = 0
        session.run()
        plan = session.outputs["outputs"]

    model: a Model, or the path of an ONNX file.
    device: "cpu"; "cuda" or "cuda:1", which raises DeviceError if there is no such GPU; "auto": the fastest GPU if it
        computes the model as the CPU does, else the CPU.
    threads: 0 finds the fastest number by trial.
    precision: "fp32"; "bf16"; "fp16" (on the CPU weights alone are stored in 16 bits); "fp8" and "fp4" (weights in 8 and 4
        bits); "model": as in the file; "auto": fp16 on a GPU, else fp32.
    dims: sizes of open dimensions by name, {"batch": 4}. shapes: shapes of inputs by name.
    batch: runs a model made for one entry on so many at once.
    outputs: only these are computed; they may be sliced, "logits[:, -1, :]".
    emulate: also a precision that this processor has no arithmetic for, slowly.
    passes_off: names of optimisations that are skipped. kernels: which kernels are used, "no-onednn".
    tune: "auto", "off" or "full": whether kernels are timed. tuning_file: keeps what was found for the next process.
    memory_reserve: bytes of the GPU's memory that are left to others.
    keep: names of intermediate values for values(), or "all"; a name that no value has is not there. profile: time the nodes for profile().
    say: a function that is given a line when loading takes long, and about the choice of the device.

    A session is used by one call at a time; another thread's call meanwhile raises InputError. `run` and compiling let
    other Python threads go on. A forked process must not use a session that its parent made.
    """

    def __init__(self, model: Union[Model, str, os.PathLike[str]], *, device: str = "cpu", threads: int = 0,
                 precision: str = "fp32", dims: Optional[Dict[str, int]] = None,
                 shapes: Optional[Dict[str, Tuple[int, ...]]] = None, batch: int = 1, outputs: Iterable[str] = (),
                 emulate: bool = False, passes_off: Iterable[str] = (), kernels: str = "", tune: str = "auto",
                 tuning_file: Union[str, os.PathLike[str]] = "", memory_reserve: Optional[int] = None,
                 keep: Union[str, Iterable[str]] = (), profile: bool = False,
                 say: Optional[Callable[[str], None]] = None) -> None:
        if isinstance(model, (str, os.PathLike)):
            model = load(model)
        if not isinstance(model, Model):
            raise TypeError(f"model: expected a sparkpilot.Model or the path of an ONNX file, got {model!r}")
        super().__init__(model._core, {
            "device": device, "threads": threads, "precision": precision, "dims": dims, "shapes": shapes, "batch": batch,
            "outputs": names("outputs", outputs), "emulate": emulate, "passes_off": set(names("passes_off", passes_off)),
            "kernels": kernels, "tune": tune, "tuning_file": path("tuning_file", tuning_file) if tuning_file else "",
            "memory_reserve": memory_reserve, "keep": set(names("keep", keep)), "profile": profile, "say": say})

    @property
    def inputs(self) -> Arrays:
        """The inputs' memory: written in place, zeros at first. An input with open dimensions needs set_shape first."""
        return Arrays("input", lambda: [info[0] for info in self._inputs], self._input, self._input_bits)

    @property
    def outputs(self) -> Arrays:
        """The outputs' memory, after run(): the next run writes into it. If any shape in the model depends on data, each
        access is a copy instead."""
        return Arrays("output", lambda: [info[0] for info in self._outputs], self._output, self._output_bits)

    @property
    def states(self) -> Arrays:
        """What one run passes to the next: may be read and written between runs."""
        return Arrays("state", self._states, self._state)

    @property
    def input_infos(self) -> Dict[str, TensorInfo]:
        """Type and shape of each input; open dimensions by name until their size is known."""
        return {info[0]: TensorInfo(*info) for info in self._inputs}

    @property
    def output_infos(self) -> Dict[str, TensorInfo]:
        """Type and declared shape of each output."""
        return {info[0]: TensorInfo(*info) for info in self._outputs}

    def set_shape(self, name: str, shape: Tuple[int, ...]) -> None:
        """Gives an input with open dimensions its shape, and new memory if it changed.

        Raises InputError while there are arrays on that input's or an output's memory.
        """
        self._set_shape(text("name", name), shape)

    def __call__(self, arrays: Optional[Mapping[str, Any]] = None, /, **named: Any) -> Dict[str, np.ndarray]:
        """Copies every input in, runs, and returns copies of the outputs: session(img=frames, desire=pulse).

        Inputs are NumPy arrays, or tensors with __dlpack__ in the processor's memory, of exactly the input's type; a
        dictionary takes names that are no Python names. Open dimensions get the sizes of the arrays.
        """
        if arrays is not None and not isinstance(arrays, Mapping):
            raise TypeError(f"a call takes inputs by name, session({next(iter(self.inputs), 'x')}=array) or a dictionary, "
                            f"got {type(arrays).__name__}")
        return self._call({**(arrays or {}), **named})

    def __repr__(self) -> str:
        try:
            return f"<sparkpilot.Session on {self.device}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"
        except _core.InputError:
            return "<sparkpilot.Session in use>"
        except RuntimeError:  # its __init__ raised, or has not run
            return "<sparkpilot.Session that was not made>"
