"""Graphs built node by node."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import numpy as np

from sparkpilot import _core
from sparkpilot.model import Model


class Value:
    """A value of a graph that is being built. `+ - * / @` and unary minus add a node each."""

    __slots__ = ("_builder", "_id")
    __array_ufunc__ = None  # NumPy's arrays leave `array @ value` to this class

    def __init__(self, builder: "Builder", id: int) -> None:
        self._builder, self._id = builder, id

    @property
    def dtype(self) -> Union[np.dtype, str, None]:
        """Its element type; None if it depends on an input whose dimensions are open."""
        return self._builder._core._type(self._id)[0]

    @property
    def shape(self) -> Optional[Tuple[int, ...]]:
        """Its shape; None if it is not known before a session knows its inputs' shapes."""
        return self._builder._core._type(self._id)[1]

    def __add__(self, other: Any) -> "Value":
        return self._builder._binary("Add", self, other)

    def __radd__(self, other: Any) -> "Value":
        return self._builder._binary("Add", other, self)

    def __sub__(self, other: Any) -> "Value":
        return self._builder._binary("Sub", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return self._builder._binary("Sub", other, self)

    def __mul__(self, other: Any) -> "Value":
        return self._builder._binary("Mul", self, other)

    def __rmul__(self, other: Any) -> "Value":
        return self._builder._binary("Mul", other, self)

    def __truediv__(self, other: Any) -> "Value":
        return self._builder._binary("Div", self, other)

    def __rtruediv__(self, other: Any) -> "Value":
        return self._builder._binary("Div", other, self)

    def __matmul__(self, other: Any) -> "Value":
        return self._builder._binary("MatMul", self, other)

    def __rmatmul__(self, other: Any) -> "Value":
        return self._builder._binary("MatMul", other, self)

    def __neg__(self) -> "Value":
        return self._builder.add("Neg", self)

    def __repr__(self) -> str:
        dtype, shape = self._builder._core._type(self._id)
        return f"<sparkpilot.Value {self._id}: {dtype or '?'}{list(shape) if shape is not None else '[?]'}>"


#: What stands for a value: a Value, or an array or number, which becomes a constant; None: an input that is not given.
Operand = Union[Value, np.ndarray, float, int, Sequence, None]


class Builder:
    """Builds a graph node by node, which `model` gives as a Model.

        b = sparkpilot.Builder()
        x = b.input("x", "float32", (1, 3))
        b.output(b.add("Relu", x @ weights + 0.5), "y")      # weights: a NumPy array
        model = b.model()

    Operators, their inputs and their attributes are ONNX's; docs/ops.md lists them. A mistake is an InputError when the
    node is added, which names the operator and the node, and the node is not added. Not for several threads at once.

    prefix: nodes are named `prefix`/<name>. opset: the version of ONNX's operators.
    """

    def __init__(self, prefix: str = "", opset: int = 26) -> None:
        self._core = _core.Builder(prefix, opset)

    def input(self, name: str, dtype: Any, shape: Sequence[Union[int, str, None]]) -> Value:
        """dtype: numpy.float32, "float32", "bf16" and so on. shape: sizes; a name or None for a dimension that is open."""
        return Value(self, self._core._input(name, dtype, shape))

    def constant(self, value: Any, name: str = "", dtype: Any = None) -> Value:
        """A copy of an array; Python's floats become 32 bits. dtype: the type to convert it to, "bf16" among them."""
        return Value(self, self._core._constant(value, name, dtype))

    def state(self, initial: Any, name: str) -> Value:
        """What one run passes to the next; it begins as `initial`. `next` must follow."""
        return Value(self, self._core._state(initial, name))

    def next(self, state: Value, value: Value) -> None:
        """What the state holds in the next run: a value of its type and shape."""
        self._core._next(self._id(state, "the state"), self._id(value, "the next value"))

    def add(self, op: str, *inputs: Operand, name: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node and returns its output, or with outputs above 1 a list of them.

        op: "Add", or "domain::Name". Attributes: integers, floats, texts, lists of them, arrays, and Models as bodies of
        If, Loop and Scan. An attribute that is a float takes 1.0, not 1.
        """
        ids = [-1 if value is None else self._id(value, op) for value in inputs]
        attributes = {key: value._core if isinstance(value, Model) else value for key, value in attributes.items()}
        made = self._core._add(op, ids, outputs, name, attributes)
        values = [Value(self, id) for id in made]
        return values[0] if outputs == 1 else values

    def output(self, value: Value, name: str) -> None:
        """Makes the value an output of the model, of that name."""
        self._core._output(self._id(value, f"output {name!r}"), name)

    def model(self, name: str = "", metadata: Optional[Dict[str, str]] = None) -> Model:
        """The graph as it is now. Building may go on afterwards; the model does not change."""
        return Model(self._core._model(name, metadata or {}))

    def _binary(self, op: str, a: Any, b: Any) -> Value:
        return self.add(op, *self._alike(a, b))

    def _alike(self, a: Any, b: Any) -> List[Value]:
        """Python's numbers get the type of the other operand."""
        typed = [x for x in (a, b) if isinstance(x, Value) and x.dtype is not None]
        return [self._scalar(x, typed[0].dtype) if isinstance(x, (int, float)) and typed else x for x in (a, b)]

    def _scalar(self, value: float, dtype: Any) -> Value:
        return Value(self, self._core._scalar(dtype, value))

    def _id(self, value: Any, what: str) -> int:
        if not isinstance(value, Value):
            return self.constant(value)._id
        if value._builder is not self:
            raise _core.InputError(f"{what}: the value belongs to another Builder")
        return value._id
