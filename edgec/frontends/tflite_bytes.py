"""TFLite's uint8 values with a scale, as int8: each number and its zero point less by 128.

Old quantized files store values and weights as uint8. Real numbers, their sums and products are
the same in int8, so operators have no second form for them. Each tensor stays uint8 where the file
shows it: at inputs and outputs of the model, and for operators that read plain numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.provenance import Origin
from edgec.graph.types import Quant, TensorType
from edgec.ops.requantize import Requantize, RequantizeAttrs

#: The offset from int8 to uint8.
MOVE = 128


def signed_type(type_: TensorType) -> TensorType:
    """The int8 type of a uint8 type with scales; any other type unchanged."""
    if type_.dtype != "uint8" or type_.quant is None:
        return type_
    zeros = tuple(zero - MOVE for zero in type_.quant.zero_point)
    return TensorType(type_.shape, "int8", replace(type_.quant, zero_point=zeros))


class Bytes:
    """The int8 values that stand for uint8 tensors, by the tensor's number."""

    def __init__(self, builder: GraphBuilder) -> None:
        self.builder = builder
        self._signed: dict[int, Value] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._signed

    def add(self, number: int, value: Value) -> None:
        """Keep what an operator computed for a tensor."""
        self._signed[number] = value

    def signed(
        self, number: int, value: Callable[[], Value | None], *, is_hybrid: bool
    ) -> Value | None:
        """A tensor as int8 where it has scales, else as it is; `value` returns it as it is.

        is_hybrid: the operator works on floats, and its constants are bits of int8 whatever the
        file calls them. Source: GetInt8DataPtr of LiteRT's lstm_eval.cc.
        """
        if number not in self._signed:
            stored = value()
            if stored is None or signed_type(stored.type) == stored.type:
                return stored
            if is_hybrid and isinstance(stored, Constant):
                bits = stored.data.view(np.int8)
                return self.builder.constant(f"{stored.name}.int8", bits, stored.type.quant)
            self._signed[number] = self._made(stored)
        return self._signed[number]

    def unsigned(self, number: int, type_: TensorType, origin: Origin) -> Value:
        """A tensor that an operator computed as int8, as the uint8 of the file."""
        assert type_.quant is not None
        value = self._moved(self._signed[number], type_.quant, "uint8")
        (node,) = self.builder.nodes[-1:]
        fresh = replace(value, origin=origin)
        self.builder.nodes[-1] = replace(node, outputs=(fresh,))
        return fresh

    def _made(self, value: Value) -> Value:
        type_, origin = signed_type(value.type), value.origin
        moved = None if origin is None else replace(origin, is_moved=True)
        if isinstance(value, Constant):
            data = (value.data ^ np.uint8(MOVE)).view(np.int8)
            return self.builder.constant(f"{value.name}.int8", data, type_.quant, moved)
        assert type_.quant is not None
        return self._moved(value, type_.quant, "int8")

    def _moved(self, value: Value, quant: Quant, dtype: str) -> Value:
        """The same real numbers in the other type, which has each of them."""
        bounds = np.iinfo(dtype)
        attrs = RequantizeAttrs((1.0,), quant, int(bounds.min), int(bounds.max), "onnx", dtype)
        return self.builder.op(Requantize, [value], attrs, name=f"{value.name}/{dtype}")
