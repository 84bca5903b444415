"""signal_window, signal_scale_bits, signal_raise: an audio frame made ready for its spectrum.

signal_window        x * w >> shift, saturated to int16
signal_scale_bits    by how many bits the loudest sample can be raised
signal_raise         x << bits
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import TensorType
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import constant_of, tensor_of, tensors_of
from edgec.ops.op import Op, RawNode, from_tflite


@dataclass(frozen=True)
class SignalWindowAttrs:
    """shift: fraction bits of the window, 0 to 31."""

    shift: int


@register
class SignalWindow(Op[SignalWindowAttrs]):
    """x int16 [..., n], window int16 [n] -> int16 [..., n]."""

    name = "signal_window"
    attrs_class = SignalWindowAttrs
    constant_inputs = (1,)
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SignalWindowAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's own type."""
        x, window = inputs
        if x.dtype != "int16" or window.dtype != "int16" or x.shape[-1:] != window.shape:
            raise TypeMismatch(f"signal_window {window} over {x}")
        if not 0 <= attrs.shift <= 31:
            raise TypeMismatch(f"signal_window with a shift of {attrs.shift}")
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        x, window = tensor_of(inputs[0]), target.table("window", constant_of(inputs[1]).data)

        def element(*at: Any) -> Any:
            product = loops.int32(x[at]) * loops.int32(window[at[-1]]) >> node.attrs.shift
            return loops.int16(loops.clamp(product, -32768, 32767))

        return target.compute("element", node.output.type.shape, "int16", element)


@register
class SignalScaleBits(Op[NoAttrs]):
    """x int16 [n] -> int32 []: how far all samples can be shifted left, 0 for silence."""

    name = "signal_scale_bits"
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One number."""
        (x,) = inputs
        if x.dtype != "int16" or len(x.shape) != 1:
            raise TypeMismatch(f"signal_scale_bits of {x}")
        return (TensorType((), "int32"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The OR of all magnitudes has the bit length of the largest magnitude."""
        (x,) = tensors_of(inputs)

        def magnitude(k: Any) -> Any:
            value = loops.int32(x[k])
            return loops.maximum(value, -value)

        together = target.definition.reduce(
            "together",
            [("k", 0, x.shape[0])],
            init=lambda: 0,
            update=lambda acc, k: acc | magnitude(k),
            shape=(),
            dtype="int32",
        )

        def bits() -> Any:
            used = loops.intrinsic("bit_length_u32", loops.cast(together[()], "uint32"))
            return loops.select(used <= 0, 0, loops.maximum(15 - used, 0))

        return target.compute("bits", (), "int32", bits)


@register
class SignalRaise(Op[NoAttrs]):
    """x int16 [n], bits int32 [] -> int16 [n]: x << bits."""

    name = "signal_raise"
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The samples' own type."""
        x, bits = inputs
        if x.dtype != "int16" or bits != TensorType((), "int32"):
            raise TypeMismatch(f"signal_raise of {x} by {bits}")
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        x, bits = tensors_of(inputs)
        return target.compute(
            "element",
            node.output.type.shape,
            "int16",
            lambda *at: loops.int16(loops.int32(x[at]) << bits[()]),
        )


@from_tflite("CUSTOM:SignalWindow")
def import_window(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalWindow with a constant window."""
    if len(raw.inputs) != 2 or None in raw.inputs or not isinstance(raw.operand(1), Constant):
        raise ImportFailed("it needs samples and a constant window")
    attrs = SignalWindowAttrs(raw.attribute("shift", 0))
    return builder.op("signal_window", raw.operands(), attrs, name=raw.name)


@from_tflite("CUSTOM:SignalFftAutoScale")
def import_auto_scale(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite Micro's SignalFftAutoScale: the raised samples, and the bits."""
    (x,) = raw.operands(1)
    bits = builder.op("signal_scale_bits", [x], name=f"{raw.name}/bits", sources=(raw.name,))
    return builder.op("signal_raise", [x, bits], name=raw.name), bits
