"""resize: height and width of an image scaled, by nearest neighbour or bilinear interpolation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Channels, IntegerForm, Interval, Operand, StoredAs
from edgec.graph.types import Array, Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, saturate, select
from edgec.numerics.fixed_point import IntArray, Rounding
from edgec.ops.add import AddAttrs
from edgec.ops.broadcast import tensors_of
from edgec.ops.intervals import of_elements
from edgec.ops.onnx_bilinear import (
    Axis,
    find_axis,
    find_axis_by_extent,
    find_open_axis,
    lower_floats,
    lower_interpolation,
)
from edgec.ops.onnx_graph import TO_FIRST, OnnxGraph
from edgec.ops.op import Op, RawNode, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.slice import constant_integers
from edgec.ops.window import Pair

FloatArray = npt.NDArray[np.float32]

#: Fraction bits of TFLite's integer bilinear interpolation along one axis.
FRACTION_BITS = 10
#: Dtypes of the bilinear method, and the dtypes of their sums.
BILINEAR = {"int8": "int32", "int16": "int64", "float32": "float32"}
#: Most entries of a table that has a row for each extent of an open axis.
MOST_ENTRIES = 1 << 16
METHODS = ("nearest", "bilinear")
#: ONNX's words for (align_corners, half_pixel_centers): of coordinates, and of nearest pixels.
_COORDINATES = {
    (False, False): ("asymmetric", "floor"),
    (True, False): ("align_corners", "round_prefer_ceil"),
    (False, True): ("half_pixel", "round_prefer_ceil"),
}


@dataclass(frozen=True)
class ResizeAttrs:
    """size: the new (height, width). method: one of METHODS.

    align_corners: the corner pixels keep their places. half_pixel_centers: pixels are squares whose
    centres are scaled; not together with align_corners. rounding: of the bilinear method; `onnx`
    equals ONNX Runtime's floats, for int8 between QDQ nodes; all others are TFLite's. fixed: the
    axes of an open image whose new size is the same for images of all sizes.
    """

    size: Pair
    method: str
    align_corners: bool = False
    half_pixel_centers: bool = False
    rounding: Rounding = "tflm"
    fixed: tuple[int, ...] = ()

    @property
    def is_onnx(self) -> bool:
        """Whether it is interpolated as ONNX Runtime does."""
        return self.rounding == "onnx" and self.method == "bilinear"


def nearest_positions(extent: int, size: int, attrs: ResizeAttrs) -> IntArray:
    """The source position of each new position, in float32 as TFLite's GetNearestNeighbor."""
    single = np.float32
    if attrs.align_corners and size > 1:
        scale = single(extent - 1) / single(size - 1)
    else:
        scale = single(extent) / single(size)
    offset = single(0.5 if attrs.half_pixel_centers else 0.0)
    place = (np.arange(size).astype(single) + offset) * scale
    rounded = np.floor(place + single(0.5)) if attrs.align_corners else np.floor(place)
    positions: IntArray = np.clip(rounded.astype(np.int64), 0, extent - 1)
    return positions


