"""ATen operators as the ONNX operators that mean the same.

Each function in `aten_*.py` has an ATen operator's own parameters (after a `Call`) and appends
nodes by the importers that `edgec/ops/` registers for ONNX, at opset `OPSET`. So an operator has
one meaning, one set of tests and one lowering, whichever format it comes from. Values arrive as
graph values, everything else as Python numbers, lists or None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.frontends.imported import folded
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.limits import DEFAULT_BUDGET, Spending
from edgec.graph.types import Array, TensorType
from edgec.ops.onnx_call import append_onnx

#: The ONNX operator set whose importers are used.
OPSET = 20

#: A value of the graph, or a number that becomes a constant.
Operand = Value | Array | float | int | bool | None
Result = Value | tuple[Value | None, ...]
Import = Callable[..., Result]


@dataclass(frozen=True)
class Call:
    """One node of the program: the builder of its ONNX nodes, and torch's facts about its first
    result.

    name: for reports. shape, dtype: of the first result. used: which of several results are read.
    memory: strides and first element of the first argument in torch's memory.
    """

    builder: GraphBuilder
    name: str
    shape: tuple[int, ...]
    dtype: str
    used: frozenset[int] = frozenset()
    memory: tuple[tuple[int, ...], int] | None = None

    def onnx(self, kind: str, *inputs: Operand, **attributes: Any) -> Value:
        """The first result of an ONNX node. Raises ImportFailed where no importer knows it."""
        return self.onnx_all(kind, *inputs, **attributes)[0]

    def onnx_all(
        self, kind: str, *inputs: Operand, results: int = 1, **attributes: Any
    ) -> tuple[Value, ...]:
        """All results of an ONNX node; constants are computed at once."""
        inputs_given = [self.value(operand) for operand in inputs]
        first = len(self.builder.nodes)
        made = append_onnx(
            self.builder, self.name, kind, inputs_given, attributes, opset=OPSET, results=results
        )
        return folded(self.builder, made, first, Spending(DEFAULT_BUDGET))

    def value(self, operand: Operand) -> Value | None:
        """A graph value; numbers become constants (floats of float32)."""
        if operand is None or isinstance(operand, Value):
            return operand
        array = np.asarray(operand)
        if array.dtype == np.float64 and not isinstance(operand, np.ndarray):
            array = array.astype(np.float32)
        return self.builder.constant(f"{self.name}.constant", array)

    def like(self, number: Operand, dtype: str) -> Operand:
        """A number as a scalar of this dtype; a value unchanged."""
        if number is None or isinstance(number, Value):
            return number
        return np.asarray(number, np.dtype(dtype))

    def cast(self, operand: Value, dtype: str) -> Value:
        """A value in another dtype."""
        if operand.type.dtype == dtype:
            return operand
        if isinstance(operand, Constant):
            return self.builder.constant(f"{operand.name}.{dtype}", operand.data.astype(dtype))
        if dtype == "bool":
            zero = np.zeros((), operand.type.dtype)
            return self.onnx("Not", self.onnx("Equal", operand, zero))
        if operand.type.dtype == "bool":
            ones, zeros = np.ones((), dtype), np.zeros((), dtype)
            return self.onnx("Where", operand, ones, zeros)
        return self.onnx("Cast", operand, to=onnx_dtype(dtype))

    def shaped(self, x: Value, shape: Sequence[int]) -> Value:
        """The same elements in another shape."""
        if x.type.shape == tuple(shape):
            return x
        return self.onnx("Reshape", x, ints(shape), allowzero=1)


_TABLE: dict[str, Import] = {}


def find_aten(name: str) -> Import | None:
    """The function for an operator such as `aten.relu.default`, or None."""
    return _TABLE.get(name)


def aten_names() -> tuple[str, ...]:
    """Every operator that can be imported, by name."""
    return tuple(sorted(_TABLE))


def aten(*names: str) -> Callable[[Import], Import]:
    """Register a function for operators of the namespace `aten`, such as `relu.default`."""
    return library("aten", *names)


def library(namespace: str, *names: str) -> Callable[[Import], Import]:
    """Register a function for operators of any namespace."""

    def add(function: Import) -> Import:
        for name in names:
            _TABLE[f"{namespace}.{name}"] = function
        return function

    return add


def ints(numbers: Sequence[int]) -> Array:
    """A constant of int64, as ONNX wants shapes and axes."""
    return np.asarray(list(numbers), np.int64)


def onnx_dtype(dtype: str) -> int:
    """ONNX's number of a dtype (the enumeration `TensorProto.DataType`)."""
    from onnx import helper

    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def axes_of(axes: int | Sequence[int] | None, type_: TensorType) -> list[int]:
    """Axes counted from the front; all of them for None or an empty list."""
    rank = len(type_.shape)
    if not rank:
        return []
    if axes is None or (not isinstance(axes, int) and not len(axes)):
        return list(range(rank))
    chosen = [axes] if isinstance(axes, int) else axes
    return [axis % rank for axis in chosen]
