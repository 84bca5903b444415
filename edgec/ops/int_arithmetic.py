"""int_add, int_mul, int_div: arithmetic of plain int32, modulo 2**32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics.fixed_point import IntArray, wrap_int32
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.op import Op, RawNode


class _IntArithmetic(Op[NoAttrs]):
    """Two operands of int32 without quantization, after broadcasting."""

    fusion = Fusion.BROADCAST

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape."""
        if any(x.dtype != "int32" or x.quant is not None for x in inputs):
            raise TypeMismatch(f"{self.name} of {' and '.join(map(str, inputs))}")
        return (TensorType(broadcast_shape(self.name, inputs), "int32"),)

    def evaluate(
        self,
        attrs: NoAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Exact, then wrapped."""
        a, b = (array.astype(np.int64) for array in inputs)
        return (wrap_int32(self.exact(a, b)).astype(np.int32),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        a, b = operand_tensors(target, inputs)

        def element(*at: Any) -> Any:
            return self.apply(a[broadcast_index(a.shape, at)], b[broadcast_index(b.shape, at)])

        return target.compute("element", node.output.type.shape, "int32", element)

    def exact(self, a: IntArray, b: IntArray) -> IntArray:
        """The result before it wraps."""
        raise NotImplementedError

    def apply(self, a: Any, b: Any) -> Any:
        """The same of values in loops."""
        raise NotImplementedError


@register
class IntAdd(_IntArithmetic):
    """a + b."""

    name = "int_add"

    def exact(self, a: IntArray, b: IntArray) -> IntArray:
        """The result before it wraps."""
        return a + b

    def apply(self, a: Any, b: Any) -> Any:
        """The same of values in loops."""
        return a + b


@register
class IntMul(_IntArithmetic):
    """a * b."""

    name = "int_mul"

    def exact(self, a: IntArray, b: IntArray) -> IntArray:
        """The result before it wraps."""
        return a * b

    def apply(self, a: Any, b: Any) -> Any:
        """The same of values in loops."""
        return a * b


@register
class IntDiv(_IntArithmetic):
    """a / b, towards zero; b is a constant, and neither 0 nor -1."""

    name = "int_div"

    def exact(self, a: IntArray, b: IntArray) -> IntArray:
        """The result before it wraps."""
        return np.asarray(np.where((a < 0) ^ (b < 0), -1, 1) * (np.abs(a) // np.abs(b)))

    def apply(self, a: Any, b: Any) -> Any:
        """The same of values in loops."""
        return a / b


def import_integers(builder: GraphBuilder, raw: RawNode, op: str) -> Any:
    """A TFLite node of two int32 tensors."""
    if len(raw.inputs) != 2 or None in raw.inputs:
        raise ImportFailed("an input is absent")
    if raw.attribute("fused_activation", "NONE") != "NONE":
        raise ImportFailed("a fused activation of int32 is not supported")
    divisor = raw.inputs[1]
    is_safe = isinstance(divisor, Constant) and not np.isin(divisor.data, (0, -1)).any()
    if op == "int_div" and not is_safe:
        raise ImportFailed("the divisor must be a constant, and neither 0 nor -1")
    return builder.op(op, raw.inputs, name=raw.name)
