"""roi_align and roi_max: regions of images, each as a small image of one size.

roi_align takes the mean, or the largest, of points spread evenly over each part of a region, of
which each lies between four elements. roi_max takes the largest element of each part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, index, int32, intrinsic, maximum, minimum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.onnx_graph import OnnxGraph, write_own
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.scattered import wrapped_index
from edgec.ops.window import window_steps

LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class RoiAttrs:
    """shape: (height, width) of each result. scale: from the regions' coordinates to elements.

    samples: points along each axis of a part, 0 for one per element. centered: coordinates refer to
    corners of elements, not to centres. largest: the maximum, not the mean.
    """

    shape: tuple[int, int]
    scale: float = 1.0
    samples: int = 0
    centered: bool = True
    largest: bool = False


class _Roi(Op[RoiAttrs]):
    """x float32 [N, C, H, W], regions float32 [R, 4] of (x1, y1, x2, y2), their images int64 [R]
    -> [R, C, height, width].
    """

    attrs_class = RoiAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: RoiAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A result for each region."""
        x, regions, images = inputs
        count = (regions.shape[:1] or (0,))[0]
        shapes = (len(x.shape), regions.shape, images.shape)
        if shapes != (4, (count, 4), (count,)) or [v.dtype for v in inputs] != [
            "float32",
            "float32",
            "int64",
        ]:
            raise TypeMismatch(f"{self.name} of {', '.join(map(str, inputs))}")
        if 0 in x.shape or min(attrs.shape) < 1 or attrs.samples < 0:
            raise TypeMismatch(f"{self.name} of {x} to {list(attrs.shape)}, {attrs.samples} points")
        return (x.with_shape((count, x.shape[1], *attrs.shape)),)


@dataclass(frozen=True)
class _Points:
    """The points of one axis: of part p of a region the i-th one."""

    attrs: RoiAttrs
    regions: Tensor
    axis: int
    extent: int

    def part(self, r: Any) -> tuple[Value, Value]:
        """Start of the region, and size of its parts."""
        offset = 0.5 if self.attrs.centered else 0.0
        start, end = (
            self.regions[r, first + 1 - self.axis] * self.attrs.scale - offset for first in (0, 2)
        )
        size = end - start if self.attrs.centered else maximum(end - start, 1.0)
        return start, size / float(self.attrs.shape[self.axis])

    def count(self, r: Any) -> Value:
        """Number of points of a part, as a float."""
        _, size = self.part(r)
        if self.attrs.samples:
            return size * 0.0 + float(self.attrs.samples)
        return -intrinsic("floor_f32", -size)

    @property
    def most(self) -> int:
        """Points of a part that may lie in the image: they are more than half an element apart."""
        return self.attrs.samples or 2 * self.extent + 4

    def tap(self, r: Any, p: Any, i: Any) -> tuple[Value, Value, Value, Value, Value]:
        """Elements below and above a point, their weights, and 1 if it counts, else 0."""
        start, size = self.part(r)
        count = self.count(r)
        first, step = start + cast(index(p), "float32") * size, size / count
        number = cast(index(i), "float32")
        if not self.attrs.samples:  # from the first one in the image on
            before = intrinsic("floor_f32", (-1.0 - first) / step - 0.5)
            number = number + clamp(before, 0.0, float(1 << 24))
        at = first + (number + 0.5) * size / count
        inside = (at >= -1.0) & (at <= float(self.extent)) & (number < count)
        at = clamp(at, 0.0, self.extent - 1.0)
        base = intrinsic("floor_f32", at)
        low, part = int32(base), at - base
        counts = select(inside, base * 0.0 + 1.0, 0.0)
        high: Value = minimum(low + 1, self.extent - 1)
        return low, high, 1.0 - part, part, counts


