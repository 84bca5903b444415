"""grid_sample: elements of an image at computed coordinates, between its elements interpolated.

Coordinates run from -1 to 1 between the ends of an axis. A coordinate outside reads 0, the element
at the edge, or the element at the mirrored coordinate. So does one that is far outside or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, index, int32, intrinsic, maximum, minimum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph, write_own
from edgec.ops.op import Op, RawNode, from_onnx

#: Elements around a coordinate along one axis, by the kind of interpolation; ONNX's names for it.
TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
_KINDS = {"bilinear": "linear", "bicubic": "cubic", **{kind: kind for kind in TAPS}}
PADDINGS = ("zeros", "border", "reflection")
#: Keys' parameter of cubic interpolation.
_A = -0.75


@dataclass(frozen=True)
class GridSampleAttrs:
    """kind: of TAPS. padding: of PADDINGS. corners: the ends are the centres of the outer elements,
    else their outer edges.
    """

    kind: str = "linear"
    padding: str = "zeros"
    corners: bool = False


@register
class GridSample(Op[GridSampleAttrs]):
    """x [N, C, ...] at grid [N, ..., axes], whose last coordinate belongs to the first axis."""

    name = "grid_sample"
    attrs_class = GridSampleAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    onnx_since = 20

    def infer(self, attrs: GridSampleAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The grid's extents with the channels of x."""
        x, grid = inputs
        text = f"grid_sample of {x} at {grid}"
        if x.dtype != "float32" or grid.dtype != "float32":
            raise TypeMismatch(f"{text}: both must be float32")
        axes = len(x.shape) - 2
        if axes < 1 or len(grid.shape) != axes + 2 or grid.shape[-1] != axes:
            raise TypeMismatch(f"{text}: the grid needs a coordinate for each axis")
        _check_batch(x, grid)
        if attrs.kind not in TAPS or attrs.padding not in PADDINGS:
            raise TypeMismatch(f"grid_sample by {attrs.kind!r} with {attrs.padding!r}")
        return (x.with_shape((*x.shape[:2], *grid.shape[1:-1])),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """One sum over the elements around each coordinate."""
        attrs: GridSampleAttrs = node.attrs
        x, grid = operand_tensors(target, inputs)
        axes, shape = len(x.shape) - 2, node.output.type.shape

        def update(acc: Value, n: Any, c: Any, *at: Any) -> Any:
            coordinates, weight, inside = [], None, None
            for axis, extent in enumerate(x.shape[2:]):
                given = grid[(n, *at[:axes], axes - 1 - axis)]
                own, coordinate, here = _tap(attrs, given, extent, int32(index(at[axes + axis])))
                weight = own if weight is None else weight * own
                coordinates.append(coordinate)
                if here is not None:
                    inside = here if inside is None else inside & here
            assert weight is not None
            found = x[(n, c, *coordinates)]
            return acc + weight * (found if inside is None else select(inside, found, 0.0))

        steps = [(f"k{axis}", 0, TAPS[attrs.kind]) for axis in range(axes)]
        return target.reduce("acc", shape, x.dtype, steps, init=lambda *at: 0.0, update=update)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """GridSample, whose kinds have these names since opset 20."""
        attrs: GridSampleAttrs = node.attrs
        write_own(
            out, node, "GridSample", mode=attrs.kind, padding_mode=attrs.padding,
            align_corners=int(attrs.corners),
        )  # fmt: skip


def _check_batch(x: TensorType, grid: TensorType) -> None:
    if x.shape[0] != grid.shape[0] or 0 in x.shape:
        raise TypeMismatch(f"grid_sample of {x} at {grid}")


def _tap(
    attrs: GridSampleAttrs, given: Value, extent: int, k: Value
) -> tuple[Value, Value, Value | None]:
    """Weight and position of the k-th element around a coordinate, and whether it is inside."""
    coordinate = _padded(attrs, _coordinate(attrs, given, extent), extent)
    if attrs.kind == "nearest":
        base, weight = coordinate, coordinate * 0.0 + 1.0
    else:
        base = intrinsic("floor_f32", coordinate)
        weight = _weight(attrs.kind, coordinate - base, k)
    position = int32(base) + (k - (TAPS[attrs.kind] - 1) // 2)
    inside = (position >= 0) & (position < extent) if attrs.padding == "zeros" else None
    if attrs.padding == "reflection":
        mirrored = _reflected(attrs, cast(position, "float32"), extent)
        position = int32(clamp(mirrored, 0.0, extent - 1.0))
    return weight, clamp(position, 0, extent - 1), inside


def _coordinate(attrs: GridSampleAttrs, given: Value, extent: int) -> Value:
    """A coordinate in elements; rounded, half to even, where the nearest one is meant."""
    if attrs.corners:
        coordinate = (given + 1.0) * 0.5 * float(extent - 1)
    else:
        coordinate = ((given + 1.0) * float(extent) - 1.0) * 0.5
    return intrinsic("round_f32", coordinate) if attrs.kind == "nearest" else coordinate


def _padded(attrs: GridSampleAttrs, coordinate: Value, extent: int) -> Value:
    """The coordinate as the padding moves it, near enough to the image for an int32.

    A border repeats the outer elements, which `_tap` does by clamping each position; only between
    two elements is it the same to clamp the coordinate.
    """
    if attrs.padding == "border" and attrs.kind != "cubic":
        coordinate = clamp(coordinate, 0.0, extent - 1.0)
    elif attrs.padding == "reflection":
        coordinate = _reflected(attrs, coordinate, extent)
    # Farther out there is only padding; a NaN is clamped to the lower end.
    return clamp(coordinate, -4.0, extent + 4.0)


def _reflected(attrs: GridSampleAttrs, coordinate: Value, extent: int) -> Value:
    """A coordinate mirrored at both ends until it lies between them."""
    low = 0.0 if attrs.corners else -0.5
    length = float(extent - 1 if attrs.corners else extent)
    if not length:
        return coordinate * 0.0
    away: Value = maximum(coordinate - low, low - coordinate)
    rest = intrinsic("fmod_f32", away, 2.0 * length)
    mirrored: Value = minimum(rest, 2.0 * length - rest) + low
    return mirrored


def _weight(kind: str, part: Value, k: Value) -> Value:
    """Return the weight of the k-th element, `part` of the way from the one below to the next."""
    if kind == "linear":
        return select(k.equals(0), 1.0 - part, part)
    before = part - cast(k - 1, "float32")
    d: Value = maximum(before, -before)
    near = ((d * (_A + 2) - (_A + 3)) * d) * d + 1.0
    far = ((d * _A - 5 * _A) * d + 8 * _A) * d - 4 * _A
    return select(d <= 1.0, near, far)


@from_onnx("GridSample", since=16)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX GridSample."""
    default = "bilinear" if raw.opset < 20 else "linear"
    kind = raw.attribute("mode", default)
    if kind not in _KINDS:
        raise ImportFailed(f"mode {kind!r} is unknown")
    padding = raw.attribute("padding_mode", "zeros")
    attrs = GridSampleAttrs(_KINDS[kind], padding, bool(raw.attribute("align_corners", 0)))
    return builder.op("grid_sample", raw.operands(2), attrs, name=raw.name)
