"""Parts: appends the nodes that one source node becomes, named after it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import TensorType
from edgec.ops.cast import CastAttrs, cast_to
from edgec.ops.lift import LiftAttrs
from edgec.ops.op import RawNode
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import TransposeAttrs

#: Index dtypes of gathers and scatters.
INDEX_DTYPES = ("int32", "int64")


class Parts:
    """Appends nodes that are parts of one source node."""

    def __init__(self, builder: GraphBuilder, raw: RawNode) -> None:
        self.builder = builder
        self.name, self.raw = raw.name, raw

    def op(self, op: str, inputs: Sequence[Value], attrs: Any = None, what: str = "") -> Value:
        """A node that is named after its part; the one without a part is the last."""
        name = f"{self.name}/{what}" if what else self.name
        return self.builder.op(op, inputs, attrs, name=name, sources=(self.name,))

    def reshaped(self, x: Value, shape: Sequence[int], what: str = "shape") -> Value:
        """The same elements in another shape; constants become other constants."""
        shape = tuple(shape)
        if x.type.shape == shape:
            return x
        if isinstance(x, Constant):
            return self.builder.constant(f"{x.name}.{what}", x.data.reshape(shape), x.type.quant)
        return self.op("reshape", [x], ReshapeAttrs(shape), what)

    def last(self, x: Value) -> Value:
        """The value under the source node's own name."""
        return self.reshaped_last(x, x.type.shape)

    def reshaped_last(self, x: Value, shape: Sequence[int]) -> Value:
        """The value in another shape under the source node's own name."""
        return self.op("reshape", [x], ReshapeAttrs(tuple(shape)))

    def moved(self, x: Value, order: tuple[int, ...], what: str) -> Value:
        """A transpose; constants become other constants."""
        if isinstance(x, Constant) and x.type.quant is None:
            data = np.ascontiguousarray(x.data.transpose(order))
            return self.builder.constant(f"{x.name}.{what}", data)
        return self.op("transpose", [x], TransposeAttrs(order), what)

    def cast(self, x: Value, dtype: str, what: str = "") -> Value:
        """A cast, where it is needed."""
        name = f"{self.name}/{what}" if what else self.name
        return cast_to(self.builder, x, CastAttrs(dtype), name)

    def filled(self, type_: TensorType, value: float, what: str) -> Constant:
        """A constant of one stored number, with the type's quantization."""
        data = np.full(type_.shape, value, type_.dtype)
        return self.builder.constant(f"{self.name}.{what}", data, type_.quant)

    def table(self, data: Any, what: str, dtype: str = "int32") -> Constant:
        """A constant without quantization."""
        return self.builder.constant(f"{self.name}.{what}", np.asarray(data, dtype))

    def numbers(self, x: Value, more: int = 0, what: str = "numbers") -> Value:
        """Stored integers plus an offset, as plain int32."""
        _, zero_point = x.type.scalar_quant()
        lifted = self.op("lift", [x], LiftAttrs(), f"{what}.differences")
        if not zero_point + more:
            return lifted
        return self.op("int_add", [lifted, self.table(zero_point + more, "start")], what=what)

    def as_indices(self, x: Value) -> Value:
        """Indices of a type that gathers and scatters take."""
        return x if x.type.dtype in INDEX_DTYPES else self.cast(x, "int32", "places")
