"""signal_noise, signal_denoise, signal_pcan, signal_log: loudness relative to the noise.

signal_noise      the noise of each channel follows its loudness slowly: a state
signal_denoise    loudness without the noise, but at least a small part of it
signal_pcan       automatic gain: louder noise, smaller gain (per-channel amplitude normalization)
signal_log        scaled natural logarithm
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, TensorType
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import constant_of, tensors_of
from edgec.ops.op import Op, RawNode, from_tflite

#: Fraction bits of a signal-to-noise ratio, and of its remainder.
PCAN_SNR_BITS, PCAN_OUTPUT_BITS = 12, 6
#: Logarithms: fraction bits, segments of the table, and ln(2) with those bits.
LOG_BITS, LOG_SEGMENT_BITS, LN2 = 16, 7, 45426


def _check(name: str, *inputs: TensorType) -> None:
    first = inputs[0]
    if any(x != TensorType(first.shape, "uint32") for x in inputs) or len(first.shape) != 1:
        raise TypeMismatch(f"{name} of {', '.join(map(str, inputs))}")


@dataclass(frozen=True)
class SignalNoiseAttrs:
    """smoothing: the present's share of the noise estimate, of even and odd channels; rest: the
    past's. signal_bits: shift of the loudness. bits: fraction bits of the other numbers. clamp: the
    noise is never above the loudness.
    """

    smoothing: tuple[int, int]
    rest: tuple[int, int]
    signal_bits: int
    bits: int
    clamp: bool = False


@register
class SignalNoise(Op[SignalNoiseAttrs]):
    """x uint32 [n], noise uint32 [n] -> the next noise."""

    name = "signal_noise"
    attrs_class = SignalNoiseAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SignalNoiseAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The noise's own type."""
        _check(self.name, *inputs)
        if not (0 <= attrs.signal_bits < 32 and 0 <= attrs.bits < 32):
            raise TypeMismatch(f"signal_noise with {attrs.signal_bits} and {attrs.bits} bits")
        if not all(0 <= part < 1 << 31 for part in (*attrs.smoothing, *attrs.rest)):
            raise TypeMismatch("signal_noise with parts that are negative or too large")
        return inputs[1:]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element, also where the old noise is."""
        attrs: SignalNoiseAttrs = node.attrs
        x, noise = tensors_of(inputs, target)
        now = target.table("now", _alternating(attrs.smoothing, x.shape[0]))
        past = target.table("past", _alternating(attrs.rest, x.shape[0]))

        def wide(value: Any) -> Any:
            return loops.cast(value, "uint64")

        def element(c: Any) -> Any:
            raised = x[c] << attrs.signal_bits
            total = wide(raised) * wide(now[c]) + wide(noise[c]) * wide(past[c])
            found = loops.cast(total >> attrs.bits, "uint32")
            return loops.minimum(found, raised) if attrs.clamp else found

        return target.compute("element", node.output.type.shape, "uint32", element)


def _alternating(parts: tuple[int, int], count: int) -> Array:
    return np.asarray([parts[c % 2] for c in range(count)], np.uint32)


@dataclass(frozen=True)
class SignalDenoiseAttrs:
    """remaining: the least part of the loudness that is left. signal_bits, bits: as the noise's."""

    remaining: int
    signal_bits: int
    bits: int


@register
class SignalDenoise(Op[SignalDenoiseAttrs]):
    """x uint32 [n], noise uint32 [n] -> uint32 [n]."""

    name = "signal_denoise"
    attrs_class = SignalDenoiseAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SignalDenoiseAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The loudness' own type."""
        _check(self.name, *inputs)
        if not (0 <= attrs.signal_bits < 32 and 0 <= attrs.bits < 32 and attrs.remaining >= 0):
            raise TypeMismatch(f"signal_denoise with {attrs}")
        return inputs[:1]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        attrs: SignalDenoiseAttrs = node.attrs
        x, noise = tensors_of(inputs, target)

        def element(c: Any) -> Any:
            raised = x[c] << attrs.signal_bits
            difference = (raised - loops.minimum(noise[c], raised)) >> attrs.signal_bits
            least = loops.cast(x[c], "uint64") * attrs.remaining >> attrs.bits
            return loops.maximum(difference, loops.cast(least, "uint32"))

        return target.compute("element", node.output.type.shape, "uint32", element)


