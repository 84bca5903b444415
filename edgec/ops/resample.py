"""resample: new positions along an axis as weighted sums of elements; ONNX Resize in all its forms.

Each axis is a sum of its own. A coordinate x of the input lies between the elements L and L + 1,
where L < x <= L + 1; both, or more around them, are weighted. Outside the input, the element at the
edge counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import int32
from edgec.numerics.work import keep
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.onnx_resize import import_image
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.row import FLOATS
from edgec.ops.scattered import AxisAttrs

FloatArray = npt.NDArray[Any]


@register
class Resample(Op[AxisAttrs]):
    """x, positions int32 [size, taps] within the axis and weights of x's dtype [size, taps]."""

    name = "resample"
    attrs_class = AxisAttrs
    fusion = Fusion.OPAQUE
    tolerance = 1e-6

    def infer(self, attrs: AxisAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The new extent in place of the axis."""
        x, positions, weights = inputs
        if x.dtype not in FLOATS or weights.dtype != x.dtype or positions.dtype != "int32":
            raise TypeMismatch(f"resample of {x} by {positions} and {weights}")
        if len(positions.shape) != 2 or positions.shape != weights.shape:
            raise TypeMismatch(f"resample by {positions} and {weights}")
        if not 0 <= attrs.axis < len(x.shape) or not x.shape[attrs.axis]:
            raise TypeMismatch(f"resample along axis {attrs.axis} of {x}")
        axis = attrs.axis
        return (x.with_shape((*x.shape[:axis], positions.shape[0], *x.shape[axis + 1 :])),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One sum for each element, in the order of the positions."""
        x, positions, weights = operand_tensors(target, inputs)
        axis = node.attrs.axis

        def update(acc: Any, *at: Any) -> Any:
            k, here = at[-1], at[axis]
            source = (*at[:axis], int32(positions[here, k]), *at[axis + 1 : -1])
            return acc + x[source] * weights[here, k]

        shape = node.output.type.shape
        steps = [("k", 0, positions.shape[1])]
        return target.reduce("acc", shape, x.dtype, steps, init=lambda *at: 0, update=update)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Writes the sums: Gather by positions, Mul by weights, ReduceSum."""
        x, positions, weights = node.inputs
        if not isinstance(weights, Constant):
            raise ImportFailed(f"{node.name}: its weights are computed")
        axis, rank = node.attrs.axis, len(x.type.shape)
        line = (*weights.type.shape, *(1 for _ in range(rank - 1 - axis)))
        output = out.define_own(node.output)
        taken, parts = (out.fresh(f"{output}.{what}") for what in ("taken", "parts"))
        by = out.initializer(f"{output}.weights", weights.data.reshape(line))
        along = out.initializer(f"{output}.axis", np.asarray([axis + 1], np.int64))
        out.emit("Gather", [out.own(x), out.own(positions)], taken, axis=axis)
        out.emit("Mul", [taken, by], parts)
        out.emit("ReduceSum", [parts, along], output, keepdims=0)


@dataclass(frozen=True)
class Scaling:
    """Scaling of one axis: its extents, the scale, and the part of it that is taken."""

    axis: int
    extent: int
    size: int
    scale: float
    part: tuple[float, float] = (0.0, 1.0)


def _half_pixel(n: FloatArray, by: Scaling) -> FloatArray:
    return (n + 0.5) / by.scale - 0.5


def _corners(n: FloatArray, by: Scaling) -> FloatArray:
    length = by.scale * by.extent
    return n * 0.0 if length == 1 else n * (by.extent - 1) / (length - 1)


def _crop(n: FloatArray, by: Scaling) -> FloatArray:
    (first, last), most, length = by.part, by.extent - 1, by.scale * by.extent
    within = n * 0.0 + most / 2 if length == 1 else n * most / (length - 1)
    return within * (last - first) + first * most


def _symmetric(n: FloatArray, by: Scaling) -> FloatArray:
    kept = by.size / (by.scale * by.extent)
    return by.extent / 2 * (1 - kept) + _half_pixel(n, by)


#: The coordinate in the input of each new position, by ONNX's name.
COORDINATES: dict[str, Callable[[FloatArray, Scaling], FloatArray]] = {
    "half_pixel": _half_pixel,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda n, by: n - 0.5 if by.size == 1 else _half_pixel(n, by),
    "asymmetric": lambda n, by: n / by.scale,
    "align_corners": _corners,
    "tf_crop_and_resize": _crop,
}
#: Whether the right one of two elements is nearest, of the part of the way to it, in (0, 1].
_TAKES_RIGHT: dict[str, Callable[[FloatArray], npt.NDArray[np.bool_]]] = {
    "round_prefer_floor": lambda part: part > 0.5,
    "round_prefer_ceil": lambda part: part >= 0.5,
    "floor": lambda part: part >= 1,
    "ceil": lambda part: part > 0,
}


def _linear(distance: FloatArray) -> FloatArray:
    return np.asarray(np.clip(1 - distance, 0, 1))


def _cubic(distance: FloatArray, a: float) -> FloatArray:
    """Keys' kernel. Source: R. Keys, "Cubic convolution interpolation", 1981."""
    x = distance
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


#: Fraction bits of coordinates, distances, weights, and intermediate sums.
_BYTES_PER_TAP = 6 * 8


def taps(
    raw: RawNode, mode: str, positions: FloatArray, by: Scaling
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """(positions, weights) [size, taps] of linear and cubic sums."""
    reach = 2 if mode == "cubic" else 1
    narrow = min(by.scale, 1.0) if raw.attribute("antialias", 0) else 1.0
    count = -math.floor(-reach / narrow)  # elements on each side
    keep(positions.size * 2 * count * _BYTES_PER_TAP)
    left = np.ceil(positions).astype(np.int64) - 1
    around = left[:, None] + np.arange(1 - count, count + 1)
    distance = np.abs(around - positions[:, None]) * narrow
    cubic = float(raw.attribute("cubic_coeff_a", -0.75))
    weights = _cubic(distance, cubic) if mode == "cubic" else _linear(distance)
    if raw.attribute("exclude_outside", 0):
        weights = np.where((around >= 0) & (around < by.extent), weights, 0.0)
    weights = weights / weights.sum(axis=1, keepdims=True)
    return np.clip(around, 0, by.extent - 1), weights


def _nearest(raw: RawNode, positions: FloatArray, by: Scaling) -> npt.NDArray[np.int64]:
    default = "round_prefer_floor" if raw.opset >= 11 else "floor"
    kind = raw.attribute("nearest_mode", default)
    if kind not in _TAKES_RIGHT:
        raise ImportFailed(f"nearest_mode {kind!r} is unknown")
    left = np.ceil(positions).astype(np.int64) - 1
    return np.clip(left + _TAKES_RIGHT[kind](positions - left), 0, by.extent - 1)


def _numbers(raw: RawNode, position: int, what: str) -> list[float]:
    """The numbers of a constant operand; none where it is absent."""
    if raw.optional(position) is None:
        return []
    return [float(v) for v in raw.constant(position, what).data.reshape(-1)]


def _from_sizes(
    raw: RawNode, extents: Sequence[int], sizes: list[float]
) -> tuple[list[float], list[float]]:
    """(scales, sizes) as the policy of the aspect ratio says."""
    scales = [size / extent for size, extent in zip(sizes, extents, strict=True)]
    policy = raw.attribute("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return scales, sizes
    chosen = (min if policy == "not_larger" else max)(scales)
    return [chosen] * len(scales), [float(int(chosen * extent + 0.5)) for extent in extents]


def _parts(raw: RawNode, count: int) -> list[tuple[float, float]]:
    """The part of each axis that is taken: all, unless the image is cropped."""
    crops = raw.attribute("coordinate_transformation_mode", "") == "tf_crop_and_resize"
    roi = _numbers(raw, 1, "the region") if crops else []
    if len(roi) != 2 * count:
        return [(0.0, 1.0)] * count
    return list(zip(roi[:count], roi[count:], strict=True))


def scalings(raw: RawNode) -> list[Scaling]:
    """The scaling of each axis that Resize names, from constant scales or sizes."""
    shape = raw.operand(0).type.shape
    rank, first = len(shape), 2 if raw.opset >= 11 else 1
    axes = [int(axis) % rank for axis in raw.attribute("axes", tuple(range(rank)))]
    scales, sizes = _numbers(raw, first, "the scales"), _numbers(raw, 3, "the sizes")
    if len(sizes or scales) != len(axes):
        raise ImportFailed(f"{len(sizes or scales)} sizes or scales for {len(axes)} axes")
    extents = [shape[axis] for axis in axes]
    if sizes:
        scales, sizes = _from_sizes(raw, extents, sizes)
    else:
        sizes = [math.floor(scale * extent) for scale, extent in zip(scales, extents, strict=True)]
    if min(sizes, default=1) < 1:
        raise ImportFailed(f"a size of {min(sizes):g}")
    parts = _parts(raw, len(axes))
    lines = zip(axes, extents, sizes, scales, parts, strict=True)
    return [Scaling(axis, extent, int(size), scale, part)
            for axis, extent, size, scale, part in lines]  # fmt: skip


@from_onnx("Resize", since=10)
def import_resize(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Resize: of images as `edgec.ops.resize` where that is the same, else axis by axis."""
    mode = raw.attribute("mode", "nearest")
    default = "half_pixel" if raw.opset >= 11 else "asymmetric"
    coordinates = raw.attribute("coordinate_transformation_mode", default)
    if mode not in ("nearest", "linear", "cubic") or coordinates not in COORDINATES:
        raise ImportFailed(f"mode {mode!r} with coordinates {coordinates!r} is unknown")
    x, first = raw.operand(0), len(builder.nodes)
    lines = [by for by in scalings(raw) if by.scale != 1 or by.part != (0.0, 1.0)]
    if not lines:  # a weighted sum would make a NaN beside each infinity
        return x
    try:
        return import_image(builder, raw)
    except (ImportFailed, TypeMismatch):
        del builder.nodes[first:]
    if mode != "nearest" and x.type.dtype not in FLOATS:
        raise ImportFailed(f"mode {mode} of {x.type.dtype}: only floats are supported")
    found = {by: COORDINATES[coordinates](np.arange(by.size) * 1.0, by) for by in lines}
    for by, positions in found.items():
        x = _along(builder, raw, x, mode, by, positions)
    return _outside(builder, raw, x, found) if coordinates == "tf_crop_and_resize" else x


def _along(
    builder: GraphBuilder, raw: RawNode, x: Value, mode: str, by: Scaling, positions: FloatArray
) -> Value:
    """One axis: elements that are picked, or sums."""
    name = f"{raw.name}/axis{by.axis}"
    if mode == "nearest":
        picked = _nearest(raw, positions, by).astype(np.int32)
        table = builder.constant(f"{name}.places", picked)
        attrs = AxisAttrs(by.axis)
        return builder.op("gather", [x, table], attrs, name=name, sources=(raw.name,))
    around, weights = taps(raw, mode, positions, by)
    tables = [
        builder.constant(f"{name}.places", around.astype(np.int32)),
        builder.constant(f"{name}.weights", weights.astype(x.type.dtype)),
    ]
    return builder.op("resample", [x, *tables], AxisAttrs(by.axis), name=name, sources=(raw.name,))


def _outside(
    builder: GraphBuilder, raw: RawNode, x: Value, found: dict[Scaling, FloatArray]
) -> Value:
    """The result with the value for outside where a position is outside of the input."""
    inside = np.ones(x.type.shape, np.bool_)
    for by, positions in found.items():
        along = (positions >= 0) & (positions <= by.extent - 1)
        inside &= along.reshape([-1 if n == by.axis else 1 for n in range(inside.ndim)])
    if inside.all():
        return x
    around = np.asarray(raw.attribute("extrapolation_value", 0.0), x.type.dtype)
    mask = builder.constant(f"{raw.name}.inside", inside)
    value = builder.constant(f"{raw.name}.outside", around)
    return builder.op("where", [mask, x, value], name=f"{raw.name}/where", sources=(raw.name,))


@from_onnx("Upsample", since=7)
def import_upsample(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...] | Value:
    """ONNX Upsample, which Resize replaced; up to opset 8 the scales are an attribute."""
    mode, inputs = raw.attribute("mode", "nearest"), raw.inputs
    if raw.opset < 9:
        scales = np.array(raw.attribute("scales"), np.float32)
        inputs = (raw.operand(0), builder.constant(f"{raw.name}.scales", scales))
    return import_resize(builder, replace(raw, attributes={"mode": mode}, inputs=inputs, opset=10))
