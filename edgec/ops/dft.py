"""dft: discrete Fourier transforms of any length with a table of one turn; ONNX's STFT.

A transform of a prime length is one sum for each result. One of length p * q * … has a pass for
each factor: Stockham's form of the fast Fourier transform, whose passes leave all numbers in
order. Pairs of real and imaginary parts lie along the last axis, which has extent 1 where all
numbers are real.
Source: Van Loan, "Computational Frameworks for the Fast Fourier Transform", 1.7.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import index, minimum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.mul import MulAttrs
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.row import FLOATS
from edgec.ops.scattered import AxisAttrs

#: Longest transforms: places in a turn, k * n, are computed in 32 bits.
MOST = 1 << 15
PARTS = ("real", "imaginary")
#: A part of a number, by row, number and part.
Read = Callable[[Any, Any, int], Any]


def factors(length: int) -> tuple[int, ...]:
    """The radices of a transform's passes: 4 (as cheap as two passes of 2), then primes."""
    found, factor = [], 4
    while length > 1:
        if length % factor == 0:
            found.append(factor)
            length //= factor
        else:
            factor = {4: 2, 2: 3}.get(factor, factor + 2)
    return tuple(found)


@dataclass(frozen=True)
class DftAttrs:
    """axis: that is transformed. length: numbers that count, zeros beyond the input. count: how
    many of the results are kept. inverse: turns the other way, and divides by the length; an
    input that has half of the numbers and one more is continued by their conjugates, and parts:
    1 of the results are kept, the real ones, else 2.
    """

    axis: int
    length: int
    count: int
    inverse: bool = False
    parts: int = 2


