"""quantize and dequantize: between real numbers and the integers that stand for them.

quantize    stored = saturate(round(x / scale) + zero_point)
dequantize  x = float32(stored - zero_point) * scale

Both in float32 arithmetic. ONNX's QuantizeLinear rounds halves to even, TFLite's QUANTIZE away from
zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.errors import BadNode, ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.provenance import Origin
from edgec.graph.traits import Channels, Storage
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, clamp, int32, intrinsic, minimum, round_half_even, select
from edgec.numerics.fixed_point import ROUNDINGS, Rounding
from edgec.ops.broadcast import tensors_of
from edgec.ops.onnx_blocks import constant_parameters, import_blocks
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.requantize import STORED, RequantizeAttrs

#: ONNX's numbers of the dtypes that QuantizeLinear may return; uint8 is the default.
OUTPUT_DTYPES = {2: "uint8", 3: "int8", 4: "uint16", 5: "int16"}


@dataclass(frozen=True)
class QuantizeAttrs:
    """output: scale and zero point of the result. dtype: its integer type.

    rounding: `onnx` takes halves to even, `tflm` and `single` away from zero.
    """

    output: Quant
    dtype: str = "int8"
    rounding: Rounding = "onnx"


def _parameters(target: Lowering, quant: Quant) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions from an element's indices to its scale and zero point."""
    scales = target.table("scale", np.asarray(quant.scale, np.float32))
    if quant.per_tensor:
        return lambda at: scales[0], lambda at: quant.zero_point[0]
    axis = quant.axis or 0
    zero_points = target.table("zero_point", np.asarray(quant.zero_point, np.int32))
    return lambda at: scales[at[axis]], lambda at: zero_points[at[axis]]


