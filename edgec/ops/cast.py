"""cast: numbers in another type, and bits in another type of the same width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as Graph
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import DTYPES, TensorType
from edgec.loop.define import Tensor
from edgec.loop.dtype import bits, integer_range, is_float
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, intrinsic, minimum, select
from edgec.numerics.narrow_float import FORMATS, stored_in
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx

#: ONNX's numbers of element types.
ELEMENT_TYPES = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
    10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 17: "float8_e4m3fn",
    18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip
_NUMBERS = {dtype: number for number, dtype in ELEMENT_TYPES.items()}
#: How powers of two are rounded.
ROUND_MODES = ("up", "down", "nearest")
_POWER_OF_TWO = "float8_e8m0fnu"


@dataclass(frozen=True)
class CastAttrs:
    """dtype: the result's element type. saturate: numbers too large for a float of 8 bits become
    the largest one. round_mode: of powers of two, one of ROUND_MODES.
    """

    dtype: str
    saturate: bool = True
    round_mode: str = "up"


def read_number(x: Value, dtype: str) -> Value:
    """An element of a dtype as a number of a type that C has."""
    if dtype in FORMATS:
        return intrinsic("widen_f32", cast(x, "uint32"), *FORMATS[dtype].arguments)
    if dtype == _POWER_OF_TWO:
        power = intrinsic("f32_from_bits", cast(x, "uint32") << 23)
        least = intrinsic("f32_from_bits", cast(x, "uint32") * 0 + 0x00400000)
        return select(x.equals(255), math.nan, select(x.equals(0), least, power))
    if dtype in _SIGNS:
        sign = _SIGNS[dtype]
        return ((int32(x) & (2 * sign - 1)) ^ sign) - sign
    return x


#: The sign's bit of the integers of fewer than eight bits that have one.
_SIGNS = {"int4": 8, "int2": 2}
_MASKS = {"int4": 15, "uint4": 15, "int2": 3, "uint2": 3}


def stored_number(x: Value, attrs: CastAttrs) -> Value:
    """A number as an element of a dtype.

    Integers wrap. Floats are truncated and limited to int32 (to int64 for a dtype of 64 bits and
    for uint32); a NaN becomes 0.
    """
    dtype = attrs.dtype
    if dtype in FORMATS:
        saturate = attrs.saturate and dtype.startswith("float8")
        bits = intrinsic("narrow_f32", cast(x, "float32"), *FORMATS[dtype].arguments, int(saturate))
        return cast(bits, stored_in(dtype))
    if dtype == _POWER_OF_TWO:
        return _power_of_two(cast(x, "float32"), attrs)
    if dtype == "bool":
        return x if x.dtype == "bool" else x.equals(0) ^ True
    return _integer(x, dtype) if not is_float(dtype) else cast(x, dtype)


def _integer(x: Value, dtype: str) -> Value:
    if is_float(x.dtype):
        wide = {"uint32": "int64", "int64": "int64", "uint64": "uint64"}.get(dtype, "int32")
        x = cast(_limited(x, wide), wide)
    if dtype in _MASKS:
        return cast(cast(x, "int32") & _MASKS[dtype], "uint8")
    return cast(x, dtype)


def _limited(x: Value, dtype: str) -> Value:
    """A float within the range of an integer type, 0 for a NaN."""
    low, high = integer_range(dtype)
    most = np.asarray(high, x.dtype)
    if int(most) > high:  # rounded up
        most = np.nextafter(most, np.asarray(0, x.dtype))
    return clamp(select(x.equals(x), x, 0), float(low), float(most))


def _power_of_two(x: Value, attrs: CastAttrs) -> Value:
    """The exponent of a float32; 255 for a NaN and, unless it saturates, for an infinity."""
    bits = intrinsic("bits_from_f32", x) & 0x7FFFFFFF
    exponent, rest = bits >> 23, bits & 0x007FFFFF
    if attrs.round_mode == "up":
        exponent = select(rest.equals(0), exponent, exponent + 1)
    elif attrs.round_mode == "nearest":
        exponent = exponent + (rest >> 22)
    most = 254 if attrs.saturate else 255
    found = minimum(exponent, most)
    return cast(select(bits <= 0x7F800000, found, 255), "uint8")


@register
class Cast(Op[CastAttrs]):
    """Between all numbers that stand for themselves."""

    name = "cast"
    attrs_class = CastAttrs
    fusion = Fusion.ELEMENTWISE

    def infer(self, attrs: CastAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape with another dtype."""
        (x,) = inputs
        if x.quant is not None:
            raise TypeMismatch(
                f"cast of {x} to {attrs.dtype}: a quantized tensor must be dequantized first"
            )
        if attrs.dtype not in DTYPES or attrs.round_mode not in ROUND_MODES:
            raise TypeMismatch(f"cast to {attrs.dtype}, rounding {attrs.round_mode}: unknown")
        return (TensorType(x.shape, attrs.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Element by element."""
        (x,) = operand_tensors(target, inputs)
        attrs, dtype = node.attrs, node.inputs[0].type.dtype

        def element(*at: Any) -> Value:
            return stored_number(read_number(x[at], dtype), attrs)

        return target.compute("element", node.output.type.shape, attrs.dtype, element)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Cast."""
        inputs, output, _ = out.tensors_of(node)
        out.emit("Cast", inputs, output, to=_NUMBERS[node.attrs.dtype])


def write_indices(
    out: OnnxGraph, kind: str, inputs: Sequence[str], node: Node, **attributes: int
) -> None:
    """A node whose last output is places: int64 in ONNX, and cast to int32 where it is that."""
    outputs = [out.define_own(value) for value in node.outputs]
    if node.outputs[-1].type.dtype == "int64":
        out.emit_several(kind, inputs, outputs, **attributes)
        return
    wide = out.fresh(f"{outputs[-1]}.int64")
    out.emit_several(kind, inputs, [*outputs[:-1], wide], **attributes)
    out.emit("Cast", [wide], outputs[-1], to=_NUMBERS["int32"])


@register
class BitCast(Op[CastAttrs]):
    """The same bits as another type of the same width."""

    name = "bit_cast"
    attrs_class = CastAttrs
    fusion = Fusion.ELEMENTWISE

    def infer(self, attrs: CastAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape with another dtype."""
        (x,) = inputs
        known = {*DTYPES} - {"bool", *_MASKS, "float4_e2m1fn"}
        if x.quant is not None or not {x.dtype, attrs.dtype} <= known | {"bool"}:
            raise TypeMismatch(f"the bits of {x} as {attrs.dtype}")
        if np.dtype(x.dtype).itemsize != np.dtype(attrs.dtype).itemsize:
            raise TypeMismatch(f"the bits of {x} as {attrs.dtype}, which has another width")
        return (TensorType(x.shape, attrs.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Through the unsigned integers of that width."""
        (x,) = operand_tensors(target, inputs)
        dtype = stored_in(node.attrs.dtype)
        width = bits(dtype)

        def element(*at: Any) -> Value:
            value = x[at]
            if value.dtype == dtype:
                return value
            if is_float(value.dtype):
                value = intrinsic(f"bits_from_f{width}", value)
            if is_float(dtype):
                return intrinsic(f"f{width}_from_bits", cast(value, f"uint{width}"))
            return cast(value, dtype)

        return target.compute("element", node.output.type.shape, dtype, element)


def cast_to(builder: GraphBuilder, x: Graph, attrs: CastAttrs, name: str) -> Graph:
    """A cast, unless the value has the type already."""
    if x.type.dtype == attrs.dtype:
        return x
    return builder.op("cast", [x], attrs, name=name)


def _element_type(raw: RawNode) -> str:
    number = raw.attribute("to")
    if number not in ELEMENT_TYPES:
        raise ImportFailed(f"element type number {number} is unknown")
    return ELEMENT_TYPES[number]


def _onnx_attrs(raw: RawNode, dtype: str) -> CastAttrs:
    mode = raw.attribute("round_mode", "up")
    if mode not in ROUND_MODES:
        raise ImportFailed(f"round_mode {mode!r} is unknown")
    return CastAttrs(dtype, bool(raw.attribute("saturate", 1)), mode)


@from_onnx("Cast")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX Cast, which does nothing where the value has the type already."""
    (x,) = raw.operands(1)
    return cast_to(builder, x, _onnx_attrs(raw, _element_type(raw)), raw.name)


@from_onnx("CastLike", since=15)
def import_cast_like(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX CastLike: to the type of the second input, whose numbers do not matter."""
    x, like = raw.operands(2)
    return cast_to(builder, x, _onnx_attrs(raw, like.type.dtype), raw.name)


@from_onnx("BitCast", since=26)
def import_bit_cast(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX BitCast, between types of the same width."""
    return builder.op("bit_cast", raw.operands(1), CastAttrs(_element_type(raw)), name=raw.name)
