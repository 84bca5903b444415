"""signal_energy, signal_filter_bank, signal_sqrt: from a spectrum to the loudness of channels.

signal_energy         real**2 + imaginary**2 of some frequencies, 0 of the others
signal_filter_bank    weighted sums of neighbouring frequencies, 64 bits wide
signal_sqrt           the rounded square root, shifted right
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import TensorType, Types
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import constant_of, operand_tensors, tensor_of, tensors_of
from edgec.ops.op import Op, RawNode, from_tflite


@dataclass(frozen=True)
class SignalEnergyAttrs:
    """start, stop: the frequencies that are computed; TFLite Micro leaves others undefined."""

    start: int
    stop: int


@register
class SignalEnergy(Op[SignalEnergyAttrs]):
    """x int16 [2n], real and imaginary parts -> uint32 [n]."""

    name = "signal_energy"
    attrs_class = SignalEnergyAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SignalEnergyAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One number for each frequency."""
        (x,) = inputs
        count = x.elements // 2
        if x.dtype != "int16" or len(x.shape) != 1 or x.elements % 2:
            raise TypeMismatch(f"signal_energy of {x}")
        if not 0 <= attrs.start < attrs.stop <= count:
            raise TypeMismatch(f"signal_energy of {attrs.start}..{attrs.stop} of {count}")
        return (TensorType((count,), "uint32"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Zeros on both sides of the sums."""
        (x,) = tensors_of(inputs)
        out = target.target
        assert out is not None  # nothing is fused after it
        attrs: SignalEnergyAttrs = node.attrs

        def part(name: str, start: int, stop: int, element: Any) -> None:
            if start < stop:
                target.definition.compute(
                    out, element, shape=(stop - start,), at=lambda k: (k + start,), name=name
                )

        def square(at: Any) -> Any:
            wide = loops.int32(x[at])
            return loops.cast(wide * wide, "uint32")

        def energy(k: Any) -> Any:
            return square(2 * (k + attrs.start)) + square(2 * (k + attrs.start) + 1)

        part("below", 0, attrs.start, lambda k: 0)
        part("energy", attrs.start, attrs.stop, energy)
        part("above", attrs.stop, out.shape[0], lambda k: 0)
        return out


@register
class SignalFilterBank(Op[NoAttrs]):
    """x uint32 [n], starts int16 [C], weights int16 [C, W] -> uint64 [C].

    Channel c is the sum over w of weights[c, w] * x[starts[c] + w], modulo 2**64.
    """

    name = "signal_filter_bank"
    constant_inputs = (1, 2)
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One sum for each channel."""
        x, starts, weights = inputs
        if (x.dtype, starts.dtype, weights.dtype) != ("uint32", "int16", "int16"):
            raise TypeMismatch(f"signal_filter_bank of {x}, {starts} and {weights}")
        if len(x.shape) != 1 or len(weights.shape) != 2 or starts.shape != weights.shape[:1]:
            raise TypeMismatch(f"signal_filter_bank of {x}, {starts} and {weights}")
        return (TensorType(starts.shape, "uint64"),)

    def macs(self, attrs: NoAttrs, inputs: Types) -> int:
        """One for each weight."""
        return inputs[2].elements

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One sum at a time."""
        x = tensor_of(inputs[0])
        starts = target.table("starts", constant_of(inputs[1]).data)
        weights = target.table("w", constant_of(inputs[2]).data)
        return target.reduce(
            "acc",
            node.output.type.shape,
            "uint64",
            [("k", 0, constant_of(inputs[2]).data.shape[1])],
            init=lambda c: 0,
            update=lambda acc, c, k: (
                acc
                + loops.cast(x[loops.int32(starts[c]) + loops.index(k)], "uint64")
                * loops.cast(loops.int64(weights[c, k]), "uint64")
            ),
        )


@register
class SignalSqrt(Op[NoAttrs]):
    """x uint64 [n], bits int32 [] -> uint32 [n]: the rounded square root >> bits."""

    name = "signal_sqrt"
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape."""
        x, bits = inputs
        if x.dtype != "uint64" or bits != TensorType((), "int32"):
            raise TypeMismatch(f"signal_sqrt of {x} by {bits}")
        return (TensorType(x.shape, "uint32"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        x, bits = operand_tensors(target, inputs)
        return target.compute(
            "element",
            node.output.type.shape,
            "uint32",
            lambda *at: (
                loops.intrinsic("rounded_sqrt_u64", x[at]) >> loops.cast(bits[()], "uint32")
            ),
        )


@from_tflite("CUSTOM:SignalEnergy")
def import_energy(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalEnergy."""
    if len(raw.inputs) != 1 or raw.inputs[0] is None:
        raise ImportFailed("an input is absent")
    attrs = SignalEnergyAttrs(raw.attribute("start_index", 0), raw.attribute("end_index", 0))
    result = builder.op("signal_energy", raw.operands(), attrs, name=raw.name)
    if (attrs.start, attrs.stop) != (0, result.type.shape[0]):
        builder.undefined.add(result)
    return result


@from_tflite("CUSTOM:SignalFilterBank")
def import_filter_bank(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalFilterBank: weights of a channel and unweights of the one before.

    Source: FilterbankAccumulateChannels. Its first channel only starts the sums of the second.
    """
    if len(raw.inputs) != 6 or raw.inputs[0] is None:
        raise ImportFailed("it needs energies and five constants")
    x, *others = raw.operands()
    constants = [c for c in others if isinstance(c, Constant) and c.type.dtype == "int16"]
    if len(constants) < len(others):
        raise ImportFailed("its weights and offsets are not int16 constants")
    weights, unweights, firsts, offsets, widths = (c.data.astype(np.int64) for c in constants)
    channels = raw.attribute("num_channels", 0)
    if not 0 < channels < min(len(firsts), len(offsets), len(widths)) + 1 or len(x.type.shape) != 1:
        raise ImportFailed(f"{channels} channels of {len(firsts) - 1}")
    dense = np.zeros((channels, x.type.elements), np.int64)
    for part in range(channels + 1):
        for step in range(int(widths[part])):
            frequency, offset = firsts[part] + step, offsets[part] + step
            if not (0 <= frequency < dense.shape[1] and 0 <= offset < len(weights)):
                raise ImportFailed(f"channel {part} reads outside of its energies or weights")
            if part > 0:
                dense[part - 1, frequency] += weights[offset]
            if part < channels:
                dense[part, frequency] += unweights[offset]
    if np.abs(dense).max() > 32767:
        raise ImportFailed("two weights of one frequency add up to more than 16 bits")
    used = [np.flatnonzero(row) if row.any() else np.zeros(1, np.int64) for row in dense]
    width = max(int(at[-1] - at[0]) + 1 for at in used)
    starts = np.asarray([min(int(at[0]), dense.shape[1] - width) for at in used], np.int64)
    packed = dense[np.arange(channels)[:, None], starts[:, None] + np.arange(width)]
    return builder.op(
        "signal_filter_bank",
        [
            x,
            builder.constant(f"{raw.name}.starts", starts.astype(np.int16)),
            builder.constant(f"{raw.name}.weights", packed.astype(np.int16)),
        ],
        name=raw.name,
    )


@from_tflite("CUSTOM:SignalFilterBankSquareRoot")
def import_sqrt(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalFilterBankSquareRoot."""
    if len(raw.inputs) != 2 or None in raw.inputs:
        raise ImportFailed("an input is absent")
    return builder.op("signal_sqrt", raw.operands(), name=raw.name)