@register
class RoiAlign(_Roi):
    """The mean of the points of each part; of the largest, the largest weighted element."""

    name = "roi_align"
    tolerance = 2e-6
    onnx_since = 16

    def steps(self, attrs: RoiAttrs, inputs: Types) -> int:
        """Count the steps of many points."""
        return window_steps(self.infer(attrs, *inputs)[0], (attrs.samples,) * 2)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A sum over points of known number; else of the elements, each with its own weight."""
        attrs: RoiAttrs = node.attrs
        x, regions, images = operand_tensors(target, inputs)
        rows, columns = (
            _Points(attrs, regions, axis, extent) for axis, extent in enumerate(x.shape[2:])
        )

        def image(r: Any) -> Value:
            return wrapped_index(images[r], x.shape[0])

        by = self._by_places if attrs.samples else self._by_elements
        total = by(target, x, rows, columns, image)

        def mean(r: Any, c: Any, p: Any, q: Any) -> Value:
            if attrs.largest:
                return total[r, c, p, q]
            count: Value = maximum(rows.count(r) * columns.count(r), 1.0)
            return total[r, c, p, q] / count

        return target.compute("mean", total.shape, "float32", mean)

    def _by_places(
        self, target: Lowering, x: Tensor, rows: _Points, columns: _Points, image: Any
    ) -> Tensor:
        """The sum, or the largest element, over all points of a part."""
        attrs = rows.attrs

        def update(acc: Value, r: Any, c: Any, p: Any, q: Any, i: Any, j: Any) -> Value:
            top, bottom, above, below, is_row = rows.tap(r, p, i)
            left, right, before, after, is_column = columns.tap(r, q, j)
            counts = is_row * is_column
            parts = [
                height * width * counts * x[image(r), c, h, w]
                for h, height in ((top, above), (bottom, below))
                for w, width in ((left, before), (right, after))
            ]
            if not attrs.largest:
                return acc + (parts[0] + parts[1] + parts[2] + parts[3])
            best = maximum(maximum(parts[0], parts[1]), maximum(parts[2], parts[3]))
            result: Value = maximum(best, acc)
            return result

        return target.definition.reduce(
            "total", [("i", 0, rows.most), ("j", 0, columns.most)],
            init=lambda *at: LOWEST if attrs.largest else 0.0, update=update,
            shape=(rows.regions.shape[0], x.shape[1], *attrs.shape), dtype="float32",
        )  # fmt: skip

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """RoiAlign, which says since opset 16 where elements lie."""
        attrs: RoiAttrs = node.attrs
        write_own(
            out, node, "RoiAlign", mode="max" if attrs.largest else "avg",
            output_height=attrs.shape[0], output_width=attrs.shape[1], spatial_scale=attrs.scale,
            sampling_ratio=attrs.samples,
            coordinate_transformation_mode="half_pixel" if attrs.centered else "output_half_pixel",
        )  # fmt: skip

    def _by_elements(
        self, target: Lowering, x: Tensor, rows: _Points, columns: _Points, image: Any
    ) -> Tensor:
        """Weights of rows and of columns, sums of rows, and sums of these."""
        define, (_, channels, height, width) = target.definition, x.shape
        count, (up, across) = rows.regions.shape[0], rows.attrs.shape

        def weights(name: str, points: _Points) -> Tensor:
            def update(acc: Value, r: Any, p: Any, e: Any, i: Any) -> Value:
                low, high, before, after, counts = points.tap(r, p, i)
                own = select(low.equals(index(e)), before, 0.0)
                return acc + counts * (own + select(high.equals(index(e)), after, 0.0))

            return define.reduce(
                name, [("i", 0, points.most)], init=lambda r, p, e: 0.0, update=update,
                shape=(count, points.attrs.shape[points.axis], points.extent), dtype="float32",
            )  # fmt: skip

        of_rows, of_columns = weights("rows", rows), weights("columns", columns)
        sums = define.reduce(
            "sums", [("w", 0, width)], init=lambda r, c, h, q: 0.0,
            update=lambda acc, r, c, h, q, w: acc + of_columns[r, q, w] * x[image(r), c, h, w],
            shape=(count, channels, height, across), dtype="float32",
        )  # fmt: skip
        return define.reduce(
            "total", [("h", 0, height)], init=lambda r, c, p, q: 0.0,
            update=lambda acc, r, c, p, q, h: acc + of_rows[r, p, h] * sums[r, c, h, q],
            shape=(count, channels, up, across), dtype="float32",
        )  # fmt: skip


@register
class RoiMax(_Roi):
    """The largest element of each part; 0 of a part outside the image."""

    name = "roi_max"

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Each part looks at the whole image."""
        attrs: RoiAttrs = node.attrs
        x, regions, images = operand_tensors(target, inputs)

        def inside(r: Any, p: Any, axis: int, at: Any) -> Value:
            start, end = (_rounded(regions[r, first + 1 - axis] * attrs.scale) for first in (0, 2))
            size = maximum(end - start + 1.0, 1.0) / float(attrs.shape[axis])
            part, here = cast(index(p), "float32"), cast(index(at), "float32")
            low = intrinsic("floor_f32", part * size) + start
            high = -intrinsic("floor_f32", -((part + 1.0) * size)) + start
            return (here >= low) & (here < high)

        def update(acc: Value, r: Any, c: Any, p: Any, q: Any, h: Any, w: Any) -> Value:
            element = x[wrapped_index(images[r], x.shape[0]), c, h, w]
            is_in = inside(r, p, 0, h) & inside(r, q, 1, w)
            return select(is_in & (element > acc), element, acc)

        shape, steps = node.output.type.shape, [("h", 0, x.shape[2]), ("w", 0, x.shape[3])]
        best = target.definition.reduce(
            target.unique("best"), steps, init=lambda *at: LOWEST, update=update,
            shape=shape, dtype="float32",
        )  # fmt: skip
        return target.compute(
            "element", shape, "float32",
            lambda *at: select(best[at] > LOWEST, best[at], 0.0),
        )  # fmt: skip