def bilinear_positions(
    extent: int, size: int, attrs: ResizeAttrs
) -> tuple[IntArray, IntArray, IntArray]:
    """(lower, upper, weight of the upper): for each new position, weights in 2**-FRACTION_BITS.

    Source: ComputeInterpolationValuesInteger in TFLite's resize_bilinear.h. The weight is the
    scaled place less the lower position, which is negative left of the first centre.
    """
    one = 1 << FRACTION_BITS
    scale = (one * extent + size // 2) // size
    if attrs.align_corners and size > 1:
        scale = (one * (extent - 1) + (size - 1) // 2) // (size - 1)
    place = np.arange(size, dtype=np.int64) * scale
    if attrs.half_pixel_centers:
        place = place + scale // 2 - one // 2
    # C's division truncates; the maximum with 0 makes negative numbers right.
    lower = np.maximum(np.where(place < 0, 0, place // one), 0)
    above = place + one - 1
    upper = np.minimum(np.where(above < 0, -(-above // one), above // one), extent - 1)
    return np.minimum(lower, extent - 1), upper, place - lower * one


def float_positions(
    extent: int, size: int, attrs: ResizeAttrs
) -> tuple[IntArray, IntArray, FloatArray]:
    """(lower, upper, float32 weight of the upper): for each new position.

    Source: ComputeInterpolationValues in TFLite's resize_bilinear.h, in float32.
    """
    single = np.float32
    scale = single(extent) / single(size)
    if attrs.align_corners and size > 1:
        scale = single(extent - 1) / single(size - 1)
    place = np.arange(size).astype(single)
    if attrs.half_pixel_centers:
        place = (place + single(0.5)) * scale - single(0.5)
    else:
        place = place * scale
    lower = np.maximum(np.floor(place).astype(np.int64), 0)
    upper = np.minimum(np.ceil(place).astype(np.int64), extent - 1)
    lower = np.minimum(lower, extent - 1)
    return lower, upper, place - lower.astype(single)


@register
class Resize(Op[ResizeAttrs]):
    """x [N, H, W, C] -> [N, *size, C]: any dtype by nearest neighbour; bilinear of BILINEAR."""

    name = "resize"
    attrs_class = ResizeAttrs
    fusion = Fusion.INJECTIVE
    tolerance = 5e-7
    onnx_of_stored = False  # its rounding of integers is TFLite's
    integer_form = IntegerForm.SHARED

    def attrs_at(self, attrs: ResizeAttrs, largest: Types, inputs: Types) -> ResizeAttrs:
        """A size that is a whole multiple stays that, unless it is fixed."""
        height, width = (
            size // largest[0].shape[axis] * inputs[0].shape[axis]
            if size % largest[0].shape[axis] == 0 and axis not in attrs.fixed
            else size
            for axis, size in enumerate(attrs.size, start=1)
        )
        return replace(attrs, size=(height, width))

    def attrs_of_two(
        self, attrs: ResizeAttrs, other: ResizeAttrs, largest: Types, inputs: Types
    ) -> ResizeAttrs:
        """Axes are fixed that have one new size while the old ones differ."""
        sizes = zip((1, 2), attrs.size, other.size, strict=True)
        shapes = largest[0].shape, inputs[0].shape
        fixed = (a for a, size, new in sizes if size == new and shapes[0][a] != shapes[1][a])
        return replace(attrs, fixed=tuple(fixed))

    def infer(self, attrs: ResizeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The new height and width; quantization stays."""
        (x,) = inputs
        if len(x.shape) != 4 or min(attrs.size) < 1:
            raise TypeMismatch(f"resize of {x} to {attrs.size}")
        if attrs.method not in METHODS:
            raise TypeMismatch(f"unknown method {attrs.method!r}")
        if attrs.align_corners and attrs.half_pixel_centers:
            raise TypeMismatch("resize with aligned corners and half-pixel centres")
        if attrs.method == "bilinear" and x.dtype not in BILINEAR:
            raise TypeMismatch(
                f"bilinear resize of {x.dtype}: only {', '.join(BILINEAR)} are supported"
            )
        is_int8 = x.dtype == "int8" and x.quant is not None and x.quant.per_tensor
        if attrs.is_onnx and not (x.is_float or is_int8):
            raise TypeMismatch(f"resize of {x} with rounding 'onnx' needs int8 of one scale")
        return (x.with_shape((x.shape[0], *attrs.size, x.shape[3])),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Positions come from tables, except where a whole factor repeats pixels."""
        attrs: ResizeAttrs = node.attrs
        (x,) = tensors_of(inputs)
        shape = node.output.type.shape
        quant: Quant | None = node.inputs[0].type.quant
        if attrs.is_onnx:
            axes = _axes(node, target)
            if quant is None:
                return lower_floats(target, x, *axes, shape)
            return lower_interpolation(target, x, *axes, quant, shape)
        if attrs.method == "bilinear":
            return _lower_bilinear(node, target, x)
        row, column = (_nearest_index(node, target, axis) for axis in (1, 2))
        return target.compute(
            "element", shape, x.dtype, lambda n, h, w, c: x[n, row(h), column(w), c]
        )

    def channels(self, attrs: ResizeAttrs, inputs: Types, output: TensorType) -> Channels:
        """Rows and columns alone are interpolated."""
        return Channels.SAME

    def attrs_for_integers(
        self, attrs: ResizeAttrs, inputs: Types, result: StoredAs
    ) -> ResizeAttrs | None:
        """Bilinear of one scale: of int16 in LiteRT's fixed point."""
        if attrs.method == "nearest":
            return attrs
        if not result.quant.per_tensor:
            return None
        return replace(attrs, rounding=result.rounding)

    def interval(
        self, attrs: ResizeAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """Elements or means of them."""
        return of_elements(operands[0], output)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Resize."""
        attrs = node.attrs
        shape = [node.output.type.shape[axis] for axis in TO_FIRST]
        operands = [out.first(node.inputs[0]), "", ""]
        output = out.define_first(node.output)
        operands.append(out.initializer(f"{output}.sizes", np.asarray(shape, np.int64)))
        coordinates, nearest = _COORDINATES[attrs.align_corners, attrs.half_pixel_centers]
        kind = {"mode": "linear"}
        if attrs.method == "nearest":
            kind = {"mode": "nearest", "nearest_mode": nearest}
        out.emit("Resize", operands, output, coordinate_transformation_mode=coordinates, **kind)


def _axes(node: Node, target: Lowering) -> tuple[Axis, Axis]:
    """Rows and columns of an interpolation with rounding `onnx`.

    With open sizes, the tables of all sizes begin with the same entries.
    """
    attrs: ResizeAttrs = node.attrs
    how = attrs.align_corners, attrs.half_pixel_centers
    found = []
    for axis, extent, size in zip((1, 2), node.inputs[0].type.shape[1:3], attrs.size, strict=True):
        if _is_by_extent(node, target, axis):
            found.append(find_axis_by_extent(extent, size, *how))
        elif target.is_open and size % extent == 0 and not attrs.align_corners:
            found.append(find_open_axis(extent, size, attrs.half_pixel_centers))
        else:
            found.append(find_axis(extent, size, *how))
    rows, columns = found
    return rows, columns


def _is_by_extent(node: Node, target: Lowering, axis: int) -> bool:
    """Whether an open axis becomes one of a fixed size, by tables of a row for each extent."""
    x, output = node.inputs[0], node.output
    is_fixed = target.is_open_along(x.name, axis) and not target.is_open_along(output.name, axis)
    return is_fixed and (x.type.shape[axis] + 1) * output.type.shape[axis] <= MOST_ENTRIES


def _table(
    node: Node, target: Lowering, axis: int, name: str, of: Callable[[int], Array]
) -> Callable[[Any], Value]:
    """A function from a new position to its table entry; of: the table by the extent."""
    name, extent = f"{('row', 'column')[axis - 1]}{name}", node.inputs[0].type.shape[axis]
    if not _is_by_extent(node, target, axis):
        table = target.table(name, of(extent))
        return lambda at: table[at]
    rows = target.table(name, np.stack([of(max(each, 1)) for each in range(extent + 1)]))
    return lambda at: rows[extent, at]


def _nearest_index(node: Node, target: Lowering, axis: int) -> Any:
    """A function from a new position to its source position."""
    attrs: ResizeAttrs = node.attrs
    extent, size = node.inputs[0].type.shape[axis], attrs.size[axis - 1]
    factor, places = size // extent, nearest_positions(extent, size, attrs)
    is_factor = size % extent == 0 and np.array_equal(places, np.arange(size) // factor)
    if is_factor and not _is_by_extent(node, target, axis):
        return lambda at: at // factor
    return _table(
        node, target, axis, "", lambda each: nearest_positions(each, size, attrs).astype(np.int32)
    )


def _lower_bilinear(node: Node, target: Lowering, x: Tensor) -> Tensor:
    """Four products of an element and its two weights, added up in this order."""
    attrs: ResizeAttrs = node.attrs
    dtype = x.dtype
    wide = BILINEAR[dtype]
    positions: Any = float_positions if dtype == "float32" else bilinear_positions
    one: float = 1.0 if dtype == "float32" else 1 << FRACTION_BITS

    def axis(of: int) -> list[Callable[[Any], Value]]:
        parts = ("_low", np.int32), ("_high", np.int32), ("_weight", np.dtype(wide))

        def table(at: int) -> Callable[[Any], Value]:
            def array(extent: int) -> Array:
                return np.asarray(positions(extent, attrs.size[of - 1], attrs)[at], parts[at][1])

            return _table(node, target, of, parts[at][0], array)

        return [table(at) for at in range(len(parts))]

    (top, bottom, down), (left, right, across) = axis(1), axis(2)

    def element(n: Any, h: Any, w: Any, c: Any) -> Value:
        def part(row: Value, column: Value, vertical: Value, horizontal: Value) -> Value:
            return cast(x[n, row, column, c], wide) * vertical * horizontal

        # Of int8: |x| <= 2**7 and weights sum to 2**20, so 32 bits hold the sum and its rounding.
        total = (
            part(top(h), left(w), one - down(h), one - across(w))
            + part(bottom(h), left(w), down(h), one - across(w))
            + part(top(h), right(w), one - down(h), across(w))
            + part(bottom(h), right(w), down(h), across(w))
        )
        if wide == "float32":
            return total
        half = 1 << (2 * FRACTION_BITS - 1)
        rounded = select(total > 0, total + half, total - half) / (1 << 2 * FRACTION_BITS)
        return saturate(rounded, dtype)

    return target.compute("element", node.output.type.shape, dtype, element)


def _import_tflite(kind: str, method: str) -> None:
    @from_tflite(kind)
    def importer(builder: GraphBuilder, raw: RawNode) -> GraphValue:
        x = raw.operand(0)
        size = constant_integers(raw.operand(1), "the size")
        if len(size) != 2 or math.prod(size) < 1:
            raise ImportFailed(f"size {size}")
        attrs = ResizeAttrs(
            (size[0], size[1]),
            method,
            raw.attribute("align_corners"),
            raw.attribute("half_pixel_centers"),
        )
        if raw.unsigned and method == "bilinear":
            return _append_unsigned(builder, raw, attrs)
        return builder.op("resize", [x], attrs, name=raw.name)


def _append_unsigned(builder: GraphBuilder, raw: RawNode, attrs: ResizeAttrs) -> GraphValue:
    """Resize uint8: TFLite interpolates the stored numbers in float32 and rounds halves up."""
    x, parts, declared = raw.operand(0), Parts(builder, raw), raw.declared()
    numbers = parts.cast(parts.numbers(x, 128), "float32", "floats")
    between = parts.op("resize", [numbers], attrs, "between")
    half = parts.table(0.5, "half", "float32")
    whole = parts.cast(parts.op("add", [between, half], AddAttrs(), "raised"), "int32", "whole")
    quant, zero = declared.quant, parts.table(declared.scalar_quant()[1] + 128, "zero_point")
    assert quant is not None
    store = RequantizeAttrs((1.0,), quant, -128, 127, "tflm", "int8")
    return parts.op("requantize", [parts.op("int_sub", [whole, zero], what="moved")], store)


_import_tflite("RESIZE_NEAREST_NEIGHBOR", "nearest")
_import_tflite("RESIZE_BILINEAR", "bilinear")
