"""openpilot's driving models on any PC or an NVIDIA DGX Spark: load, run, inspect and build them.

    import numpy as np
    import sparkpilot

    session = sparkpilot.Session("driving_policy.onnx", threads=2)
    session.inputs["desire_pulse"][...] = 0      # the session's own memory, written in place
    session.run()
    print(session.outputs["outputs"].shape)

docs/python.md is the tutorial. What sparkpilot cannot do is an `Error`, whose text is one line.
"""
try:
    from sparkpilot import _core
except ImportError as _error:
    if "cannot open shared object file" not in str(_error):
        raise
    from sparkpilot._libraries import which_packages

    raise ImportError(f"{_error}: sparkpilot uses libraries of the distribution; {which_packages()}") from None

from sparkpilot import hardware
from sparkpilot._core import DeviceError, Error, InputError, InternalError, __version__
from sparkpilot.builder import Builder, Value
from sparkpilot.model import Model, TensorInfo, load, parse
from sparkpilot.session import Session

__all__ = ["Builder", "DeviceError", "Error", "InputError", "InternalError", "Model", "Session", "TensorInfo", "Value",
           "__version__", "hardware", "load", "parse"]
