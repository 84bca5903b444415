"""integer_norm: rows of stored integers normalized, scaled and stored again, without floats.

layer_norm and rms_norm on integers. For a row of C stored values, with d = x - zero point and N = C
d - sum(d) (or C d, where rows are not centred), both exact:

    v = C sum(d**2) - sum(d)**2 + round(epsilon C**2 / scale**2)       (or C sum(d**2) + ...)
    n = N / sqrt(v), with 23 fraction bits, by `reciprocal_root` of the upper 31 bits of v
    y = (n g + b) >> shift, limited                                     in int64, rounded half up

where g and b are each channel's scale and bias over the output's scale, as integers. Only the last
rounding is larger than a millionth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, int64, intrinsic, maximum, select
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.op import Op

#: Fraction bits of normalized elements, whose magnitude is the root of MOST_CHANNELS at most.
NORMAL_BITS = 23
MOST_CHANNELS = 1 << 15
#: Fraction bits of `reciprocal_root`.
ROOT_BITS = 29
#: The largest epsilon in units of v, and the bits of the sums before the last shift.
MOST_EPSILON = 2.0**61
SUM_BITS = 61
#: Bits of a factor g.
FACTOR_BITS = 30


@dataclass(frozen=True)
class IntegerNormAttrs:
    """centred: whether the mean is subtracted. epsilon: added to the mean square, in real units.

    output: quantization of the result, whose dtype is the input's. minimum, maximum: inclusive
    range of stored results.
    """

    centred: bool
    epsilon: float
    output: Quant
    minimum: int = -128
    maximum: int = 127


@register
class IntegerNorm(Op[IntegerNormAttrs]):
    """x [..., C] of int8 or int16, scale [C] and perhaps bias [C], float constants -> as x."""

    name = "integer_norm"
    attrs_class = IntegerNormAttrs
    constant_inputs = (1, 2)
    fusion = Fusion.OPAQUE
    approximates = True

    def infer(self, attrs: IntegerNormAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's shape and dtype with the output's quantization."""
        x, *channels = inputs
        _check_rows(x)
        if any(t != TensorType(x.shape[-1:], "float32") for t in channels) or len(channels) > 2:
            raise TypeMismatch(f"integer_norm of {x} by {', '.join(map(str, channels))}")
        if not attrs.output.per_tensor:
            raise TypeMismatch("integer_norm needs an output quantized per tensor")
        if not 0 <= _epsilon(attrs, x) < MOST_EPSILON:
            raise TypeMismatch(
                f"integer_norm: epsilon {attrs.epsilon:g} is too large for the input's scale"
            )
        return (TensorType(x.shape, x.dtype, attrs.output),)

    @property
    def weight_inputs(self) -> tuple[int, ...]:
        """None: scale and bias are stored as integers that are not quantized weights."""
        return ()

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Two sums and a root for each row, a product for each element."""
        attrs: IntegerNormAttrs = node.attrs
        x, x_type = tensor_of(inputs[0]), node.inputs[0].type
        factors, offsets, shift = channel_integers(attrs, [constant_of(c).data for c in inputs[1:]])
        # Subtracting the mean removes the zero point too, so it need not be known.
        rows = _Rows(target, x, 0 if attrs.centred else x_type.scalar_quant()[1])
        sums = rows.summed("sum", "int32", lambda d: d) if attrs.centred else None
        roots, down = _row_roots(rows, sums, _epsilon(attrs, x_type))
        multipliers = target.table("factor", factors)
        biases = target.table("bias", offsets)

        def element(*at: Any) -> Value:
            *given, channel = at
            row = tuple(given)
            distance = rows.element(at) * x.shape[-1]
            if sums is not None:
                distance = distance - sums[row]
            product = int64(distance) * int64(roots[row])
            normal = ((product >> int64(down[row])) + 1) >> 1
            total = (normal * int64(multipliers[channel]) + biases[channel]) >> shift
            return cast(clamp(total, attrs.minimum, attrs.maximum), x.dtype)

        return target.compute("element", node.output.type.shape, x.dtype, element)


@dataclass(frozen=True)
class _Rows:
    """Elements of rows without their zero point, in int32."""

    target: Lowering
    x: Tensor
    zero_point: int

    def element(self, at: Any) -> Value:
        value = int32(self.x[tuple(at)])
        return value - self.zero_point if self.zero_point else value

    def summed(self, name: str, dtype: str, term: Callable[[Value], Value]) -> Tensor:
        """One sum for each row."""
        return self.target.definition.reduce(
            name,
            [("k", 0, self.x.shape[-1])],
            init=lambda *row: 0,
            update=lambda acc, *at: acc + term(self.element(at)),
            shape=self.x.shape[:-1],
            dtype=dtype,
        )


def _row_roots(rows: _Rows, sums: Tensor | None, epsilon: int) -> tuple[Tensor, Tensor]:
    """For each row 1 / sqrt(v) as an integer, and by how many bits less one products with it are
    shifted down to NORMAL_BITS. sums: of rows, where these are centred."""
    x, define = rows.x, rows.target.definition
    *outer, length = x.shape
    wide = "int32" if x.dtype == "int8" else "int64"
    squares = rows.summed("squares", wide, lambda d: cast(d, wide) * cast(d, wide))

    def variance(*row: Any) -> Value:
        total = int64(squares[row]) * length + epsilon
        if sums is not None:
            total = total - int64(sums[row]) * int64(sums[row])
        limited: Value = maximum(total, 1)
        return limited

    v = define.compute("variance", variance, shape=outer, dtype="int64")
    # Odd, so that the remaining root is a power of two.
    exponent = define.compute(
        "exponent", lambda *row: (_bit_length(v[row]) - 31) | 1, shape=outer, dtype="int32"
    )

    def root(*row: Any) -> Value:
        left, right = maximum(-exponent[row], 0), maximum(exponent[row], 0)
        mantissa = (v[row] << int64(left)) >> int64(right)
        return intrinsic("reciprocal_root", int32(mantissa))

    roots = define.compute("root", root, shape=outer, dtype="int32")
    # The root's power of two; one bit is left to round.
    down = define.compute(
        "down",
        lambda *row: ((exponent[row] + 31) >> 1) + (ROOT_BITS - NORMAL_BITS - 1),
        shape=outer,
        dtype="int32",
    )
    return roots, down


def _check_rows(x: TensorType) -> None:
    """Raise TypeMismatch unless x has rows of stored integers."""
    if x.dtype not in ("int8", "int16") or x.quant is None or not x.quant.per_tensor:
        raise TypeMismatch(f"integer_norm needs int8 or int16 quantized per tensor, not {x}")
    if not x.shape or not 1 <= x.shape[-1] <= MOST_CHANNELS:
        raise TypeMismatch(f"integer_norm of {x}: 1 to {MOST_CHANNELS} channels are possible")
    if x.dtype == "int16" and x.quant.zero_point[0]:
        raise TypeMismatch("integer_norm of int16 needs a zero point of 0")


def _epsilon(attrs: IntegerNormAttrs, x: TensorType) -> int:
    """The constant added to v."""
    steps = attrs.epsilon / x.scalar_quant()[0] ** 2 * x.shape[-1] ** 2
    return round(min(steps, MOST_EPSILON))


def _bit_length(value: Value) -> Value:
    """Return the bit length of an int64 above 0."""
    upper, lower = cast(value >> 32, "uint32"), cast(value, "uint32")
    return select(
        upper.equals(0), intrinsic("bit_length_u32", lower), intrinsic("bit_length_u32", upper) + 32
    )


def channel_integers(
    attrs: IntegerNormAttrs, constants: Sequence[Array]
) -> tuple[Array, Array, int]:
    """(g int32 [C], b int64 [C], shift) from scale and bias; b rounds and holds the zero point.

    Numbers that do not fit are limited: results are beyond all stored ones anyway.
    """
    (step,), (zero_point,) = attrs.output.scale, attrs.output.zero_point
    scale = constants[0].astype(np.float64) / step
    bias = np.zeros_like(scale) if len(constants) < 2 else constants[1].astype(np.float64) / step
    largest = float(np.abs(scale).max(initial=0.0))
    farthest = float(np.abs(bias + zero_point).max(initial=0.0))
    room = min(
        FACTOR_BITS - math.frexp(largest)[1],
        SUM_BITS - NORMAL_BITS - math.frexp(farthest)[1],
        SUM_BITS - NORMAL_BITS - 1,
    )
    shift = max(NORMAL_BITS + room, 1)
    factors = np.clip(np.rint(scale * 2.0 ** (shift - NORMAL_BITS)), -(2.0**30), 2.0**30)
    offsets = np.clip(np.rint((bias + zero_point) * 2.0**shift), -MOST_EPSILON, MOST_EPSILON)
    return factors.astype(np.int32), offsets.astype(np.int64) + (1 << (shift - 1)), shift
