"""squared_distances: of each row of x to each of some constant points, sums of squared differences.

By the differences themselves, not by products of sums, which would cancel in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value
from edgec.ops.broadcast import operand_tensors
from edgec.ops.op import Op
from edgec.ops.row import FLOATS


@register
class SquaredDistances(Op[NoAttrs]):
    """x [rows, features] and points [points, features] of one dtype of floats: [rows, points]."""

    name = "squared_distances"
    fusion = Fusion.OPAQUE
    tolerance = 2e-6

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """[rows, points]."""
        x, points = inputs
        ranks = len(x.shape), len(points.shape)
        if x.dtype not in FLOATS or points.dtype != x.dtype or ranks != (2, 2):
            raise TypeMismatch(f"squared_distances of {x} to {points}")
        if x.shape[1] != points.shape[1] or not x.shape[1]:
            raise TypeMismatch(f"squared_distances of {x} to {points}: other features")
        return (x.with_shape((x.shape[0], points.shape[0])),)

    def macs(self, attrs: NoAttrs, inputs: Types) -> int:
        """One for each feature of each pair."""
        return inputs[0].elements * inputs[1].shape[0]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One sum for each pair."""
        x, points = operand_tensors(target, inputs)

        def update(total: Value, row: Any, point: Any, k: Any) -> Value:
            away = x[row, k] - points[point, k]
            return total + away * away

        return target.reduce(
            "distance", node.output.type.shape, x.dtype, [("k", 0, x.shape[1])],
            init=lambda row, point: 0.0, update=update,
        )  # fmt: skip
