"""copy: the same elements in memory of their own."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import Movement
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.op import Op


@register
class Copy(Op[NoAttrs]):
    """Made by passes where a value must lie in a place of its own, for example as a state."""

    name = "copy"
    fusion = Fusion.OPAQUE
    movement = Movement.COPY

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's type."""
        (x,) = inputs
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        (x,) = inputs
        type_ = node.output.type
        if not isinstance(x, Tensor):
            x = target.table("x", x.data)
        return target.compute("element", type_.shape, type_.dtype, lambda *at: x[at])
