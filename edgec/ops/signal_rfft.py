"""signal_rfft: the spectrum of real int16 samples, in fixed point.

The arithmetic is that of the kiss_fft library as TFLite Micro builds it: every butterfly first
divides its inputs by its radix, products are rounded to 15 fraction bits, sums wrap. A transform
of L real samples is one of L / 2 complex ones with radices 4, and 2 where 4 does not divide, and
a last pass that takes the even and odd samples apart.
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
from edgec.graph.types import Array, TensorType
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics.fixed_point import IntArray
from edgec.ops.broadcast import tensors_of
from edgec.ops.dft import DftAttrs
from edgec.ops.op import Op, RawNode, from_tflite
from edgec.ops.parts import Parts

FRACTION_BITS = 15
LARGEST = (1 << FRACTION_BITS) - 1
LENGTHS = tuple(1 << bits for bits in range(6, 12))


@dataclass(frozen=True)
class SignalRfftAttrs:
    """length: samples of the transform, a power of two; missing samples are 0."""

    length: int


def factors(count: int) -> tuple[int, ...]:
    """Radices of a complex transform, the outermost first."""
    found = []
    while count > 1:
        radix = 4 if count % 4 == 0 else 2
        found.append(radix)
        count //= radix
    return tuple(found)


def _reversed_digits(count: int) -> Array:
    """Which input each place of the innermost butterflies reads."""
    order = np.zeros(count, np.int64)
    for place in range(count):
        rest, size, weight = place, count, 1
        for radix in factors(count):
            size //= radix
            digit, rest = divmod(rest, size)
            order[place] += digit * weight
            weight *= radix
    return order


def rotations(angles: Array) -> Array:
    """int16 [n, 2]: cosine and sine with 15 fraction bits, rounded half up."""
    pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return np.floor(0.5 + LARGEST * pairs).astype(np.int16)


def butterfly_rotations(count: int, radix: int, size: int) -> Array:
    """int16 [radix - 1, size, 2] of a pass with `size` inputs apart, for parts 1, 2, ..."""
    parts, k = np.arange(1, radix)[:, None], np.arange(size)[None, :]
    stride = count // (radix * size)
    return rotations(-2 * math.pi * (parts * k * stride) / count)


def split_rotations(count: int) -> Array:
    """int16 [count / 2, 2] of the last pass, for k = 1 ... count / 2."""
    k = np.arange(1, count // 2 + 1)
    return rotations(-math.pi * (k / count + 0.5))


def _rounded(x: Any) -> Any:
    return (x + (1 << (FRACTION_BITS - 1))) >> FRACTION_BITS


def _wrap16(x: IntArray) -> IntArray:
    return x.astype(np.int16).astype(np.int64)


def _divided(x: Any, radix: int) -> Any:
    return _rounded(x * (LARGEST // radix))


def _turned(x: IntArray, by: IntArray) -> IntArray:
    """Complex products, [..., 2]."""
    real = x[..., 0] * by[..., 0] - x[..., 1] * by[..., 1]
    imaginary = x[..., 0] * by[..., 1] + x[..., 1] * by[..., 0]
    return _wrap16(_rounded(np.stack([real, imaginary], axis=-1)))


@register
class SignalRfft(Op[SignalRfftAttrs]):
    """x int16 [n] -> int16 [L + 2]: real and imaginary parts of L / 2 + 1 frequencies."""

    name = "signal_rfft"
    attrs_class = SignalRfftAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: SignalRfftAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Two numbers for each frequency."""
        (x,) = inputs
        if x.dtype != "int16" or len(x.shape) != 1 or attrs.length not in LENGTHS:
            raise TypeMismatch(f"signal_rfft of {x}, of length {attrs.length}")
        if x.shape[0] > attrs.length:
            raise TypeMismatch(f"signal_rfft of length {attrs.length} of {x.shape[0]} samples")
        return (TensorType((attrs.length + 2,), "int16"),)

    def evaluate(
        self,
        attrs: SignalRfftAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Pass by pass, with sums that wrap."""
        samples = np.zeros(attrs.length, np.int64)
        samples[: inputs[0].size] = inputs[0]
        count = attrs.length // 2
        x = samples.reshape(count, 2)[_reversed_digits(count)]
        size = 1
        for radix in reversed(factors(count)):
            part = _wrap16(_divided(x.reshape(-1, radix, size, 2), radix))
            turned = part.copy()
            turned[:, 1:] = _turned(
                part[:, 1:], butterfly_rotations(count, radix, size).astype(np.int64)
            )
            x = _wrap16(_butterfly(turned)).reshape(count, 2)
            size *= radix
        return (_apart(x).reshape(-1).astype(np.int16),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Two stages for each pass: rotated inputs, and their sums."""
        (x,) = tensors_of(inputs)
        define = target.definition
        count = node.attrs.length // 2
        samples = x.shape[0]
        order = target.table("order", _reversed_digits(count).astype(np.int16))

        def sample(p: Any, c: Any) -> Any:
            at = loops.int32(order[p]) * 2 + loops.index(c)
            if samples == node.attrs.length:
                return x[at]
            inside = x[loops.minimum(at, samples - 1)]
            return loops.select(at < samples, inside, 0)

        passes = _Passes(target, count)
        define.compute(passes.values, sample, name="start")
        size = 1
        for radix in reversed(factors(count)):
            passes.butterflies(radix, size)
            size *= radix
        return passes.apart()


def _butterfly(t: IntArray) -> IntArray:
    """Sums of the rotated parts [groups, radix, size, 2]."""
    if t.shape[1] == 2:
        return np.stack([t[:, 0] + t[:, 1], t[:, 0] - t[:, 1]], axis=1)
    even, odd = t[:, 0] + t[:, 2], t[:, 1] + t[:, 3]
    low, high = t[:, 0] - t[:, 2], t[:, 1] - t[:, 3]
    turned = np.stack([high[..., 1], -high[..., 0]], axis=-1)
    return np.stack([even + odd, low + turned, even - odd, low - turned], axis=1)


def _apart(x: IntArray) -> IntArray:
    """The frequencies [count + 1, 2] of interleaved real samples."""
    count = len(x)
    result = np.zeros((count + 1, 2), np.int64)
    first = _wrap16(_divided(x[0], 2))
    result[0, 0], result[count, 0] = first[0] + first[1], first[0] - first[1]
    k = np.arange(1, count // 2 + 1)
    near = _wrap16(_divided(x[k], 2))
    far = _wrap16(_divided(_wrap16(x[count - k] * np.array([1, -1])), 2))
    total, rest = _wrap16(near + far), _wrap16(near - far)
    turned = _turned(rest, split_rotations(count).astype(np.int64))
    result[k] = (total + turned) >> 1
    result[count - k, 0] = (total[:, 0] - turned[:, 0]) >> 1
    result[count - k, 1] = (turned[:, 1] - total[:, 1]) >> 1
    return result


class _Passes:
    """The passes in loops, on two arrays of complex numbers: values, and values rotated."""

    def __init__(self, target: Lowering, count: int) -> None:
        self.target = target
        self.define = target.definition
        self.count = count
        self.values = self.define.temporary("values", (count, 2), "int16")
        self.rotated = self.define.temporary("rotated", (count, 2), "int16")

    def butterflies(self, radix: int, size: int) -> None:
        """All butterflies of one pass, whose parts lie `size` apart."""
        x, rotated = self.values, self.rotated
        name = f"pass{size}"
        turns = self.target.table("turns", butterfly_rotations(self.count, radix, size))

        def divided(at: Any, c: int | Any) -> Any:
            return loops.int32(loops.int16(_divided(loops.int32(x[at, c]), radix)))

        def place(g: Any, part: Any, k: Any) -> Any:
            return (g * radix + part) * size + k

        def turned(g: Any, p: Any, k: Any, c: Any) -> Any:
            at = place(g, p + 1, k)
            first = divided(at, 0) * loops.int32(turns[p, k, c])
            second = divided(at, 1) * loops.int32(turns[p, k, 1 - c])
            both = loops.select(loops.index(c).equals(0), first - second, first + second)
            return loops.int16(_rounded(both))

        groups = self.count // (radix * size)
        self.define.compute(
            rotated,
            lambda g, k, c: loops.int16(divided(place(g, 0, k), c)),
            shape=(groups, size, 2),
            at=lambda g, k, c: (place(g, 0, k), c),
            name=f"{name}_first",
        )
        self.define.compute(
            rotated,
            turned,
            shape=(groups, radix - 1, size, 2),
            at=lambda g, p, k, c: (place(g, p + 1, k), c),
            name=f"{name}_turned",
        )
        for part in range(radix):
            for c in (0, 1):
                self._add(f"{name}_part{part}_{c}", place, (groups, size), radix, part, c)

    def _add(
        self, name: str, place: Any, shape: tuple[int, ...], radix: int, part: int, c: int
    ) -> None:
        def term(g: Any, number: int, k: Any, component: int) -> Any:
            return loops.int32(self.rotated[place(g, number, k), component])

        self.define.compute(
            self.values,
            lambda g, k: loops.int16(_sum(radix, part, c, term, g, k)),
            shape=shape,
            at=lambda g, k: (place(g, part, k), c),
            name=name,
        )

    def apart(self) -> Tensor:
        """The last pass, into the output: frequency 0 and the highest, then pairs of them."""
        x, kept, count = self.values, self.rotated, self.count
        half = count // 2
        out = self.target.target
        assert out is not None  # nothing is fused after it
        turns = self.target.table("turns", split_rotations(count))

        def halved(at: Any, c: int, sign: int = 1) -> Any:
            return loops.int32(loops.int16(_divided(loops.int32(loops.int16(
                loops.int32(x[at, c]) * sign)), 2)))  # fmt: skip

        def near_and_far(k: Any, c: int) -> tuple[Any, Any]:
            return halved(k + 1, c), halved(count - 1 - k, c, -1 if c else 1)

        def rest(k: Any, c: int) -> Any:
            near, far = near_and_far(k, c)
            return loops.int32(loops.int16(near - far))

        def total(k: Any, c: int) -> Any:
            near, far = near_and_far(k, c)
            return loops.int16(near + far)

        def turned(k: Any, c: int) -> Any:
            first = rest(k, 0) * loops.int32(turns[k, c])
            second = rest(k, 1) * loops.int32(turns[k, 1 - c])
            return loops.int16(_rounded(first + second if c else first - second))

        def kept_of(k: Any, c: int, which: int) -> Any:
            return loops.int32(kept[k + which * half, c])

        self._store("edge0", out, lambda k: loops.int16(halved(0, 0) + halved(0, 1)), 0, 0, 1)
        self._store("edge1", out, lambda k: loops.int16(halved(0, 0) - halved(0, 1)),
                    2 * count, 0, 1)  # fmt: skip
        for at in (1, 2 * count + 1):
            self._store(f"zero{at}", out, lambda k: 0, at, 0, 1)
        for c in (0, 1):
            self._keep(f"turned{c}", turned, 0, c)
            self._keep(f"total{c}", total, half, c)
        self._store(
            "low0",
            out,
            lambda k: loops.int16((kept_of(k, 0, 1) + kept_of(k, 0, 0)) >> 1),
            2,
            2,
            half,
        )
        self._store(
            "low1",
            out,
            lambda k: loops.int16((kept_of(k, 1, 1) + kept_of(k, 1, 0)) >> 1),
            3,
            2,
            half,
        )
        self._store("high0", out,
                    lambda k: loops.int16((kept_of(k, 0, 1) - kept_of(k, 0, 0)) >> 1),
                    2 * count - 2, -2, half)  # fmt: skip
        self._store("high1", out,
                    lambda k: loops.int16((kept_of(k, 1, 0) - kept_of(k, 1, 1)) >> 1),
                    2 * count - 1, -2, half)  # fmt: skip
        return out

    def _keep(self, name: str, element: Any, first: int, c: int) -> None:
        self.define.compute(
            self.rotated,
            lambda k: element(k, c),
            shape=(self.count // 2,),
            at=lambda k: (k + first, c),
            name=name,
        )

    def _store(
        self, name: str, out: Tensor, element: Any, first: int, step: int, count: int
    ) -> None:
        self.define.compute(
            out, element, shape=(count,), at=lambda k: (k * step + first,), name=name
        )


def _sum(radix: int, part: int, c: int, term: Callable[..., Any], g: Any, k: Any) -> Any:
    """Component c of output `part` of a butterfly."""
    if radix == 2:
        first, second = term(g, 0, k, c), term(g, 1, k, c)
        return first + second if part == 0 else first - second
    if part in (0, 2):
        even = term(g, 0, k, c) + term(g, 2, k, c)
        odd = term(g, 1, k, c) + term(g, 3, k, c)
        return even + odd if part == 0 else even - odd
    low = term(g, 0, k, c) - term(g, 2, k, c)
    high = term(g, 1, k, 1 - c) - term(g, 3, k, 1 - c)
    return low + high if (part == 1) == (c == 0) else low - high


@from_tflite("CUSTOM:SignalRfft")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalRfft of int16 samples, or of floats as sums of a DFT."""
    (x,), length = raw.operands(1), raw.attribute("fft_length", 0)
    if x.type.dtype != "float32":
        return builder.op("signal_rfft", [x], SignalRfftAttrs(length), name=raw.name)
    if length not in LENGTHS or not x.type.shape or x.type.shape[-1] > length:
        raise ImportFailed(f"a transform of length {length} of {x.type}")
    *outer, _ = x.type.shape
    parts = Parts(builder, raw)
    numbers = parts.reshaped(x, (*x.type.shape, 1), "numbers")
    attrs = DftAttrs(len(outer), length, length // 2 + 1)
    return parts.reshaped_last(parts.op("dft", [numbers], attrs, "pairs"), (*outer, length + 2))


@from_tflite("CUSTOM:SignalIrfft")
def import_inverse(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalIrfft of floats: the samples of a spectrum, divided by their number."""
    (x,), length = raw.operands(1), raw.attribute("fft_length", 0)
    if x.type.dtype != "float32":
        raise ImportFailed(f"{x.type.dtype} spectra: only float32 is supported")
    if length not in LENGTHS or x.type.shape[-1:] != (length + 2,):
        raise ImportFailed(f"an inverse transform of length {length} of {x.type}")
    *outer, _ = x.type.shape
    parts = Parts(builder, raw)
    pairs = parts.reshaped(x, (*outer, length // 2 + 1, 2), "pairs")
    attrs = DftAttrs(len(outer), length, length, inverse=True, parts=1)
    return parts.reshaped_last(parts.op("dft", [pairs], attrs, "numbers"), (*outer, length))