@dataclass(frozen=True)
class SignalPcanAttrs:
    """shift: of the product of loudness and gain."""

    shift: int


@register
class SignalPcan(Op[SignalPcanAttrs]):
    """x uint32 [n], noise uint32 [n], gains int16 [125] -> uint32 [n].

    gains: of noise 0, 1 and 2, then for each number of bits of the noise a parabola's three
    numbers and a gap.
    """

    name = "signal_pcan"
    attrs_class = SignalPcanAttrs
    constant_inputs = (2,)
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SignalPcanAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The loudness' own type."""
        x, noise, gains = inputs
        _check(self.name, x, noise)
        if gains.dtype != "int16" or len(gains.shape) != 1 or gains.shape[0] < 4 * 32 - 6 + 3:
            raise TypeMismatch(f"signal_pcan with gains {gains}")
        if not 0 <= attrs.shift < 64:
            raise TypeMismatch(f"signal_pcan with a shift of {attrs.shift}")
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The gains first, then the ratios."""
        attrs: SignalPcanAttrs = node.attrs
        x, noise = tensors_of(inputs[:2])
        lut = target.table("gains", constant_of(inputs[2]).data)

        def gain(c: Any) -> Any:
            value = noise[c]
            bits = loops.maximum(loops.intrinsic("bit_length_u32", value), 2)
            base = bits * 4 - 6
            up = loops.cast(loops.maximum(11 - bits, 0), "uint32")
            down = loops.cast(loops.maximum(bits - 11, 0), "uint32")
            fraction = loops.int32((value << up >> down) & 0x3FF)
            slope = (loops.int32(lut[base + 2]) * fraction >> 5) + loops.int32(lut[base + 1]) * 32
            curve = (slope * fraction + (1 << 14) >> 15) + loops.int32(lut[base])
            few = loops.int32(lut[loops.int32(loops.minimum(value, 2))])
            return loops.select(value <= 2, few, loops.int32(loops.int16(curve)))

        gained = target.definition.compute("gained", gain, shape=x.shape, dtype="int32")

        def ratio(c: Any) -> Any:
            factor = loops.cast(loops.cast(gained[c], "uint32"), "uint64")
            return loops.cast(loops.cast(x[c], "uint64") * factor >> attrs.shift, "uint32")

        ratios = target.definition.compute("ratios", ratio, shape=x.shape, dtype="uint32")

        def element(c: Any) -> Any:
            value = ratios[c]
            small = value * value >> 2 + 2 * PCAN_SNR_BITS - PCAN_OUTPUT_BITS
            large = (value >> PCAN_SNR_BITS - PCAN_OUTPUT_BITS) - (1 << PCAN_OUTPUT_BITS)
            return loops.select(value < 2 << PCAN_SNR_BITS, small, large)

        return target.compute("element", node.output.type.shape, "uint32", element)


@dataclass(frozen=True)
class SignalLogAttrs:
    """scale: of the logarithm. bits: shift of the input before it."""

    scale: int
    bits: int


def log_table() -> Array:
    """uint16[129]: log2(1 + i / 128) - i / 128 with LOG_BITS fraction bits."""
    part = np.arange((1 << LOG_SEGMENT_BITS) + 1) / (1 << LOG_SEGMENT_BITS)
    return np.rint((1 << LOG_BITS) * (np.log2(1 + part) - part)).astype(np.uint16)


@register
class SignalLog(Op[SignalLogAttrs]):
    """x uint32 [n] -> int16 [n]: scale * ln(x << bits), 0 for 0 and 1, limited."""

    name = "signal_log"
    attrs_class = SignalLogAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SignalLogAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape."""
        (x,) = inputs
        _check(self.name, x)
        if not (0 <= attrs.bits < 32 and 0 <= attrs.scale < 1 << 10):
            raise TypeMismatch(f"signal_log with scale {attrs.scale} and {attrs.bits} bits")
        return (TensorType(x.shape, "int16"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element; the table has one entry for each segment of an octave."""
        attrs: SignalLogAttrs = node.attrs
        (x,) = tensors_of(inputs)
        table = target.table("bends", log_table())

        def element(c: Any) -> Any:
            raised = x[c] << attrs.bits
            safe = loops.maximum(raised, 1)
            whole = loops.intrinsic("bit_length_u32", safe) - 1
            one = loops.cast(loops.cast(whole * 0 + 1, "uint32") << loops.cast(whole, "uint32"),
                             "uint32")  # fmt: skip
            up = loops.cast(loops.maximum(LOG_BITS - whole, 0), "uint32")
            down = loops.cast(loops.maximum(whole - LOG_BITS, 0), "uint32")
            part = loops.int32((safe - one) << up >> down)
            segment = part >> (LOG_BITS - LOG_SEGMENT_BITS)
            behind = part & ((1 << (LOG_BITS - LOG_SEGMENT_BITS)) - 1)
            low, high = loops.int32(table[segment]), loops.int32(table[segment + 1])
            bend = low + ((high - low) * behind >> LOG_BITS)
            binary = loops.int64((whole << LOG_BITS) + part + bend)
            half = 1 << (LOG_BITS - 1)
            natural = loops.cast((binary * LN2 + half) >> LOG_BITS, "uint32")
            scaled = loops.int32((natural * attrs.scale + half) >> LOG_BITS)
            limited = loops.minimum(scaled, 32767)
            return loops.int16(loops.select(raised <= 1, 0, limited))

        return target.compute("element", node.output.type.shape, "int16", element)


@from_tflite("CUSTOM:SignalFilterBankSpectralSubtraction")
def import_subtraction(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite Micro's spectral subtraction: its noise estimate is a state, and an output."""
    if len(raw.inputs) != 1 or raw.inputs[0] is None:
        raise ImportFailed("an input is absent")
    (x,) = raw.operands(1)
    number = raw.attribute
    signal_bits, bits = number("smoothing_bits", 0), number("spectral_subtraction_bits", 0)
    noise_attrs = SignalNoiseAttrs(
        (number("smoothing", 0), number("alternate_smoothing", 0)),
        (number("one_minus_smoothing", 0), number("alternate_one_minus_smoothing", 0)),
        signal_bits, bits, bool(number("clamping", False)),
    )  # fmt: skip
    if number("num_channels", x.type.elements) != x.type.elements:
        raise ImportFailed(f"{number('num_channels')} channels of {x.type.elements}")
    before = builder.state(f"{raw.name}.noise", x.type, np.zeros(x.type.shape, np.uint32))
    noise = builder.op("signal_noise", [x, before], noise_attrs, name=f"{raw.name}/noise",
                       sources=(raw.name,))  # fmt: skip
    builder.become(before, noise)
    attrs = SignalDenoiseAttrs(number("min_signal_remaining", 0), signal_bits, bits)
    return builder.op("signal_denoise", [x, noise], attrs, name=raw.name), noise


@from_tflite("CUSTOM:SignalPCAN")
def import_pcan(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalPCAN with constant gains."""
    if len(raw.inputs) != 3 or None in raw.inputs or not isinstance(raw.operand(2), Constant):
        raise ImportFailed("it needs loudness, noise and constant gains")
    attrs = SignalPcanAttrs(raw.attribute("snr_shift", 0))
    return builder.op("signal_pcan", raw.operands(), attrs, name=raw.name)


@from_tflite("CUSTOM:SignalFilterBankLog")
def import_log(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalFilterBankLog."""
    if len(raw.inputs) != 1 or raw.inputs[0] is None:
        raise ImportFailed("an input is absent")
    attrs = SignalLogAttrs(
        raw.attribute("output_scale", 0), raw.attribute("input_correction_bits", 0)
    )
    return builder.op("signal_log", raw.operands(), attrs, name=raw.name)