@register
class Dft(Op[DftAttrs]):
    """x [..., n, ..., 1 or 2] of floats -> [..., count, ..., parts]."""

    name = "dft"
    attrs_class = DftAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    onnx_since = 20

    def infer(self, attrs: DftAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The count in place of the axis."""
        (x,) = inputs
        if x.dtype not in FLOATS or not x.shape or x.shape[-1] not in (1, 2):
            raise TypeMismatch(f"dft of {x}: it needs floats, as numbers or pairs of parts")
        if not 0 <= attrs.axis < len(x.shape) - 1 or attrs.parts not in (1, 2):
            raise TypeMismatch(f"dft along axis {attrs.axis} of {x} to {attrs.parts} parts")
        if not 1 <= attrs.count <= attrs.length <= MOST:
            raise TypeMismatch(f"dft of {attrs.length} numbers, {attrs.count} of them kept")
        shape = (*x.shape[: attrs.axis], attrs.count, *x.shape[attrs.axis + 1 : -1], attrs.parts)
        return (x.with_shape(shape),)

    def macs(self, attrs: DftAttrs, inputs: Types) -> int:
        """Each result of a pass multiplies both parts of `factor` numbers."""
        (x,) = inputs
        passes = factors(attrs.length)
        if len(passes) > 1:
            rows = x.elements // (x.shape[attrs.axis] * x.shape[-1])
            return 4 * rows * attrs.length * (sum(passes) + len(passes) - 1)
        return self.infer(attrs, x)[0].elements * x.shape[attrs.axis] * x.shape[-1]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One sum for each part of a result, from the first number on; or pass by pass."""
        attrs: DftAttrs = node.attrs
        (x,) = operand_tensors(target, inputs)
        if len(factors(attrs.length)) > 1:
            return _Passes(target, attrs, x).lower(node.output.type.shape)
        axis, length = attrs.axis, attrs.length
        cos, sin = _turn(target, attrs, x.dtype)
        is_half = attrs.inverse and attrs.parts == 1 and x.shape[axis] == length // 2 + 1

        def update(acc: Any, *at: Any) -> Any:
            outer, part, n = at[:-2], at[-2], at[-1]
            place = index(outer[axis]) * index(n)
            step = place - place / length * length

            def read(which: int) -> Any:
                return x[(*outer[:axis], n, *outer[axis + 1 :], which)]

            real = read(0) * cos[step]
            if x.shape[-1] == 2:
                real = real - read(1) * sin[step]
            if attrs.parts == 1:
                # All but the first and, of an even length, the last stand for two.
                alone = index(n).equals(0) | index(n + n).equals(length)
                return acc + (select(alone, real, real * 2.0) if is_half else real)
            imaginary = read(0) * sin[step]
            if x.shape[-1] == 2:
                imaginary = imaginary + read(1) * cos[step]
            return acc + select(index(part).equals(0), real, imaginary)

        steps = [("n", 0, min(x.shape[axis], length))]
        shape = node.output.type.shape
        if not attrs.inverse:
            return target.reduce("acc", shape, x.dtype, steps, init=lambda *at: 0.0, update=update)
        total = target.definition.reduce(
            target.unique("total"), steps, init=lambda *at: 0.0, update=update, shape=shape,
            dtype=x.dtype,
        )  # fmt: skip
        return target.compute("element", shape, x.dtype, lambda *at: total[at] / float(length))

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """DFT, whose axis is an input since opset 20."""
        attrs: DftAttrs = node.attrs
        half = attrs.length // 2 + 1
        if attrs.parts == 1 or attrs.count not in (attrs.length, half):
            raise ImportFailed(f"{node.name}: ONNX has no such transform")
        output = out.define_own(node.output)
        numbers = [
            out.initializer(f"{output}.{what}", np.asarray(number, np.int64))
            for what, number in (("length", attrs.length), ("axis", attrs.axis))
        ]
        out.emit("DFT", [out.own(node.inputs[0]), *numbers], output, inverse=int(attrs.inverse),
                 onesided=int(attrs.count != attrs.length))  # fmt: skip


class _Passes:
    """A transform of a composite length, row by row."""

    def __init__(self, target: Lowering, attrs: DftAttrs, x: Tensor) -> None:
        self.target, self.attrs, self.x = target, attrs, x
        self.length = attrs.length
        self.cos, self.sin = _turn(target, attrs, x.dtype)
        extent = x.shape[attrs.axis]
        self.is_half = attrs.inverse and attrs.parts == 1 and extent == attrs.length // 2 + 1

    def lower(self, shape: Sequence[int]) -> Tensor:
        """All passes of a row, then the next row: two arrays of one row are all they need."""
        define, passes = self.target.definition, factors(self.length)
        rows = math.prod(shape) // (self.attrs.count * self.attrs.parts)
        sums, turned = (
            [define.temporary(f"{name}_{part}", (self.length,), self.x.dtype) for part in PARTS]
            for name in ("sum", "turned")
        )
        read: Read = self._given
        done = 1
        with define.steps("rows", rows):
            for factor in passes[:-1]:
                for part, tensor in enumerate(sums):
                    define.reduce(tensor, name=f"pass{done}_{PARTS[part]}",
                                  **self._sums(read, part, factor, done))  # fmt: skip
                self._turn(sums, turned, factor, done)
                read = lambda row, n, part: turned[part][n]  # noqa: E731
                done *= factor
            for part in range(self.attrs.parts):
                self._last(read, part, passes[-1], done)
        assert self.target.target is not None  # nothing is fused after it
        return self.target.target

    def _turn(self, sums: list[Tensor], turned: list[Tensor], factor: int, done: int) -> None:
        """The numbers of a pass, each turned by its place in it."""
        size, (real, imaginary) = self.length // (done * factor), sums

        def by(q: Any) -> tuple[Any, Any]:
            step = index(q // (size * done)) * index(q % size * done)
            return self.cos[step], self.sin[step]

        def real_part(row: Any, q: Any) -> Any:
            cos, sin = by(q)
            return real[q] * cos - imaginary[q] * sin

        def imaginary_part(row: Any, q: Any) -> Any:
            cos, sin = by(q)
            return real[q] * sin + imaginary[q] * cos

        for part, body in enumerate((real_part, imaginary_part)):
            self.target.definition.compute(turned[part], body, name=f"turn{done}_{PARTS[part]}")

    def _place(self, row: Any, n: Any, part: int) -> tuple[Any, ...]:
        """Indices of number n of a row, in the input or the output."""
        found: list[Any] = []
        for axis in reversed(range(len(self.x.shape) - 1)):
            if axis != self.attrs.axis:
                found.insert(0, row % self.x.shape[axis])
                row = row // self.x.shape[axis]
        found.insert(self.attrs.axis, n)
        return (*found, part)

    def _given(self, row: Any, n: Any, part: int) -> Any:
        """A part of a number of the input: half of them may be conjugates, or zeros beyond it."""
        extent = self.x.shape[self.attrs.axis]
        if part >= self.x.shape[-1]:
            return 0.0
        if self.is_half:
            value = self.x[self._place(row, minimum(n, self.length - n), part)]
            return value if part == 0 else select(index(n + n) > self.length, -value, value)
        if extent >= self.length:
            return self.x[self._place(row, n, part)]
        value = self.x[self._place(row, minimum(n, extent - 1), part)]
        return select(index(n) < extent, value, 0.0)

    def _sums(self, read: Read, part: int, factor: int, done: int) -> dict[str, Any]:
        """A part of each sum of a pass, `done` being the product of the factors before."""
        size = self.length // (done * factor)
        is_real = read == self._given and self.x.shape[-1] == 1

        def update(acc: Any, row: Any, q: Any, j: Any) -> Any:
            source = (q // size % done * factor + j) * size + q % size
            turn = index(q // (size * done)) * index(j)
            step = (turn - turn / factor * factor) * (self.length // factor)
            real = read(row, source, 0)
            if is_real:
                return acc + real * (self.sin if part else self.cos)[step]
            imaginary = read(row, source, 1)
            if part:
                return acc + (real * self.sin[step] + imaginary * self.cos[step])
            return acc + (real * self.cos[step] - imaginary * self.sin[step])

        return {"axes": [("j", 0, factor)], "init": lambda row, q: 0.0, "update": update}

    def _last(self, read: Read, part: int, factor: int, done: int) -> None:
        """The last pass, which keeps the first `count` numbers.

        For real input, the first result is real, and the middle one too if the length is even.
        """
        define, count = self.target.definition, self.attrs.count
        total = define.reduce(f"total_{PARTS[part]}", shape=(count,), dtype=self.x.dtype,
                              **self._sums(read, part, factor, done))  # fmt: skip
        out = self.target.target
        assert out is not None
        scale = float(self.length)

        def result(row: Any, q: Any) -> Any:
            value = total[q] / scale if self.attrs.inverse else total[q]
            if part == 0 or self.x.shape[-1] == 2:
                return value
            return select(index(q).equals(0) | index(q + q).equals(self.length), 0.0, value)

        define.compute(out, result, shape=(count,), at=lambda row, q: self._place(row, q, part),
                       name=f"out_{PARTS[part]}")  # fmt: skip


def _turn(target: Lowering, attrs: DftAttrs, dtype: str) -> tuple[Tensor, Tensor]:
    """Tables of cosines and sines of the parts of a turn."""
    parts = np.arange(attrs.length) * (2 * np.pi / attrs.length) * (1 if attrs.inverse else -1)
    return (
        target.table("cos", np.cos(parts).astype(dtype)),
        target.table("sin", np.sin(parts).astype(dtype)),
    )


def _number(raw: RawNode, position: int, what: str) -> int | None:
    if raw.optional(position) is None:
        return None
    return int(raw.constant(position, what).data.reshape(-1)[0])


@from_onnx("DFT", since=17)
def import_dft(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX DFT; the axis is an attribute, 1, before opset 20, and an input, -2, since."""
    x = raw.operand(0)
    rank = len(x.type.shape)
    axis = int(raw.attribute("axis", 1))
    if raw.opset >= 20:
        given = _number(raw, 2, "the axis")
        axis = -2 if given is None else given
    if axis not in (*range(rank - 1), *range(-rank, -1)):
        raise ImportFailed(f"axis {axis} of {x.type}")
    return builder.op("dft", [x], _attributes(raw, axis % rank), name=raw.name)


def _attributes(raw: RawNode, axis: int) -> DftAttrs:
    inverse, onesided = (bool(raw.attribute(key, 0)) for key in ("inverse", "onesided"))
    extent = raw.operand(0).type.shape[axis]
    default = 2 * (extent - 1) if inverse and onesided else extent
    length = _number(raw, 1, "the length") or default
    count = length // 2 + 1 if onesided and not inverse else length
    return DftAttrs(axis, length, count, inverse, 1 if inverse and onesided else 2)


#: Elements of all frames, each with its index in a table.
MOST_ELEMENTS = 1 << 24


@from_onnx("STFT", since=17)
def import_stft(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX STFT: frames of the signal, by the window, each transformed."""
    signal, window = raw.operand(0), raw.optional(2)
    step, length = _number(raw, 1, "the step"), _number(raw, 3, "the frame's length")
    if length is None and window is not None:
        length = window.type.elements
    frames = _frames(builder, raw, signal, step or 0, length or 0)
    length = frames.type.shape[2]
    if window is not None:
        shaped = builder.op("reshape", [window], ReshapeAttrs((length, 1)),
                            name=f"{raw.name}/window", sources=())  # fmt: skip
        name, sources = f"{raw.name}/windowed", (raw.name,)
        frames = builder.op("mul", [frames, shaped], MulAttrs(), name=name, sources=sources)
    count = length // 2 + 1 if raw.attribute("onesided", 1) else length
    return builder.op("dft", [frames], DftAttrs(2, length, count), name=raw.name)


def _frames(builder: GraphBuilder, raw: RawNode, signal: Value, step: int, length: int) -> Value:
    """[N, frames, length, parts] of a signal [N, samples, parts]."""
    if not step or not length or len(signal.type.shape) != 3 or signal.type.shape[1] < length:
        raise ImportFailed(f"frames of {length} every {step} of {signal.type}")
    count = (signal.type.shape[1] - length) // step + 1
    if count * length > MOST_ELEMENTS:
        raise ImportFailed(f"{count} frames of {length}: at most {MOST_ELEMENTS:,} elements")
    indices = np.arange(count)[:, None] * step + np.arange(length)
    table = builder.constant(f"{raw.name}.places", indices.astype(np.int32))
    name, sources = f"{raw.name}/frames", (raw.name,)
    return builder.op("gather", [signal, table], AxisAttrs(1), name=name, sources=sources)
