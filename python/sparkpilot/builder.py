"""Graphs built node by node."""
from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from sparkpilot import _core
from sparkpilot._arguments import integer, text
from sparkpilot.model import Model


#: Operators whose first output has the type of their first input.
_SAME_TYPE = frozenset("""
    Abs Add AveragePool Ceil Clip Concat Conv Cos Div Elu Erf Exp Expand Flatten Floor Gather Gelu Gemm GlobalAveragePool
    HardSigmoid HardSwish Identity LayerNormalization LeakyRelu Log LogSoftmax MatMul Max MaxPool Mean Min Mish Mul Neg Pad
    Pow PRelu ReduceMax ReduceMean ReduceMin ReduceSum Relu Reshape Round Selu Sigmoid Sin Slice Softmax Softplus Split Sqrt
    Squeeze Sub Sum Tanh Tile Transpose Unsqueeze""".split())


class Value:
    """A value of a graph that is being built. `+ - * / @` and unary minus add a node each."""

    __slots__ = ("_builder", "_id", "_as_input")
    __array_ufunc__ = None  # NumPy's arrays leave `array @ value` to this class

    def __init__(self, builder: "Builder", id: int) -> None:
        self._builder, self._id = builder, id
        self._as_input: Union[np.dtype, str, None] = None  # the type of the first input, for _SAME_TYPE

    @property
    def dtype(self) -> Union[np.dtype, str, None]:
        """Its element type; None for some operators on inputs whose dimensions are open."""
        known = self._builder._core._type(self._id)[0]
        return self._as_input if known is None else known

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
        negative: Value = self._builder.add("Neg", self)
        return negative

    def __repr__(self) -> str:
        dtype, shape = self.dtype, self.shape
        return f"<sparkpilot.Value {self._id}: {dtype or '?'}{list(shape) if shape is not None else '[?]'}>"


#: What stands for a value: a Value, or an array or number, which becomes a constant; None: an input that is not given.
Operand = Union[Value, np.ndarray, float, int, Sequence[Any], None]


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
        self._core = _core.Builder(text("prefix", prefix), integer("opset", opset, 7, 28))
        self._input_names: Set[str] = set()
        self._output_names: Set[str] = set()

    def __repr__(self) -> str:
        return f"<sparkpilot.Builder: {', '.join(sorted(self._input_names))} -> {', '.join(sorted(self._output_names))}>"

    def input(self, name: str, dtype: Any, shape: Sequence[Union[int, str, None]]) -> Value:
        """dtype: numpy.float32, "float32", "bf16" and so on. shape: sizes; a name or None for a dimension that is open."""
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise TypeError(f"input {name!r}: expected a shape such as (1, 3) or ('batch', 3), got {shape!r}")
        value = Value(self, self._core._input(_new(name, "an input", self._input_names), dtype, tuple(shape)))
        self._input_names.add(name)
        return value

    def constant(self, value: Any, name: str = "", dtype: Any = None) -> Value:
        """A copy of an array; Python's floats become 32 bits. dtype: the type to convert it to, "bf16" among them."""
        return Value(self, self._core._constant(value, name, dtype))

    def state(self, initial: Any, name: str) -> Value:
        """What one run passes to the next; it begins as `initial`. `next` must follow."""
        return Value(self, self._core._state(initial, text("name", name)))

    def next(self, state: Value, value: Value) -> None:
        """What the state holds in the next run: a value of its type and shape."""
        self._core._next(self._id(state, "the state"), self._id(value, "the next value"))

    def add(self, op: str, *inputs: Operand, name: str = "", outputs: int = 1, **attributes: Any) -> Any:
        """Adds a node and returns its output, or with outputs above 1 a list of them.

        op: "Add", or "domain::Name". Attributes: integers, floats, texts, lists of them, arrays, and Models as bodies of
        If, Loop and Scan. An attribute that is a float takes 1.0, not 1.
        """
        text("op", op), text("name", name)
        integer("outputs", outputs, 1, 1024)
        ids = [-1 if value is None else self._id(value, op) for value in inputs]
        attributes = {key: value._core if isinstance(value, Model) else value for key, value in attributes.items()}
        made = self._core._add(op, ids, outputs, name, attributes)
        values = [Value(self, id) for id in made]
        if op in _SAME_TYPE and inputs and isinstance(inputs[0], Value):
            for value in values if op == "Split" else values[:1]:
                value._as_input = inputs[0].dtype
        return values[0] if outputs == 1 else values

    def output(self, value: Value, name: str) -> None:
        """Makes the value an output of the model, of that name."""
        self._core._output(self._id(value, f"output {name!r}"), _new(name, "an output", self._output_names))
        self._output_names.add(name)

    def model(self, name: str = "", metadata: Optional[Dict[str, str]] = None) -> Model:
        """The graph as it is now. Building may go on afterwards; the model does not change."""
        texts = {text("metadata", key): text(f"metadata[{key!r}]", value) for key, value in (metadata or {}).items()}
        return Model(self._core._model(text("name", name), texts))

    def _binary(self, op: str, a: Any, b: Any) -> Value:
        made: Value = self.add(op, *self._alike(a, b))
        return made

    def _alike(self, a: Any, b: Any) -> List[Value]:
        """Python's numbers get the type of the other operand."""
        value = next(x for x in (a, b) if isinstance(x, Value))
        return [self._scalar(x, value) if isinstance(x, (int, float)) else x for x in (a, b)]

    def _scalar(self, number: Union[int, float], beside: Value) -> Value:
        dtype = beside.dtype
        if dtype is None:
            raise _core.InputError(f"{number!r}: the type of {beside!r} is not known yet: write it as numpy.float32({number!r}) "
                                   "or of another type")
        kind = dtype.kind if isinstance(dtype, np.dtype) else "u" if dtype.startswith("u") else "i" if dtype.startswith("i") else "f"
        if kind in "iub":
            low, high = _range(dtype)
            if number != number or number != int(max(min(number, high), low)):
                raise _core.InputError(f"{number!r} is no {dtype}: expected an integer from {low} to {high}")
            if isinstance(dtype, np.dtype):  # exact beyond 2^53, too
                return self.constant(np.array(int(number), dtype))
        try:
            real = float(number)
        except OverflowError:
            real = np.inf
        if np.isinf(real) and not (isinstance(number, float) and np.isinf(number)):
            raise _core.InputError(f"a number of {len(str(number))} digits is beyond {dtype}")
        if isinstance(dtype, np.dtype) and dtype.kind == "f" and np.isfinite(real) and abs(real) > float(np.finfo(dtype).max):
            raise _core.InputError(f"{number!r} is beyond {dtype}")
        return Value(self, self._core._scalar(dtype, real))

    def _id(self, value: Any, what: str) -> int:
        if not isinstance(value, Value):
            return self.constant(value)._id
        if value._builder is not self:
            raise _core.InputError(f"{what}: the value belongs to another Builder")
        return value._id


def _new(name: str, what: str, known: Set[str]) -> str:
    if not text("name", name):
        raise _core.InputError(f"{what} needs a name")
    if name in known:
        raise _core.InputError(f"there is {what} {name!r} already")
    return name


def _range(dtype: Union[np.dtype, str]) -> Tuple[int, int]:
    """The least and the greatest number of a type of integers."""
    if isinstance(dtype, np.dtype):
        return (0, 1) if dtype.kind == "b" else (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))
    bits = int(dtype[-1])  # uint4, int4, uint2, int2
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
