"""Movements: each element of the result is one of the data, at indices that follow from its own.

A movement is its shape and its map of indices; all of them are copied in the same loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import AttrsT, Fusion
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import operand_tensors
from edgec.ops.op import Op


class Moved(Op[AttrsT]):
    """A movement of the first input, by attributes and by the other inputs."""

    fusion = Fusion.INJECTIVE

    def shape(self, attrs: AttrsT, x: TensorType, *others: TensorType) -> tuple[int, ...]:
        """The shape of the result. Raises TypeMismatch if the inputs do not fit."""
        raise NotImplementedError

    def source(self, attrs: AttrsT, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """The indices in x of the element that the result has at these."""
        raise NotImplementedError

    def infer(self, attrs: AttrsT, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Moves elements of any dtype; quantization per tensor stays."""
        shape = self.shape(attrs, *inputs)
        if inputs[0].quant is not None and not inputs[0].quant.per_tensor:
            raise TypeMismatch(f"{self.name} of a tensor that is quantized along an axis")
        return (inputs[0].with_shape(shape),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A copy, element by element."""
        x, *others = operand_tensors(target, inputs)
        output = node.output.type
        return target.compute(
            "element", output.shape, output.dtype,
            lambda *at: x[self.source(node.attrs, at, x, *others)],
        )  # fmt: skip
