"""lift: stored integers as int32, (x - zero_point) * 2**bits * factor, for sums and comparisons.

TFLite's kernels for two quantized operands of different scales begin so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, int32, intrinsic
from edgec.numerics.fixed_point import quantize_multiplier
from edgec.ops.broadcast import operand_tensors
from edgec.ops.op import Op

#: Dtypes that are lifted, and by how many bits at most: differences have one bit more than these.
MOST_BITS = {"int8": 22, "uint8": 22, "int16": 14}


@dataclass(frozen=True)
class LiftAttrs:
    """bits: by how many the difference is raised. factor: at most 1, rounded as `tflm` does it."""

    bits: int = 0
    factor: float = 1.0


@register
class Lift(Op[LiftAttrs]):
    """int8, uint8 or int16 that is quantized per tensor -> int32 without quantization."""

    name = "lift"
    attrs_class = LiftAttrs
    fusion = Fusion.ELEMENTWISE

    def infer(self, attrs: LiftAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape."""
        (x,) = inputs
        if x.dtype not in MOST_BITS or x.quant is None or not x.quant.per_tensor:
            raise TypeMismatch(f"lift needs {' or '.join(MOST_BITS)} quantized per tensor, not {x}")
        if not 0 <= attrs.bits <= MOST_BITS[x.dtype] or not 0 < attrs.factor <= 1:
            raise TypeMismatch(f"lift of {x} by {attrs.bits} bits and {attrs.factor}")
        return (TensorType(x.shape, "int32"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        attrs: LiftAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        _, zero_point = node.inputs[0].type.scalar_quant()

        def element(*at: Any) -> Value:
            raised = (int32(x[at]) - zero_point) * (1 << attrs.bits)
            factor = quantize_multiplier(attrs.factor)
            return raised if attrs.factor == 1 else intrinsic("requantize_tflm", raised, *factor)

        return target.compute("element", x.shape, "int32", element)
