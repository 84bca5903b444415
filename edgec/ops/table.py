"""8-bit functions of one operand: 256 results, computed at compile time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.fixed_point import IntArray
from edgec.graph.ir import Node
from edgec.graph.op import Fusion, Op, RawNode
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import int32


class QuantizedAttrs(Protocol):
    """Attributes of an operator with one quantized output; None stands for floats."""

    @property
    def output(self) -> Quant | None:
        """Quantization of an int8 result."""


AttrsT = TypeVar("AttrsT", bound=QuantizedAttrs)

#: Every int8 value, in order.
OPERANDS: IntArray = np.arange(-128, 128, dtype=np.int64)


class ByTable(Op[AttrsT]):
    """int8 to int8, each quantized per tensor; a subclass says what `stored` values become."""

    fusion = Fusion.ELEMENTWISE

    def stored(self, attrs: AttrsT, values: IntArray, x: TensorType) -> IntArray:
        """Results of stored int8 values, as int64; what does not fit in int8 is limited."""
        raise NotImplementedError

    def check(self, attrs: AttrsT, x: TensorType) -> None:
        """Raise TypeMismatch where a quantized input and output have no meaning."""

    def infer(self, attrs: AttrsT, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The shape of the input with the output's quantization."""
        (x,) = inputs
        if x.dtype != "int8" or x.quant is None or not x.quant.per_tensor:
            raise TypeMismatch(f"{self.name} needs int8 quantized per tensor, not {x}")
        if attrs.output is None or not attrs.output.per_tensor:
            raise TypeMismatch(f"{self.name} of int8 needs an output quantized per tensor")
        self.check(attrs, x)
        return (TensorType(x.shape, "int8", attrs.output),)

    def table(self, attrs: AttrsT, x: TensorType) -> Array:
        """The results of -128..127."""
        return np.clip(self.stored(attrs, OPERANDS, x), -128, 127).astype(np.int8)

    def evaluate(
        self,
        attrs: AttrsT,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Every element by `stored`."""
        return (self.table(attrs, input_types[0])[inputs[0].astype(np.int64) + 128],)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """One load from the table for every element."""
        (x,) = inputs
        table = target.table("results", self.table(node.attrs, node.input_types[0]))
        return target.compute(
            "element", node.output.type.shape, "int8", lambda *at: table[int32(x[at]) + 128]
        )


def tflite_unary(raw: RawNode) -> tuple[Any, TensorType]:
    """The only input and the declared output type of a TFLite node."""
    declared = raw.output_types[0]
    if len(raw.inputs) != 1 or raw.inputs[0] is None or declared is None:
        raise ImportFailed("an input is absent")
    return raw.inputs[0], declared