@register
class Quantize(Op[QuantizeAttrs]):
    """float32 to integers."""

    name = "quantize"
    attrs_class = QuantizeAttrs
    fusion = Fusion.ELEMENTWISE
    storage = Storage.QUANTIZE
    onnx_of_stored = True

    def infer(self, attrs: QuantizeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape, quantized."""
        (x,) = inputs
        if x.dtype != "float32":
            raise TypeMismatch(f"quantize needs float32, not {x}")
        if np.dtype(attrs.dtype).kind not in "iu":
            raise TypeMismatch(f"the result of quantize is integers, not {attrs.dtype}")
        if attrs.rounding not in ROUNDINGS:
            raise TypeMismatch(f"unknown rounding {attrs.rounding!r}")
        return (TensorType(x.shape, attrs.dtype, attrs.output),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The same arithmetic in float32; scales along an axis come from a table."""
        attrs: QuantizeAttrs = node.attrs
        (x,) = tensors_of(inputs)
        scale, zero_point = _parameters(target, attrs.output)
        bounds = np.iinfo(attrs.dtype)
        ties = "even" if attrs.rounding == "onnx" else "away"
        rounder = f"round_half_{ties}_f32"

        def small(*indices: Any) -> Any:
            # Rounding keeps order, and whole numbers: limits may come before it. No comparison
            # holds for a NaN, which goes to the low end as in ONNX Runtime.
            ratio = x[indices] / scale(indices)
            zero = attrs.output.zero_point[0]
            low, high = float(bounds.min - zero), float(bounds.max - zero)
            limited = select(ratio >= low, minimum(ratio, high), low)
            return cast(round_half_even(limited, max(-low, high)) + zero, attrs.dtype)

        def element(*indices: Any) -> Any:
            ratio = x[indices] / scale(indices)
            # Saturated far outside the result's range, so that adding the zero point cannot wrap.
            rounded = clamp(intrinsic(rounder, ratio), -(1 << 20), 1 << 20)
            rounded = select(ratio >= -float(1 << 20), rounded, -(1 << 20))
            stored = clamp(rounded + zero_point(indices), int(bounds.min), int(bounds.max))
            return cast(stored, attrs.dtype)

        is_small = ties == "even" and bounds.bits <= 16 and attrs.output.per_tensor
        return target.compute(
            "element", node.output.type.shape, attrs.dtype, small if is_small else element
        )

    def channels(self, attrs: QuantizeAttrs, inputs: Types, output: TensorType) -> Channels:
        """Each its own, unless parameters differ by channel."""
        quant = output.quant
        return Channels.SAME if quant is not None and quant.per_tensor else Channels.UNKNOWN

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """QuantizeLinear."""
        inputs, output, _ = out.tensors_of(node)
        parameters = out.parameters(output, node.attrs.output, node.attrs.dtype)
        out.emit("QuantizeLinear", [*inputs, *parameters], output)


@register
class Dequantize(Op[NoAttrs]):
    """Integers to float32; the parameters are the input's own."""

    name = "dequantize"
    fusion = Fusion.ELEMENTWISE
    storage = Storage.DEQUANTIZE
    onnx_of_stored = True

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same shape in float32."""
        (x,) = inputs
        if x.quant is None:
            raise TypeMismatch(f"dequantize needs a quantized input, not {x}")
        return (TensorType(x.shape, "float32"),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The same arithmetic in float32."""
        (x,) = tensors_of(inputs)
        quant = node.inputs[0].type.quant
        assert quant is not None
        scale, zero_point = _parameters(target, quant)
        return target.compute(
            "element",
            node.output.type.shape,
            "float32",
            lambda *at: cast(int32(x[at]) - zero_point(at), "float32") * scale(at),
        )

    def channels(self, attrs: NoAttrs, inputs: Types, output: TensorType) -> Channels:
        """Each its own, unless parameters differ by channel."""
        quant = inputs[0].quant
        return Channels.SAME if quant is not None and quant.per_tensor else Channels.UNKNOWN

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """DequantizeLinear. For a constant, each reader writes it, in the constant's order."""
        (stored,) = node.inputs
        if isinstance(stored, Constant):
            return
        inputs, output, _ = out.tensors_of(node)
        assert stored.type.quant is not None
        parameters = out.parameters(output, stored.type.quant, stored.type.dtype)
        out.emit("DequantizeLinear", [*inputs, *parameters], output)


def _onnx_quant(raw: RawNode, rank: int) -> tuple[Quant, str]:
    """Parameters and integer type of a QuantizeLinear or DequantizeLinear node."""
    scale, zero_point = constant_parameters(raw)
    if raw.attribute("block_size", 0):
        raise ImportFailed("blocks of values that are not constant cannot be dequantized")
    with np.errstate(invalid="ignore"):  # a NaN is refused below
        scales = tuple(float(s) for s in np.asarray(scale.data, np.float64).reshape(-1))
    if not all(0 < s < math.inf for s in scales):
        raise BadNode("a scale is not a positive finite number")
    zeros = (0,) * len(scales)
    dtype = OUTPUT_DTYPES.get(int(raw.attribute("output_dtype", 0)), "uint8")
    if zero_point is not None:
        zeros = tuple(int(z) for z in zero_point.data.reshape(-1))
        dtype = zero_point.type.dtype
    axis = int(raw.attribute("axis", 1)) % rank if len(scales) > 1 else None
    return Quant(scales, zeros, axis), dtype


@from_tflite("QUANTIZE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite QUANTIZE from floats, or from integers of one scale to integers of another."""
    (x,) = raw.operands(1)
    declared = raw.output_types[0]
    if declared is not None and x.type.dtype == "float32" and declared.quant is not None:
        if declared.dtype not in STORED:
            raise ImportFailed(f"float32 to {declared.dtype} is not supported")
        to_integers = QuantizeAttrs(declared.quant, declared.dtype, raw.rounding)
        return builder.op("quantize", [x], to_integers, name=raw.name)
    if declared is None or x.type.dtype not in STORED or declared.dtype not in STORED:
        raise ImportFailed(f"{x.type} to {declared} is not supported yet")
    if declared.quant is None:
        raise ImportFailed("the output is not quantized")
    (scale, _), (output, _) = x.type.scalar_quant(), declared.scalar_quant()
    info = np.iinfo(declared.dtype)
    attrs = RequantizeAttrs(
        multiplier=(scale / output,),
        output=declared.quant,
        minimum=int(info.min),
        maximum=int(info.max),
        rounding=raw.rounding,
        dtype=declared.dtype,
    )
    return builder.op("requantize", [x], attrs, name=raw.name)


@from_tflite("DEQUANTIZE")
def import_tflite_dequantize(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite DEQUANTIZE of integers, or of constants, which become float32 constants."""
    (x,) = raw.operands(1)
    if isinstance(x, Constant):
        data = x.data
        if x.type.dtype == "float16":
            return builder.constant(raw.name, data.astype(np.float32))
        if x.type.dtype == "float32":  # of a sparse constant that is dense by now
            return x
    if x.type.quant is None or x.type.dtype not in STORED:
        raise ImportFailed(f"{x.type} is not supported")
    return builder.op("dequantize", [x], name=raw.name)


@from_tflite("DENSIFY")
def import_densify(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite DENSIFY of a sparse constant; the file reader already made it dense."""
    (x,) = raw.operands(1)
    if not isinstance(x, Constant):
        raise ImportFailed("only constants can be sparse")
    return x


@from_onnx("QuantizeLinear", since=10)
def import_quantize(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX QuantizeLinear with constant parameters; of constants, the integers that it makes."""
    x = raw.operand(0)
    quant, dtype = _onnx_quant(raw, len(x.type.shape))
    if isinstance(x, Constant):
        attrs = QuantizeAttrs(quant, dtype)
        types = Quantize().infer(attrs, x.type)
        (stored,) = Quantize().evaluate(attrs, [x.data], [x.type], types)
        return builder.constant(raw.name, stored, quant, Origin(raw.outputs[0], x.type.shape))
    return builder.op("quantize", [x], QuantizeAttrs(quant, dtype), name=raw.name)


@from_onnx("DequantizeLinear", since=10)
def import_dequantize(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX DequantizeLinear of a constant, or of a QuantizeLinear's result."""
    x = raw.operand(0)
    if raw.attribute("block_size", 0) and isinstance(x, Constant):
        return import_blocks(builder, raw, x)
    quant, _ = _onnx_quant(raw, len(x.type.shape))
    if isinstance(x, Constant):
        data = x.data
        if x.type.dtype == "uint8":  # operators know weights of int8
            data = (data.astype(np.int16) - 128).astype(np.int8)
            quant = replace(quant, zero_point=tuple(zero - 128 for zero in quant.zero_point))
        x = builder.constant(x.name, data, quant, x.origin)
    elif x.type.quant != quant:
        raise ImportFailed(
            f"{x.name} was quantized with {x.type.quant} but is dequantized with {quant}"
        )
    return builder.op("dequantize", [x], name=raw.name)
