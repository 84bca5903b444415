"""concat: tensors one after the other along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Channels, IntegerForm, Interval, Movement, Operand, StoredAs
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics.fixed_point import round_half_away
from edgec.ops.broadcast import operand_tensors
from edgec.ops.lookup import LookupAttrs
from edgec.ops.onnx_graph import OnnxGraph, written_axis
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.reshape import ReshapeAttrs


@dataclass(frozen=True)
class ConcatAttrs:
    """axis: not negative. output: quantization of the result; stored values do not change."""

    axis: int
    output: Quant | None = None


@register
class Concat(Op[ConcatAttrs]):
    """Moves elements of any dtype."""

    name = "concat"
    attrs_class = ConcatAttrs
    fusion = Fusion.OPAQUE  # several nests write one output
    movement = Movement.JOIN
    integer_form = IntegerForm.SHARED

    def infer(self, attrs: ConcatAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The extents along the axis added up; all others must be equal."""
        if not inputs or not 0 <= attrs.axis < len(inputs[0].shape):
            raise TypeMismatch(f"concat along axis {attrs.axis} of {len(inputs)} tensors")
        first = inputs[0]
        others = {(_without(x.shape, attrs.axis), x.dtype) for x in inputs}
        if len(others) > 1:
            listed = ", ".join(str(x) for x in inputs)
            raise TypeMismatch(f"concat along axis {attrs.axis} of {listed}")
        if attrs.output is not None and not attrs.output.per_tensor:
            raise TypeMismatch("the result of concat has one scale for the whole tensor")
        shape = list(first.shape)
        shape[attrs.axis] = sum(x.shape[attrs.axis] for x in inputs)
        return (TensorType(tuple(shape), first.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One copy after the other, each into its part of the output."""
        axis = node.attrs.axis
        out = target.target
        assert out is not None  # nothing is fused after it

        def copy(number: int, part: Tensor, offset: int) -> None:
            target.definition.compute(
                out,
                lambda *at: part[at],
                shape=part.shape,
                at=lambda *at: (*at[:axis], at[axis] + offset, *at[axis + 1 :]),
                name=f"part{number}",
            )

        offset = 0
        for number, part in enumerate(operand_tensors(target, inputs)):
            copy(number, part, offset)
            offset += part.shape[axis]
        return out

    def axis_after(
        self, attrs: ConcatAttrs, inputs: Types, position: int, axis: int, result: TensorType
    ) -> int | None:
        """The other axes stay."""
        return None if axis == attrs.axis else axis

    def attrs_for_permutation(self, attrs: ConcatAttrs, order: Sequence[int]) -> ConcatAttrs:
        """The axis by its new name."""
        return replace(attrs, axis=order[attrs.axis])

    def attrs_for_integers(
        self, attrs: ConcatAttrs, inputs: Types, result: StoredAs
    ) -> ConcatAttrs:
        """Return the attributes with the parameters of the result."""
        return replace(attrs, output=result.quant)

    def does_nothing(self, attrs: ConcatAttrs) -> bool:
        """A concat of one operand does nothing."""
        return True

    def channels(self, attrs: ConcatAttrs, inputs: Types, output: TensorType) -> Channels:
        """Channels are independent, unless the last axis is the joined one."""
        return Channels.JOINED if attrs.axis == len(output.shape) - 1 else Channels.SAME

    def interval(
        self, attrs: ConcatAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The parts' channels one after another, or what any part may hold in a channel."""
        parts = []
        for operand in operands:
            part = operand.ends(operand.type.shape[-1])
            if part is None:
                return None
            parts.append(part)
        lows, highs = zip(*parts, strict=True)
        if attrs.axis == len(output.shape) - 1:
            return np.concatenate(lows), np.concatenate(highs)
        return np.min(lows, axis=0), np.max(highs, axis=0)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Concat."""
        inputs, output, first = out.tensors_of(node)
        out.emit("Concat", inputs, output, axis=written_axis(node.attrs.axis, first))


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


@from_tflite("CONCATENATION")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite CONCATENATION: moves stored values unchanged, as TFLite Micro does."""
    declared = raw.output_types[0]
    if None in raw.inputs or declared is None:
        raise ImportFailed("an input is absent")
    if raw.attribute("fused_activation", "NONE") != "NONE":
        raise ImportFailed("a fused activation is not supported")
    operands = raw.operands()
    if raw.unsigned:
        operands = tuple(
            _rescaled(builder, raw, x, declared, number) for number, x in enumerate(operands)
        )
    scales = {x.type.quant for x in operands}
    if declared.dtype == "int8" and scales != {declared.quant}:
        raise ImportFailed("inputs and output are quantized differently")
    axis = raw.attribute("axis") % len(declared.shape)
    return builder.op("concat", operands, ConcatAttrs(axis, declared.quant), name=raw.name)


def _rescaled(
    builder: GraphBuilder, raw: RawNode, x: Value, declared: TensorType, number: int
) -> Value:
    """An operand of uint8 in the output's scale. Source: TFLite's ConcatenationWithScaling."""
    if x.type.quant == declared.quant:
        return x
    single, (scale, zero), (output, zero_after) = (
        np.float32, x.type.scalar_quant(), declared.scalar_quant()
    )  # fmt: skip
    factor = single(scale) * (single(1) / single(output))
    stored = np.arange(256).astype(single) * factor + single(-zero - 128) * factor
    results = np.clip(round_half_away(stored.astype(np.float64)) + zero_after, -128, 127)
    attrs = LookupAttrs(tuple(results.tolist()), declared.quant)
    return builder.op("lookup", [x], attrs, name=f"{raw.name}/{number}", sources=(raw.name,))


@from_tflite("PACK")
def import_pack(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite PACK: add an axis of extent 1 to each input and join them along it."""
    declared = raw.output_types[0]
    if None in raw.inputs or declared is None:
        raise ImportFailed("an input is absent")
    axis = raw.attribute("axis") % len(declared.shape)
    shape = (*declared.shape[:axis], 1, *declared.shape[axis + 1 :])
    parts = [
        builder.op("reshape", [x], ReshapeAttrs(shape), name=f"{raw.name}/{number}",
                   sources=(raw.name,))
        for number, x in enumerate(raw.operands())
    ]  # fmt: skip
    return builder.op("concat", parts, ConcatAttrs(axis, declared.quant), name=raw.name)


@from_onnx("Concat", since=4)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Concat; inputs of extent 0 along the axis and empty constants are dropped."""
    inputs = [x for x in raw.operands() if x.type.elements] or [raw.operand(0)]
    axis = int(raw.attribute("axis", 0)) % len(inputs[0].type.shape)
    return builder.op("concat", inputs, ConcatAttrs(axis, inputs[0].type.quant), name=raw.name)
