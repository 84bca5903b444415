"""signal_rfft, signal_irfft: spectra of real samples and back, of int16 and int32 in fixed point.

The arithmetic equals kiss_fft as TFLite Micro builds it: every butterfly first divides its inputs
by its radix, products are rounded to 15 or 31 fraction bits, sums wrap. A transform of L real
samples is a complex one of L / 2 samples with radices 4, and 2 where 4 does not divide, and a last
pass that separates even and odd samples. The inverse begins with that pass.
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
from edgec.ops.broadcast import tensors_of
from edgec.ops.dft import DftAttrs
from edgec.ops.op import Op, RawNode, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.steps import run_steps

LENGTHS = tuple(1 << bits for bits in range(6, 12))
#: Samples, and the type of their products.
WIDE = {"int16": "int32", "int32": "int64"}
#: Component c of complex number k.
Read = Callable[[Any, int], Any]


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


def rotations(angles: Array, dtype: str) -> Array:
    """[..., 2]: cosine and sine with all fraction bits of a dtype, rounded half up."""
    pairs = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    return np.floor(0.5 + np.iinfo(dtype).max * pairs).astype(dtype)


class _SignalFft(Op[SignalRfftAttrs]):
    """The base class of both directions."""

    attrs_class = SignalRfftAttrs
    fusion = Fusion.OPAQUE

    def _check(self, attrs: SignalRfftAttrs, x: TensorType) -> None:
        if x.dtype not in WIDE or len(x.shape) != 1 or attrs.length not in LENGTHS:
            raise TypeMismatch(f"{self.name} of {x}, of length {attrs.length}")


@register
class SignalRfft(_SignalFft):
    """x [n] -> [L + 2]: real and imaginary parts of L / 2 + 1 frequencies."""

    name = "signal_rfft"

    def infer(self, attrs: SignalRfftAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Two numbers for each frequency."""
        (x,) = inputs
        self._check(attrs, x)
        if x.shape[0] > attrs.length:
            raise TypeMismatch(f"signal_rfft of length {attrs.length} of {x.shape[0]} samples")
        return (TensorType((attrs.length + 2,), x.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Two stages for each pass: rotated inputs, and their sums; then the last pass."""
        (x,) = tensors_of(inputs)
        samples, length = x.shape[0], node.attrs.length

        def sample(p: Any, c: Any) -> Any:
            at = loops.int32(order[p]) * 2 + loops.index(c)
            if samples == length:
                return x[at]
            inside = x[loops.minimum(at, samples - 1)]
            return loops.select(at < samples, inside, 0)

        passes = _Passes(target, length // 2, x.dtype, inverse=False)
        order = passes.order
        target.definition.compute(passes.values, sample, name="start")
        passes.butterflies()
        return passes.apart()


@register
class SignalIrfft(_SignalFft):
    """x [L + 2] of frequencies -> [L] samples."""

    name = "signal_irfft"

    def infer(self, attrs: SignalRfftAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """One number for each sample."""
        (x,) = inputs
        self._check(attrs, x)
        if x.shape[0] != attrs.length + 2:
            raise TypeMismatch(f"signal_irfft to {attrs.length} samples of {x}")
        return (TensorType((attrs.length,), x.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The first pass, then two stages for each of the others."""
        (x,) = tensors_of(inputs)
        passes = _Passes(target, node.attrs.length // 2, x.dtype, inverse=True)
        passes.together(x)
        passes.butterflies()
        values = passes.values
        return target.compute("samples", (node.attrs.length,), x.dtype,
                              lambda n: values[n // 2, n % 2])  # fmt: skip


class _Passes:
    """The passes in loops, on two arrays of complex numbers: values, and values rotated."""

    def __init__(self, target: Lowering, count: int, dtype: str, *, inverse: bool) -> None:
        self.target, self.define = target, target.definition
        self.count, self.dtype, self.sign = count, dtype, 1 if inverse else -1
        self.order = target.table("order", _reversed_digits(count).astype(np.int16))
        self.values = self.define.temporary("values", (count, 2), dtype)
        self.rotated = self.define.temporary("rotated", (count, 2), dtype)

    def _wide(self, x: Any) -> Any:
        return loops.cast(x, WIDE[self.dtype])

    def _stored(self, x: Any) -> Any:
        return loops.cast(x, self.dtype)

    def _rounded(self, x: Any) -> Any:
        bits = np.iinfo(self.dtype).bits - 1
        return self._stored((x + (1 << (bits - 1))) >> bits)

    def _divided(self, x: Any, radix: int) -> Any:
        """A stored number by a radix, wide."""
        return self._wide(self._rounded(self._wide(x) * (int(np.iinfo(self.dtype).max) // radix)))

    def _turned(self, real: Any, imaginary: Any, by: Tensor, at: tuple[Any, ...], c: Any) -> Any:
        """Component c of a complex product, stored."""
        first = real * self._wide(by[(*at, c)])
        second = imaginary * self._wide(by[(*at, 1 - c)])
        if isinstance(c, int):
            return self._rounded(first + second if c else first - second)
        return self._rounded(loops.select(loops.index(c).equals(0), first - second, first + second))

    def _turns(self, angles: Array) -> Tensor:
        return self.target.table("turns", rotations(self.sign * angles, self.dtype))

    def butterflies(self) -> None:
        """All passes of the complex transform, the smallest first."""
        size = 1
        for radix in reversed(factors(self.count)):
            self._pass(radix, size)
            size *= radix

    def _pass(self, radix: int, size: int) -> None:
        """All butterflies of one pass, whose parts lie `size` apart."""
        x, rotated, groups = self.values, self.rotated, self.count // (radix * size)
        parts, k = np.arange(1, radix)[:, None], np.arange(size)[None, :]
        turns = self._turns(2 * math.pi * (parts * k * groups) / self.count)

        def place(g: Any, part: Any, k: Any) -> Any:
            return (g * radix + part) * size + k

        def turned(g: Any, p: Any, k: Any, c: Any) -> Any:
            at = place(g, p + 1, k)
            real, imaginary = (self._divided(x[at, part], radix) for part in (0, 1))
            return self._turned(real, imaginary, turns, (p, k), c)

        self.define.compute(
            rotated,
            lambda g, k, c: self._stored(self._divided(x[place(g, 0, k), c], radix)),
            shape=(groups, size, 2),
            at=lambda g, k, c: (place(g, 0, k), c),
            name=f"pass{size}_first",
        )
        self.define.compute(
            rotated,
            turned,
            shape=(groups, radix - 1, size, 2),
            at=lambda g, p, k, c: (place(g, p + 1, k), c),
            name=f"pass{size}_turned",
        )
        for part in range(radix):
            for c in (0, 1):
                self._add(f"pass{size}_part{part}_{c}", place, (groups, size), radix, part, c)

    def _add(
        self, name: str, place: Any, shape: tuple[int, ...], radix: int, part: int, c: int
    ) -> None:
        def term(g: Any, number: int, k: Any, component: int) -> Any:
            return self._wide(self.rotated[place(g, number, k), component])

        self.define.compute(
            self.values,
            lambda g, k: self._stored(_sum(radix, part, c, self.sign, term, g, k)),
            shape=shape,
            at=lambda g, k: (place(g, part, k), c),
            name=name,
        )

    def _pairs(self, read: Read) -> tuple[Read, Read]:
        """Store the sum of numbers k + 1 and count - 1 - k, and their difference, rotated."""
        turns = self._turns(math.pi * (np.arange(1, self.count // 2 + 1) / self.count + 0.5))

        def near_and_far(k: Any, c: int) -> tuple[Any, Any]:
            far = read(self.count - 1 - k, c)
            return self._divided(read(k + 1, c), 2), self._divided(-far if c else far, 2)

        def total(k: Any, c: int) -> Any:
            near, far = near_and_far(k, c)
            return self._stored(near + far)

        def turned(k: Any, c: int) -> Any:
            rest = []
            for part in (0, 1):
                near, far = near_and_far(k, part)
                rest.append(self._wide(self._stored(near - far)))
            return self._turned(rest[0], rest[1], turns, (k,), c)

        return total, turned

    def apart(self) -> Tensor:
        """The last pass, into the output: frequency 0 and the highest, then pairs of them."""
        x, kept, count = self.values, self.rotated, self.count
        half = count // 2
        out = self.target.target
        assert out is not None  # nothing is fused after it
        total, turned = self._pairs(lambda at, c: x[at, c])

        def kept_of(k: Any, c: int, which: int) -> Any:
            return self._wide(kept[k + which * half, c])

        def store(name: str, element: Any, first: int, step: int, many: int = half) -> None:
            self.define.compute(out, lambda k: self._stored(element(k)), shape=(many,),
                                at=lambda k: (k * step + first,), name=name)  # fmt: skip

        def first(c: int) -> Any:
            return self._divided(x[0, c], 2)

        store("edge0", lambda k: first(0) + first(1), 0, 0, 1)
        store("edge1", lambda k: first(0) - first(1), 2 * count, 0, 1)
        for at in (1, 2 * count + 1):
            self.define.compute(out, lambda k: 0, shape=(1,), at=lambda k, at=at: (k * 0 + at,),
                                name=f"zero{at}")  # fmt: skip
        for c in (0, 1):
            self._keep(f"turned{c}", turned, lambda k: k, c)
            self._keep(f"total{c}", total, lambda k: k + half, c)
        for c in (0, 1):
            store(f"low{c}", lambda k, c=c: (kept_of(k, c, 1) + kept_of(k, c, 0)) >> 1, 2 + c, 2)
        for c in (0, 1):
            store(f"high{c}", lambda k, c=c: (kept_of(k, c, 1 - c) - kept_of(k, c, c)) >> 1,
                  2 * count - 2 + c, -2)  # fmt: skip
        return out

    def together(self, x: Tensor) -> None:
        """The first pass of the way back, into the places of the innermost butterflies."""
        count = self.count
        total, turned = self._pairs(lambda at, c: x[2 * at + c])

        def edge(_: Any, c: int) -> Any:
            ends = self._wide(x[0]), self._wide(x[2 * count])
            both = self._stored(ends[0] - ends[1] if c else ends[0] + ends[1])
            return self._stored(self._divided(both, 2))

        def low(k: Any, c: int) -> Any:
            return self._stored(self._wide(total(k, c)) + self._wide(turned(k, c)))

        def high(k: Any, c: int) -> Any:
            pair = self._wide(total(k, c)), self._wide(turned(k, c))
            return self._stored(pair[c] - pair[1 - c])

        for c in (0, 1):
            self._keep(f"edge{c}", edge, lambda k: k, c, 1)
            self._keep(f"low{c}", low, lambda k: k + 1, c)
            self._keep(f"high{c}", high, lambda k: count - 1 - k, c)
        self.define.compute(
            self.values, lambda p, c: self.rotated[loops.int32(self.order[p]), c], name="start"
        )

    def _keep(self, name: str, element: Read, at: Any, c: int, many: int = 0) -> None:
        self.define.compute(
            self.rotated,
            lambda k: element(k, c),
            shape=(many or self.count // 2,),
            at=lambda k: (at(k), c),
            name=name,
        )


def _sum(radix: int, part: int, c: int, sign: int, term: Callable[..., Any], g: Any, k: Any) -> Any:
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
    return low + high if (part == 1) == (c == (sign + 1) // 2) else low - high


@from_tflite("CUSTOM:SignalRfft")
@from_tflite("CUSTOM:SignalIrfft")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite Micro's SignalRfft and SignalIrfft of each row: in fixed point, or of floats a DFT."""
    (x,), length, parts = raw.operands(1), raw.attribute("fft_length", 0), Parts(builder, raw)
    is_inverse = raw.kind.endswith("Irfft")
    *outer, size = x.type.shape or (0,)
    most = length + 2 if is_inverse else length
    if length not in LENGTHS or size > most or (is_inverse and size < most):
        raise ImportFailed(f"a transform of length {length} of {x.type}")
    count = length if is_inverse else length + 2
    if x.type.dtype == "float32":
        shape = (*outer, length // 2 + 1, 2) if is_inverse else (*x.type.shape, 1)
        attrs = DftAttrs(len(outer), length, length // 2 + 1)
        if is_inverse:
            attrs = DftAttrs(len(outer), length, length, inverse=True, parts=1)
        made = parts.op("dft", [parts.reshaped(x, shape, "pairs")], attrs, "numbers")
        return parts.reshaped_last(made, (*outer, count))
    op, fixed = "signal_irfft" if is_inverse else "signal_rfft", SignalRfftAttrs(length)
    if not outer:
        return parts.op(op, [x], fixed)

    def row(inner: Parts, states: Sequence[Value], given: Sequence[Value]) -> Any:
        made = inner.op(op, [inner.reshaped(given[0], (size,), "row")], fixed, "numbers")
        return [], inner.reshaped(made, (1, count))

    rows = parts.reshaped(x, (math.prod(outer), 1, size), "rows")
    return parts.reshaped_last(run_steps(parts, raw, (), [rows], row), (*outer, count))