def _rounded(value: Value) -> Value:
    """The nearest whole number, halves away from zero."""
    away = intrinsic("floor_f32", maximum(value, -value) + 0.5)
    return select(value < 0.0, -away, away)


@from_onnx("RoiAlign", since=10)
def import_roi_align(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX RoiAlign."""
    mode, samples = raw.attribute("mode", "avg"), int(raw.attribute("sampling_ratio", 0))
    default = "output_half_pixel" if raw.opset < 16 else "half_pixel"
    kind = raw.attribute("coordinate_transformation_mode", default)
    if mode not in ("avg", "max") or kind not in ("half_pixel", "output_half_pixel"):
        raise ImportFailed(f"mode {mode!r} with {kind!r} is unknown")
    if mode == "max" and not samples:
        raise ImportFailed("mode max needs a sampling_ratio: data decide how many points there are")
    shape = tuple(int(raw.attribute(f"output_{name}", 1)) for name in ("height", "width"))
    scale = float(raw.attribute("spatial_scale", 1.0))
    attrs = RoiAttrs(
        (shape[0], shape[1]), scale, samples, kind == "half_pixel", largest=mode == "max"
    )
    return builder.op(RoiAlign, raw.operands(3), attrs, name=raw.name)


@from_onnx("MaxRoiPool")
def import_max_roi_pool(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX MaxRoiPool, whose regions begin with the number of their image."""
    from edgec.ops.onnx_emit import emitted

    x, regions = raw.operands(2)
    shape = tuple(raw.attribute("pooled_shape", ()))
    if len(shape) != 2 or regions.type.shape[1:] != (5,):
        raise ImportFailed(f"pooled_shape {shape} and regions {regions.type}")

    def integers(*values: int) -> GraphValue:
        return builder.constant(f"{raw.name}.ends", np.array(values, np.int64))

    boxes = [integers(1), integers(5), integers(1)]
    region = emitted(builder, "Slice", [regions, *boxes], f"{raw.name}/regions")
    number = emitted(builder, "Slice", [regions, integers(0), integers(1), integers(1)],
                     f"{raw.name}/numbers")  # fmt: skip
    number = emitted(builder, "Reshape", [number, integers(-1)], f"{raw.name}/images")
    image = emitted(builder, "Cast", [number], f"{raw.name}/image", to=7)
    attrs = RoiAttrs((shape[0], shape[1]), float(raw.attribute("spatial_scale", 1.0)))
    return builder.op(RoiMax, [x, region, image], attrs, name=raw.name)
