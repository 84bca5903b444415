"""maximum and minimum: the larger or smaller of two elements after broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import Interval, Operand
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import maximum, minimum
from edgec.ops.broadcast import broadcast_index, broadcast_shape, operand_tensors
from edgec.ops.intervals import by_corners
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite


class _Extreme(Op[NoAttrs]):
    """Two operands of one dtype and quantization; stored values stay as they are.

    Floats: C's `a > b ? a : b` (or `<`), so of two zeros and of a NaN the second operand is taken.
    """

    fusion = Fusion.BROADCAST

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The broadcast shape with the first operand's type."""
        a, b = inputs
        shape = broadcast_shape(self.name, inputs)
        if (a.dtype, a.quant) != (b.dtype, b.quant):
            raise TypeMismatch(f"{self.name} of {a} and {b}: their types must be equal")
        if a.quant is not None and not a.quant.per_tensor:
            raise TypeMismatch(f"{self.name} needs quantization per tensor")
        return (a.with_shape(shape),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element; a dimension of extent 1 is read again for every index."""
        operands = operand_tensors(target, inputs)
        choose = maximum if self.name == "maximum" else minimum

        def element(*at: Any) -> Any:
            left, right = (tensor[broadcast_index(tensor.shape, at)] for tensor in operands)
            return choose(left, right)

        return target.compute("element", node.output.type.shape, node.output.type.dtype, element)

    def interval(
        self, attrs: NoAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """It is monotonic in both operands."""
        return by_corners(self, attrs, operands, output)


@register
class Maximum(_Extreme):
    """The larger element."""

    name = "maximum"

    def evaluate(
        self,
        attrs: NoAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """The second operand unless the first is larger."""
        return (np.where(inputs[0] > inputs[1], inputs[0], inputs[1]),)


@register
class Minimum(_Extreme):
    """The smaller element."""

    name = "minimum"

    def evaluate(
        self,
        attrs: NoAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """The second operand unless the first is smaller."""
        return (np.where(inputs[0] < inputs[1], inputs[0], inputs[1]),)


def _import(builder: GraphBuilder, raw: RawNode, op: str) -> Any:
    """Two operands, or a chain of them (ONNX takes any number)."""
    first, *rest = raw.inputs
    for number, operand in enumerate(rest):
        last = number == len(rest) - 1
        name = raw.name if last else f"{raw.name}/{number}"
        first = builder.op(op, [first, operand], name=name, sources=(raw.name,))
    return first


@from_onnx("Max", since=8)
@from_tflite("MAXIMUM")
def import_maximum(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite MAXIMUM and ONNX Max."""
    return _import(builder, raw, "maximum")


@from_onnx("Min", since=8)
@from_tflite("MINIMUM")
def import_minimum(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite MINIMUM and ONNX Min."""
    return _import(builder, raw, "minimum")
