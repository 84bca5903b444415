"""reinterpret: the same stored values under another quantization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.errors import TypeMismatch
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Channels, Interval, Operand, Storage
from edgec.graph.types import Quant, TensorType, Types
from edgec.ops.intervals import of_elements
from edgec.ops.op import Op


@dataclass(frozen=True)
class ReinterpretAttrs:
    """output: the quantization that the stored values have from here on."""

    output: Quant


@register
class Reinterpret(Op[ReinterpretAttrs]):
    """A view: no code at all.

    Made by passes where a rescaling turns every stored value into itself: (x * 1/127.5 - 1) of
    bytes of a picture is another name for the same bytes.
    """

    name = "reinterpret"
    attrs_class = ReinterpretAttrs
    fusion = Fusion.VIEW
    storage = Storage.REINTERPRET

    def infer(self, attrs: ReinterpretAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape and dtype."""
        (x,) = inputs
        if x.quant is None or not x.quant.per_tensor or not attrs.output.per_tensor:
            raise TypeMismatch(f"reinterpret needs quantization per tensor, not {x}")
        return (TensorType(x.shape, x.dtype, attrs.output),)

    def channels(self, attrs: ReinterpretAttrs, inputs: Types, output: TensorType) -> Channels:
        """Each its own, unless parameters differ by channel."""
        return Channels.SAME if attrs.output.per_tensor else Channels.UNKNOWN

    def interval(
        self, attrs: ReinterpretAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The same integers."""
        return of_elements(operands[0], output)
