"""hard_sigmoid: min(max(alpha * x + beta, 0), 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import clamp
from edgec.numerics.float_math import float_maximum, float_minimum
from edgec.ops.op import Op, RawNode, from_onnx


@dataclass(frozen=True)
class HardSigmoidAttrs:
    """alpha, beta: float32 numbers."""

    alpha: float = 0.2
    beta: float = 0.5


@register
class HardSigmoid(Op[HardSigmoidAttrs]):
    """float32, with a rounding after the product and after the sum."""

    name = "hard_sigmoid"
    attrs_class = HardSigmoidAttrs
    fusion = Fusion.ELEMENTWISE
    tolerance = 5e-7

    def scale(self, attrs: HardSigmoidAttrs, *scales: float) -> float:
        """Results near 0 are as wrong as those near 1 may be: nothing keeps their digits."""
        return 1.0

    def infer(self, attrs: HardSigmoidAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the input."""
        (x,) = inputs
        if x.dtype != "float32":
            raise TypeMismatch(f"hard_sigmoid needs float32, not {x}")
        return (x,)

    def evaluate(
        self,
        attrs: HardSigmoidAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Element by element."""
        with np.errstate(over="ignore", invalid="ignore"):
            line = inputs[0] * np.float32(attrs.alpha) + np.float32(attrs.beta)
        return (float_minimum(float_maximum(line, np.float32(0)), np.float32(1)),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Element by element."""
        attrs: HardSigmoidAttrs = node.attrs
        (x,) = inputs
        return target.compute(
            "element",
            node.output.type.shape,
            "float32",
            lambda *at: clamp(x[at] * attrs.alpha + attrs.beta, 0.0, 1.0),
        )


@from_onnx("HardSigmoid")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX HardSigmoid."""
    attrs = HardSigmoidAttrs(float(raw.attribute("alpha", 0.2)), float(raw.attribute("beta", 0.5)))
    return builder.op("hard_sigmoid", raw.inputs, attrs, name=raw.name)
