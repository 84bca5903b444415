"""Finds layer and RMS normalizations that exporters wrote as several operators.

With m = mean(x), v = mean((x - m)**2) or mean(x**2) over the last axis, and r = sqrt(v + e):

    (x - m) / r, x / r                       the quotient, or a product with 1 / r
    x * t + (c - m * t), t = scale / r       Keras' form with its scale and bias c
    x / max(length of x, small)              rows whose length may be 0: x / r, scales 1 / sqrt(C)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from edgec.graph.ir import Constant, Node, Value
from edgec.graph.traits import Arithmetic
from edgec.graph.types import Array
from edgec.ops.reduce import ReduceAttrs

Producer = Callable[[Value], Node | None]

#: A limit of lengths that only keeps quotients finite; and an epsilon that changes no float.
MOST_SMALL, LEAST_EPSILON = 1e-5, 1e-30


@dataclass(frozen=True)
class Norm:
    """Rows of x, without their mean if `centred`, over the root of mean square and epsilon.

    scale, bias: of each channel, if it has any yet.
    """

    x: Value
    centred: bool
    epsilon: float
    scale: Array | None = None
    bias: Array | None = None


class NormParts:
    """Finds them by the nodes that make values."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer

    def norm_of(self, value: Value) -> Norm | None:
        """The normalization whose last operator makes this value, if it is one."""
        found = self._ratio(value)
        if found is not None:
            norm, numerator = found
            centre = self._centre(numerator) if norm.centred else numerator
            return norm if centre is norm.x else None
        return self._with_bias(value)

    def _made(self, value: Value, kind: str) -> tuple[Value, ...] | None:
        """The operands of a value that this operator makes."""
        node = self.producer(value)
        return node.inputs if node is not None and node.op.name == kind else None

    def _ratio(self, value: Value) -> tuple[Norm, Value] | None:
        """n / r, or a product with 1 / r: the normalization with that root, and n."""
        divided = self._made(value, "div")
        if divided is not None:
            norm = self._root(divided[1]) or self._length(divided[1])
            return None if norm is None else (norm, divided[0])
        for one, other in self._either(value, "mul"):
            norm = self._inverse(other)
            if norm is not None:
                return norm, one
        return None

    def _either(self, value: Value, kind: str) -> tuple[tuple[Value, Value], ...]:
        """The two operands of a value in both orders."""
        operands = self._made(value, kind)
        if operands is None:
            return ()
        first, second = operands
        return (first, second), (second, first)

    def _inverse(self, value: Value) -> Norm | None:
        """The normalization with this value as 1 / r."""
        sums = self._made(value, "rsqrt")
        if sums is not None:
            return self._sum(sums[0])
        roots = self._made(value, "reciprocal")
        divided = self._made(value, "div")
        if divided is not None and _number(divided[0]) == 1.0:
            roots = divided[1:]
        return None if roots is None else self._root(roots[0])

    def _root(self, value: Value) -> Norm | None:
        sums = self._made(value, "sqrt")
        return None if sums is None else self._sum(sums[0])

    def _sum(self, value: Value) -> Norm | None:
        """v + e."""
        for mean, constant in self._either(value, "add"):
            epsilon, squares = _number(constant), self._mean(mean)
            if epsilon is not None and epsilon > 0 and squares is not None:
                return self._squares(squares, epsilon)
        return None

    def _mean(self, value: Value, kind: str = "mean") -> Value | None:
        """The operand of a mean, or of another reduction, over the last axis."""
        node = self.producer(value)
        if node is None or not isinstance(node.attrs, ReduceAttrs) or node.attrs.kind != kind:
            return None
        x = node.inputs[0]
        return x if node.attrs.axes == (len(x.type.shape) - 1,) and x.type.is_float else None

    def _length(self, value: Value) -> Norm | None:
        """The normalization whose divisor is the length of rows, changed only for rows of zeros."""
        tiled = self._made(value, "tile")
        found = self._above_zero(tiled[0] if tiled else value)
        if found is None:
            return None
        length, small = found
        roots = self._made(length, "sqrt")
        squares = None if roots is None else self._mean(roots[0], "sum")
        x = self._mean(length, "l2") if squares is None else self._square(squares)
        if x is None:
            return None
        channels = x.type.shape[-1]
        scale = np.full(channels, channels**-0.5, np.float32)
        return Norm(x, False, max(small**2 / channels, LEAST_EPSILON), scale)

    def _above_zero(self, value: Value) -> tuple[Value, float] | None:
        """(length, least) of a divisor max(length, least), where least is about 0."""
        node = self.producer(value)
        if node is not None and node.op.is_limit:
            small = node.attrs.minimum if node.attrs.maximum > 1 / LEAST_EPSILON else 0.0
            return (node.inputs[0], small) if 0 < small <= MOST_SMALL else None
        for length, constant in self._either(value, "maximum"):
            least = _number(constant)
            if least is not None and 0 < least <= MOST_SMALL:
                return length, least
        return self._unless_zero(value)

    def _unless_zero(self, value: Value) -> tuple[Value, float] | None:
        """The length of a divisor that differs from it only where it is 0."""
        chosen = self._made(value, "where") or (value,)
        for compared, zero in self._either(chosen[0], "equal"):
            if _number(zero) == 0 and compared is chosen[-1] and _number(chosen[1]):
                return compared, 0.0
        return None

    def _squares(self, value: Value, epsilon: float) -> Norm | None:
        """Squares of x, or of x without its mean."""
        pair = self._made(value, "squared_difference")
        if pair is not None:
            x, mean = pair
            return Norm(x, True, epsilon) if self._mean(mean) is x else None
        root = self._square(value)
        if root is None:
            return None
        centre = self._centre(root)
        return Norm(root if centre is None else centre, centre is not None, epsilon)

    def _square(self, value: Value) -> Value | None:
        """The x of a value x**2."""
        product = self._made(value, "square") or self._made(value, "mul")
        return product[0] if product is not None and product[0] is product[-1] else None

    def _centre(self, value: Value) -> Value | None:
        """The x of a value x - mean(x)."""
        node = self.producer(value)
        if node is None or node.op.computes is not Arithmetic.DIFFERENCE:
            return None
        x, mean = node.inputs
        return x if self._mean(mean) is x else None

    def _with_bias(self, value: Value) -> Norm | None:
        """x * t + (c - m * t)."""
        for scaled, moved in self._either(value, "add"):
            bias, mean = self._made(moved, "sub") or (None, None)
            channels = None if bias is None else _channels(bias, value)
            norm = None if mean is None else self._scaled(scaled, mean)
            if norm is not None and channels is not None:
                return replace(norm, bias=channels)
        return None

    def _scaled(self, value: Value, moved: Value) -> Norm | None:
        """x * t, where m * t is moved."""
        for x, factor in self._either(value, "mul"):
            means = [mean for mean, t in self._either(moved, "mul") if t is factor]
            if means and self._mean(means[0]) is x:
                return self._scaled_root(factor, x)
        return None

    def _scaled_root(self, value: Value, x: Value) -> Norm | None:
        """t = scale / r of the centred rows of x."""
        for root, constant in self._either(value, "mul"):
            norm, scale = self._inverse(root), _channels(constant, x)
            if norm is not None and norm.centred and norm.x is x and scale is not None:
                return Norm(x, True, norm.epsilon, scale)
        return None


def channel_constant(node: Node, computes: Arithmetic) -> tuple[Value, Array] | None:
    """The other operand, and the constant's number for each channel, of such a sum or product."""
    if node.op.computes is not computes or len(node.inputs) != 2:
        return None
    for other, constant in (node.inputs, node.inputs[::-1]):
        found = _channels(constant, other)
        if found is not None and not isinstance(other, Constant):
            return other, found
    return None


def _number(value: Value) -> float | None:
    """The number in a constant of one element; None for other values."""
    if not isinstance(value, Constant) or value.type.elements != 1:
        return None
    return float(value.data.reshape(()))


def _channels(value: Value, x: Value) -> Array | None:
    """A constant's number for each index of the last axis of x, if it depends on no other."""
    shape = value.type.shape
    length = x.type.shape[-1] if x.type.shape else 0
    if not isinstance(value, Constant) or not value.type.is_float or not length:
        return None
    if len(shape) > len(x.type.shape) or any(extent != 1 for extent in shape[:-1]):
        return None
    data = value.data.reshape(-1)
    if data.size not in (1, length):
        return None
    return np.ascontiguousarray(np.broadcast_to(data, (length,)), np.float32)
