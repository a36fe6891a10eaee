"""Models as they are in ONNX files."""
from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional, Tuple, Union

import numpy as np

from sparkpilot import _core
from sparkpilot._arguments import integer, path as _path, text


class TensorInfo(NamedTuple):
    """An input or output."""

    name: str
    #: NumPy's type; a name such as "bf16" where NumPy has none; None if only a session knows it.
    dtype: Union[np.dtype, str, None]
    #: Sizes; the name of a dimension that is open, None if it has no name. None: not declared.
    shape: Optional[Tuple[Union[int, str, None], ...]]


class Model:
    """A model: what it computes, its weights, and what else its file holds. Immutable.

    Made by `load`, `parse` or `Builder.model`. A session packs weights into memory of its own; those of the model are
    freed with it, so `Session("file.onnx")` needs less memory than a session of a model that is kept.
    """

    def __init__(self, core: _core.Model) -> None:
        self._core = core

    @property
    def inputs(self) -> List[TensorInfo]:
        """The inputs in the file's order, as it declares them."""
        return [TensorInfo(*info) for info in self._core._inputs]

    @property
    def outputs(self) -> List[TensorInfo]:
        """The outputs in the file's order, as it declares them."""
        return [TensorInfo(*info) for info in self._core._outputs]

    @property
    def output_slices(self) -> Dict[str, slice]:
        """Which elements of an openpilot model's flat output each head has; empty if the file does not say."""
        return self._core.output_slices

    @property
    def metadata(self) -> Dict[str, str]:
        """The file's metadata_props."""
        return self._core.metadata

    @property
    def opsets(self) -> Dict[str, int]:
        """Versions of the sets of operators by domain; "" is ONNX's own."""
        return self._core.opsets

    @property
    def name(self) -> str:
        """The graph's name."""
        return self._core.name

    @property
    def producer(self) -> str:
        """The program that wrote the file."""
        return self._core.producer

    @property
    def states(self) -> List[str]:
        """Names of what one run of a session passes to the next. Models from files have none."""
        return self._core.states

    @property
    def node_count(self) -> int:
        """How many nodes the file has, before any optimisation."""
        return self._core.node_count

    def save(self, path: Union[str, os.PathLike[str]], *, opset: int = 0, external_data: bool = False) -> int:
        """Writes the model as ONNX and returns the opset that it was written in.

        opset: 0 is the model's own where all its operators can be written in it, else the newest that fits.
        external_data: weights go to `<path>.data`.
        Raises InputError, and leaves no file, if ONNX cannot express a node, for models with states, and where the folder
        does not exist.
        """
        return self._core.save(_path("path", path), opset=integer("opset", opset, 0, 1000), external_data=bool(external_data))

    def __repr__(self) -> str:
        def listed(infos: List[TensorInfo]) -> str:
            return ", ".join(f"{i.name} {i.dtype or '?'}{list(i.shape) if i.shape is not None else '[?]'}" for i in infos)

        return f"<sparkpilot.Model {self.name!r}: {listed(self.inputs)} -> {listed(self.outputs)}>"


def load(path: Union[str, os.PathLike[str]]) -> Model:
    """Reads an ONNX file (IR 3 to 13, opsets up to 28). Raises InputError that names the file and the node."""
    return Model(_core.load(_path("path", path)))


def parse(data: Union[bytes, bytearray, memoryview], name: str = "the model") -> Model:
    """The same of a file's bytes; `name` stands for the file in messages. External data is refused."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data: expected bytes, got {type(data).__name__}")
    return Model(_core.parse(bytes(data), text("name", name)))
