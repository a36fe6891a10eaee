"""openpilot's driving models on any PC or an NVIDIA DGX Spark: load, run, inspect, build, drive, compare and train them.

    import numpy as np
    import sparkpilot

    session = sparkpilot.Session("driving_policy.onnx", threads=2)
    session.inputs["desire_pulse"][...] = 0      # the session's own memory, written in place
    session.run()
    print(session.outputs["outputs"].shape)

    for event in sparkpilot.LogReader("route/"):
        print(event.which(), event.logMonoTime)

docs/python.md is the tutorial. What sparkpilot cannot do is an `Error`, whose text is one line.
"""
import importlib
import os
from typing import TYPE_CHECKING, Any, List

import numpy  # noqa: F401  # before the native module, whose own error does not name it

# libgomp reads how long its threads spin after their work when it is loaded, which the native module does. By default it is
# milliseconds, which other threads of the process, PyTorch's for instance, would wait for.
_set = not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ)
if _set:
    os.environ["GOMP_SPINCOUNT"] = "4000"
try:
    from sparkpilot import _core
except ImportError as _error:
    from sparkpilot._libraries import explained

    raise explained(_error) from None
finally:
    if _set:
        del os.environ["GOMP_SPINCOUNT"]

from sparkpilot import hardware
from sparkpilot._core import DeviceError, Error, InputError, InternalError, __version__
from sparkpilot.builder import Builder, Value
from sparkpilot.model import Model, TensorInfo, load, parse
from sparkpilot.session import Session

if TYPE_CHECKING:
    from sparkpilot import commands, frames, gym, logs, sb3, worlds
    from sparkpilot.commands import (CheckFailed, adapter_create, adapter_info, adapter_merge, bench, build_dataset, compare,
                                     drive, run, sim_compare, sim_run, train)
    from sparkpilot.frames import Frame, FrameReader
    from sparkpilot.logs import LogReader

# What is loaded when it is asked for first.
_LATER = {"Frame": "frames", "FrameReader": "frames", "LogReader": "logs", "CheckFailed": "commands"}
_LATER.update(dict.fromkeys(("adapter_create", "adapter_info", "adapter_merge", "bench", "build_dataset", "compare", "drive",
                             "run", "sim_compare", "sim_run", "train"), "commands"))
_MODULES = ("commands", "frames", "gym", "logs", "sb3", "worlds")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"sparkpilot.{name}")
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"sparkpilot.{_LATER[name]}"), name)
    return value


def __dir__() -> List[str]:
    return sorted({*globals(), *_LATER, *_MODULES})


__all__ = ["Builder", "CheckFailed", "DeviceError", "Error", "Frame", "FrameReader", "InputError", "InternalError", "LogReader",
           "Model", "Session", "TensorInfo", "Value", "__version__", "adapter_create", "adapter_info", "adapter_merge", "bench",
           "build_dataset", "compare", "drive", "hardware", "load", "parse", "run", "sim_compare", "sim_run", "train"]
