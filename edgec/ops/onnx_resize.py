"""ONNX Resize of images, where it takes the pixels that `edgec.ops.resize` takes."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.onnx_layout import channels_first, channels_last
from edgec.ops.op import NotConstant, RawNode
from edgec.ops.resize import ResizeAttrs, nearest_positions

#: (align_corners, half_pixel_centers) of the transformations of coordinates that are known.
_MODES = {
    "asymmetric": (False, False),
    "align_corners": (True, False),
    "half_pixel": (False, True),
    "pytorch_half_pixel": (False, True),
}
_HALF = Fraction(1, 2)
#: How a place between two pixels is rounded.
_ROUND: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda place: math.ceil(place - _HALF),
    "round_prefer_ceil": lambda place: math.floor(place + _HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


def import_image(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Resize of height and width to a constant size.

    Scales must result in integer extents, since ONNX computes positions from the scale and not from
    the extents.
    """
    x = raw.operand(0)
    if len(x.type.shape) != 4:
        raise ImportFailed(f"an input of rank {len(x.type.shape)}: only 2-D images are known")
    height, width = _size(raw)
    kind = raw.attribute("mode", "nearest")
    default = "half_pixel" if raw.opset >= 11 else "asymmetric"
    transformation = raw.attribute("coordinate_transformation_mode", default)
    if transformation not in _MODES or kind not in ("nearest", "linear"):
        raise ImportFailed(f"mode {kind} with coordinates {transformation}")
    _check_plain(raw)
    if transformation == "pytorch_half_pixel" and 1 in (height, width):
        raise ImportFailed("coordinates pytorch_half_pixel to an extent of 1")
    if kind == "linear":
        attrs = ResizeAttrs((height, width), "bilinear", *_MODES[transformation], rounding="onnx")
    else:
        attrs = _nearest(raw, (height, width), transformation)
    last = channels_last(builder, x)
    made = builder.op("resize", [last], attrs, name=raw.name, output_names=[f"{raw.name}.nhwc"])
    return channels_first(builder, made, raw)


def _nearest(raw: RawNode, size: tuple[int, int], transformation: str) -> ResizeAttrs:
    extents = raw.operand(0).type.shape[2:]
    rounding = raw.attribute("nearest_mode", "round_prefer_floor" if raw.opset >= 11 else
                             "floor")  # fmt: skip
    if rounding not in _ROUND:
        raise ImportFailed(f"nearest_mode {rounding}")
    wanted = [
        _places(extent, new, transformation, _ROUND[rounding])
        for extent, new in zip(extents, size, strict=True)
    ]
    return _nearest_like(extents, size, wanted)


def _check_plain(raw: RawNode) -> None:
    is_plain = raw.attribute("keep_aspect_ratio_policy", "stretch") == "stretch"
    if raw.attribute("antialias", 0) or raw.attribute("axes") is not None or not is_plain:
        raise ImportFailed("antialias, axes and aspect-ratio policies are not supported here")


def _size(raw: RawNode) -> tuple[int, int]:
    """The new height and width, of constant sizes or scales."""
    shape = raw.operand(0).type.shape
    inputs: tuple[Value | None, ...] = (*raw.inputs, None, None, None)
    scales, sizes = (inputs[2], inputs[3]) if raw.opset >= 11 else (inputs[1], None)
    if sizes is not None and sizes.type.elements:
        if not isinstance(sizes, Constant):
            raise NotConstant("the size must be constant", sizes if sizes is not None else scales)
        found = [int(size) for size in sizes.data.reshape(-1)]
    elif isinstance(scales, Constant) and scales.data.size == len(shape):
        exact = [n * float(scale) for n, scale in zip(shape, scales.data.reshape(-1), strict=True)]
        if any(value != round(value) for value in exact):
            raise ImportFailed(f"scales {scales.data.tolist()} of {list(shape)}: no whole extents")
        found = [round(value) for value in exact]
    else:
        raise NotConstant("the size must be constant", sizes if sizes is not None else scales)
    if len(found) != 4 or tuple(found[:2]) != shape[:2] or min(found) < 1:
        raise ImportFailed(f"from {list(shape)} to {found}: only height and width may change")
    return found[2], found[3]


def _places(
    extent: int, size: int, transformation: str, rounded: Callable[[Fraction], int]
) -> np.ndarray[Any, Any]:
    """The source position of each new position, exactly as ONNX defines it."""
    scale = Fraction(extent, size)
    if transformation == "asymmetric":
        places = [n * scale for n in range(size)]
    elif transformation == "align_corners":
        places = [n * Fraction(extent - 1, size - 1) if size > 1 else Fraction(0)
                  for n in range(size)]  # fmt: skip
    else:
        places = [(n + _HALF) * scale - _HALF for n in range(size)]
    return np.asarray([min(max(rounded(place), 0), extent - 1) for place in places])


def _nearest_like(
    extents: tuple[int, ...], size: tuple[int, int], wanted: list[np.ndarray[Any, Any]]
) -> ResizeAttrs:
    """Attributes that choose the same pixels along both axes."""
    for align, half in ((False, False), (False, True), (True, False)):
        attrs = ResizeAttrs(size, "nearest", align, half)
        if all(
            np.array_equal(nearest_positions(extent, new, attrs), places)
            for extent, new, places in zip(extents, size, wanted, strict=True)
        ):
            return attrs
    raise ImportFailed("its rounding of positions between pixels is not supported")
