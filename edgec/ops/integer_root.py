"""integer_root: x by the norm of its row, or 1 / sqrt(x), of stored integers in TFLite's bits.

Both take the inverse root of an integer by five steps of Newton's method with 28 fraction bits
(GetInvSqrtQuantizedMultiplierExp of TFLite's common.h), of a row's sum of squares or of x itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Quant, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, int32, intrinsic, maximum, saturate, select
from edgec.numerics.fixed_point import check_factors, quantize_multiplier
from edgec.ops.broadcast import tensor_of
from edgec.ops.op import Op, RawNode

#: Most elements of a row: their squares fit in int32.
MOST_CHANNELS = (2**31 - 1) // 255**2
#: Stored results of norms are in steps of 2**-7.
NORM_BITS, NORM_SCALE = 7, 1 / 128
#: Bits that keep an inverse root an integer. Source: RsqrtEvalQuantized of elementwise.cc.
ROOT_BITS = 20
STEPS = 5


@dataclass(frozen=True)
class IntegerRootAttrs:
    """output: quantization of the result. of_rows: x by the norm of its row; else 1 / sqrt(x).

    raised: x is raised to the steps of the result first, as TFLite does it where its file has
    uint8, instead of rounding the product in these.
    """

    output: Quant
    of_rows: bool = False
    raised: bool = False


@register
class IntegerRoot(Op[IntegerRootAttrs]):
    """int8 rows of one scale to steps of 1/128, or int16: 1 / sqrt of 0 or less is the largest."""

    name = "integer_root"
    attrs_class = IntegerRootAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: IntegerRootAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The input's type with the output's quantization."""
        (x,) = inputs
        _check_rows(x, "int8" if attrs.of_rows else "int16")
        is_norm = x.shape[-1] <= MOST_CHANNELS and attrs.output == Quant((NORM_SCALE,), (0,))
        if not (is_norm if attrs.of_rows else attrs.output.per_tensor):
            raise TypeMismatch(f"integer_root of rows of {x} to {attrs.output}")
        if not attrs.of_rows:
            check_factors([_factor(attrs, x)], "tflm")
        return (TensorType(x.shape, x.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A sum and a root for each row, or a root for each element."""
        x, attrs = tensor_of(inputs[0]), node.attrs
        zero_point = node.inputs[0].type.scalar_quant()[1]

        def real(at: Any) -> Value:
            return int32(x[at]) - zero_point

        def limited(result: Value) -> Value:
            return saturate(result, x.dtype)

        if attrs.of_rows:
            roots = _row_norms(target, x.shape, real)

            def element(*at: Any) -> Value:
                root, shift = (part[at[:-1]] for part in roots)
                bits = (NORM_BITS, 0) if attrs.raised else (0, NORM_BITS)
                given = real(at) * (1 << bits[0])
                return limited(intrinsic("requantize_tflm", given, root, shift + bits[1]))

            return target.compute("element", x.shape, x.dtype, element)
        multiplier, factor_shift = quantize_multiplier(_factor(attrs, node.input_types[0]))
        root, shift = _roots(target, x.shape, lambda *at: maximum(real(at), 1))
        one = 1 << ROOT_BITS

        def inverse(*at: Any) -> Value:
            whole = intrinsic("requantize_tflm", real(at) * 0 + 1, root[at], shift[at] + ROOT_BITS)
            found = intrinsic("requantize_tflm", whole, multiplier, factor_shift - ROOT_BITS)
            moved = found + attrs.output.zero_point[0]
            return limited(select(real(at) > 0, moved, moved * 0 + one))

        return target.compute("element", x.shape, x.dtype, inverse)


def _check_rows(x: TensorType, dtype: str) -> None:
    if x.dtype != dtype or x.quant is None or not (x.shape and x.quant.per_tensor):
        raise TypeMismatch(f"integer_root needs {dtype} quantized per tensor, not {x}")


def _row_norms(target: Lowering, shape: Sequence[int], real: Any) -> tuple[Tensor, Tensor]:
    """Multiplier and shift of each row's inverse norm."""
    rows = tuple(shape[:-1])
    squares = target.definition.reduce(
        "squares", [("k", 0, shape[-1])], init=lambda *row: 0,
        update=lambda acc, *at: acc + real(at) * real(at), shape=rows, dtype="int32",
    )  # fmt: skip
    return _roots(target, rows, lambda *row: squares[row])


def _roots(target: Lowering, shape: tuple[int, ...], of: Any) -> tuple[Tensor, Tensor]:
    """Multiplier and shift of 1 / sqrt of positive int32, step by step in their own places."""
    define = target.definition

    def halved(*at: Any) -> Value:
        """The number raised to 29 bits, by half."""
        pairs, small = _raising(of(*at))
        return (((small << (pairs * 2)) >> 1) + 1) >> 1

    half = define.compute("half", halved, shape=shape, dtype="int32")
    root = define.compute("root", lambda *at: 1 << 28, shape=shape, dtype="int32")

    def step(*of_step: Any) -> Value:
        at = of_step[1:]
        x = root[at]
        cube = high_product(high_product(x, x), x) * (1 << 6)
        return (high_product(x, (1 << 28) + (1 << 27)) - high_product(half[at], cube)) * (1 << 3)

    def last(*at: Any) -> Value:
        found = high_product(root[at], 1518500250)
        return select(of(*at) <= 1, found * 0 + (2**31 - 1), found)

    with define.steps("newton", STEPS):
        define.compute(root, step, shape=shape, name="step")
    multiplier = define.compute("inverse", last, shape=shape, dtype="int32")
    shift = define.compute("exponent", lambda *at: _shift(of(*at)), shape=shape, dtype="int32")
    return multiplier, shift


def _raising(value: Value) -> tuple[Value, Value]:
    """Return by how many bit pairs a number is raised, and the number (a large one: a fourth)."""
    small = maximum(select(value >= 1 << 29, value >> 2, value), 1)
    return ((intrinsic("count_leading_zeros", small) - 1) >> 1) - 1, small


def _shift(value: Value) -> Value:
    pairs, _ = _raising(value)
    shift = pairs - 11
    return select(value <= 1, shift * 0, select(value >= 1 << 29, shift - 1, shift))


def high_product(a: Value, b: Any) -> Value:
    """The upper half of twice a product of int32, rounded."""
    found: Value = intrinsic("rounding_doubling_high_multiply", a, b)
    return found


def _factor(attrs: IntegerRootAttrs, x: TensorType) -> float:
    return 1 / (math.sqrt(x.scalar_quant()[0]) * attrs.output.scale[0])


def append_root(builder: GraphBuilder, raw: RawNode, *, of_rows: bool) -> GraphValue:
    """TFLite L2_NORMALIZATION of int8, or RSQRT of int16."""
    declared = raw.declared()
    if declared.quant is None or raw.attribute("fused_activation", "NONE") != "NONE":
        raise ImportFailed(f"{declared}: it needs quantization, and has no activation")
    attrs = IntegerRootAttrs(declared.quant, of_rows, raw.unsigned)
    return builder.op("integer_root", [raw.operand(0)], attrs, name=raw.name)
