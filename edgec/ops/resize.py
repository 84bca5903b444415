"""resize: height and width of an image scaled, by nearest neighbour or bilinear interpolation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.fixed_point import IntArray
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node
from edgec.graph.op import Fusion, Op, RawNode, from_tflite, register
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int32, select
from edgec.ops.slice import constant_integers
from edgec.ops.window import Pair

#: Fraction bits of TFLite's integer bilinear interpolation along one axis.
FRACTION_BITS = 10
METHODS = ("nearest", "bilinear")


@dataclass(frozen=True)
class ResizeAttrs:
    """size: the new (height, width). method: one of METHODS.

    align_corners: the corner pixels keep their places. half_pixel_centers: pixels are squares
    whose centres are scaled; not together with align_corners.
    """

    size: Pair
    method: str
    align_corners: bool = False
    half_pixel_centers: bool = False


def nearest_positions(extent: int, size: int, attrs: ResizeAttrs) -> IntArray:
    """For each new position the one it is read from, in float32 as TFLite's GetNearestNeighbor."""
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
    # C's division truncates; what is below zero becomes zero by it or by the maximum.
    lower = np.maximum(np.where(place < 0, 0, place // one), 0)
    above = place + one - 1
    upper = np.minimum(np.where(above < 0, -(-above // one), above // one), extent - 1)
    return np.minimum(lower, extent - 1), upper, place - lower * one


@register
class Resize(Op[ResizeAttrs]):
    """x [N, H, W, C] -> [N, *size, C]: any dtype by nearest neighbour, int8 bilinear."""

    name = "resize"
    attrs_class = ResizeAttrs
    fusion = Fusion.INJECTIVE

    def infer(self, attrs: ResizeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The new height and width; quantization stays."""
        (x,) = inputs
        if len(x.shape) != 4 or min(attrs.size) < 1:
            raise TypeMismatch(f"resize of {x} to {attrs.size}")
        if attrs.method not in METHODS:
            raise TypeMismatch(f"unknown method {attrs.method!r}")
        if attrs.align_corners and attrs.half_pixel_centers:
            raise TypeMismatch("resize with aligned corners and half-pixel centres")
        if attrs.method == "bilinear" and x.dtype != "int8":
            raise TypeMismatch(f"bilinear resize of {x.dtype}: only int8 is supported yet")
        return (x.with_shape((x.shape[0], *attrs.size, x.shape[3])),)

    def evaluate(
        self,
        attrs: ResizeAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """Rows and columns chosen; bilinear with 20 fraction bits, ties away from zero."""
        x = inputs[0]
        if attrs.method == "nearest":
            rows = nearest_positions(x.shape[1], attrs.size[0], attrs)
            columns = nearest_positions(x.shape[2], attrs.size[1], attrs)
            return (np.ascontiguousarray(x[:, rows][:, :, columns]),)
        one = 1 << FRACTION_BITS
        top, bottom, down = bilinear_positions(x.shape[1], attrs.size[0], attrs)
        left, right, across = bilinear_positions(x.shape[2], attrs.size[1], attrs)
        wide = x.astype(np.int64)
        down, across = down[:, None, None], across[:, None]
        total = (
            wide[:, top][:, :, left] * (one - down) * (one - across)
            + wide[:, bottom][:, :, left] * down * (one - across)
            + wide[:, top][:, :, right] * (one - down) * across
            + wide[:, bottom][:, :, right] * down * across
        )
        half = 1 << (2 * FRACTION_BITS - 1)
        rounded = np.where(
            total > 0, (total + half) >> 2 * FRACTION_BITS, -((half - total) >> 2 * FRACTION_BITS)
        )
        return (rounded.astype(x.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Any]) -> Tensor:
        """Positions come from tables, except where a whole factor repeats pixels."""
        attrs: ResizeAttrs = node.attrs
        (x,) = inputs
        _, height, width, _ = x.shape
        shape = node.output.type.shape
        if attrs.method == "bilinear":
            return _lower_bilinear(node, target, x)
        row = _nearest_index(target, "row", height, attrs.size[0], attrs)
        column = _nearest_index(target, "column", width, attrs.size[1], attrs)
        return target.compute(
            "element", shape, x.dtype, lambda n, h, w, c: x[n, row(h), column(w), c]
        )


def _nearest_index(target: Lowering, name: str, extent: int, size: int, attrs: ResizeAttrs) -> Any:
    """A function from a new position to the one it is read from."""
    positions = nearest_positions(extent, size, attrs)
    factor = size // extent
    if size % extent == 0 and np.array_equal(positions, np.arange(size) // factor):
        return lambda at: at // factor
    table = target.table(name, positions.astype(np.int32))
    return lambda at: table[at]


def _lower_bilinear(node: Node, target: Lowering, x: Tensor) -> Tensor:
    attrs: ResizeAttrs = node.attrs
    one = 1 << FRACTION_BITS

    def axis(name: str, extent: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
        parts = bilinear_positions(extent, size, attrs)
        names = (f"{name}_low", f"{name}_high", f"{name}_weight")
        low, high, weight = (
            target.table(each, part.astype(np.int32))
            for each, part in zip(names, parts, strict=True)
        )
        return low, high, weight

    top, bottom, down = axis("row", x.shape[1], attrs.size[0])
    left, right, across = axis("column", x.shape[2], attrs.size[1])

    def element(n: Any, h: Any, w: Any, c: Any) -> Value:
        # |x| <= 2**7 and weights sum to 2**20: 32 bits hold the sum with its rounding.
        def read(row: Tensor, column: Tensor) -> Value:
            return int32(x[n, row[h], column[w], c])

        upper = read(top, left) * (one - across[w]) + read(top, right) * across[w]
        lower = read(bottom, left) * (one - across[w]) + read(bottom, right) * across[w]
        total = upper * (one - down[h]) + lower * down[h]
        half = 1 << (2 * FRACTION_BITS - 1)
        rounded = select(total > 0, total + half, total - half) / (1 << 2 * FRACTION_BITS)
        return cast(clamp(rounded, -128, 127), "int8")

    return target.compute("element", node.output.type.shape, "int8", element)


def _import_tflite(kind: str, method: str) -> None:
    @from_tflite(kind)
    def importer(builder: GraphBuilder, raw: RawNode) -> Any:
        x = raw.inputs[0]
        size = constant_integers(raw.inputs[1], "the size")
        if len(size) != 2 or math.prod(size) < 1:
            raise ImportFailed(f"size {size}")
        attrs = ResizeAttrs(
            (size[0], size[1]),
            method,
            raw.attribute("align_corners"),
            raw.attribute("half_pixel_centers"),
        )
        return builder.op("resize", [x], attrs, name=raw.name)


_import_tflite("RESIZE_NEAREST_NEIGHBOR", "nearest")
_import_tflite("RESIZE_BILINEAR", "bilinear")
