"""TFLite Micro's custom operator TFLite_Detection_PostProcess: boxes of anchors, the best of them.

1. Boxes are decoded in float64, from centres and sizes relative to anchors, and rounded to corners.
2. Fast: suppression over the best class of each box. Regular: class by class, then
   the best of all classes.
3. Unused outputs are 0; the last output is the number of boxes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.add import AddAttrs
from edgec.ops.arg_reduce import ArgReduceAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.non_max_suppression import NonMaxSuppressionAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.pad import PadAttrs
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.scattered import AxisAttrs
from edgec.ops.slice import sliced
from edgec.ops.top_k import TopKAttrs
from edgec.ops.transpose import TransposeAttrs

#: Coordinates of a box.
SIDES = 4


@dataclass(frozen=True)
class _Found:
    """`count` found boxes: the number int32, the class float32, the score, and whether there
    is one, int32."""

    boxes: Value
    classes: Value
    scores: Value
    flags: Value
    count: int


class _Detection:
    """Appends the parts of one node."""

    def __init__(self, builder: GraphBuilder, raw: RawNode) -> None:
        self.builder, self.raw, self.parts = builder, raw, Parts(builder, raw)
        boxes, scores, _ = raw.operands(3)
        if any(x.type.dtype != "float32" or len(x.type.shape) != 3 for x in (boxes, scores)):
            raise ImportFailed(f"{boxes.type} and {scores.type}: only float32 is supported")
        batch, self.count, self.all_classes = scores.type.shape
        self.classes = int(raw.attribute("num_classes", 0))
        self.most = int(raw.attribute("max_detections", 0))
        has_classes = self.all_classes - self.classes in (0, 1) and self.classes > 0
        if batch != 1 or boxes.type.shape[1] != self.count or not has_classes or self.most < 1:
            raise ImportFailed(f"{self.most} detections of {self.classes} classes in {scores.type}")

    def decoded(self) -> Value:
        """[boxes, 4]: ymin, xmin, ymax, xmax."""
        given, _, anchors = self.raw.operands(3)
        parts, found = self.parts, {}
        for place, axis in enumerate("yx"):
            centre, size = self._column(given, place), self._column(given, place + 2)
            middle, reach = (self._column(anchors, n) for n in (place, place + 2))
            scale, spread = (self._scale(name) for name in (axis, "hw"[place]))
            moved = self._mul(self._div(centre, scale, f"{axis}.part"), reach, f"{axis}.way")
            at = parts.op("add", [moved, middle], AddAttrs(), f"{axis}.exact")
            grown = parts.op("exp", [self._div(size, spread, f"{axis}.log")], what=f"{axis}.exp")
            half = self._mul(parts.table(0.5, f"{axis}.half", "float64"), grown, f"{axis}.grown")
            half = self._mul(half, reach, f"{axis}.reach")
            ends = [parts.cast(x, "float32", f"{axis}.{n}") for n, x in enumerate((at, half))]
            found[axis] = tuple(
                parts.op(op, ends, AddAttrs(), f"{axis}.{op}ed") for op in ("sub", "add")
            )
        (top, bottom), (left, right) = found["y"], found["x"]
        return parts.op("concat", [top, left, bottom, right], ConcatAttrs(1), "corners")

    def _column(self, x: Value, place: int) -> Value:
        """One coordinate of all boxes, [boxes, 1] of float64."""
        rows = self.parts.reshaped(x, (self.count, x.type.shape[-1]), f"rows{x.name}")
        ranges = [(0, 1, self.count), (place, 1, 1)]
        name = f"{self.raw.name}/{x.name}.{place}"
        column = sliced(self.builder, rows, ranges, name, (self.raw.name,))
        return self.parts.cast(column, "float64", f"{x.name}.{place}.wide")

    def _scale(self, axis: str) -> Value:
        value = np.float32(self.raw.attribute(f"{axis}_scale", 1.0))
        return self.parts.table(np.float64(value), f"{axis}_scale", "float64")

    def _div(self, a: Value, b: Value, what: str) -> Value:
        return self.parts.op("div", [a, b], what=what)

    def _mul(self, a: Value, b: Value, what: str) -> Value:
        return self.parts.op("mul", [a, b], MulAttrs(), what)

    def scores(self) -> Value:
        """[boxes, classes] without the background."""
        rows = self.parts.reshaped(
            self.raw.operand(1), (self.count, self.all_classes), "class_rows"
        )
        first = self.all_classes - self.classes
        ranges = [(0, 1, self.count), (first, 1, self.classes)]
        return sliced(self.builder, rows, ranges, f"{self.raw.name}/scores", (self.raw.name,))

    def chosen(self, corners: Value, by_class: Value, limit: int) -> Value:
        """[classes, limit] indices of boxes, -1 after the last one."""
        parts, (classes, count) = self.parts, by_class.type.shape
        least = np.float32(self.raw.attribute("nms_score_threshold", 0.0))
        overlap = np.float32(self.raw.attribute("nms_iou_threshold", 0.0))
        if not 0 < overlap <= 1:
            raise ImportFailed(f"boxes that may overlap by {overlap}")
        operands = [
            parts.reshaped(corners, (1, count, SIDES), "image"),
            parts.reshaped(by_class, (1, classes, count), "by_class"),
            parts.table([limit], "most", "int64"), parts.table([overlap], "overlap", "float32"),
            # A score equal to the limit is enough here.
            parts.table([np.nextafter(least, np.float32(-np.inf))], "least", "float32"),
        ]  # fmt: skip
        attrs = NonMaxSuppressionAttrs(limit)
        made = parts.op("non_max_suppression", operands, attrs, "chosen")
        return parts.reshaped(made, (classes, limit), "chosen_rows")

    def _kept(self, chosen: Value, count: int) -> tuple[Value, Value]:
        """The numbers, 0 for none, and whether there is one."""
        parts, zero = self.parts, self.parts.table(0, "zero")
        line = parts.reshaped(chosen, (count,), "line")
        flags = parts.cast(parts.op("greater_equal", [line, zero], what="is_box"), "int32", "flags")
        return parts.op("maximum", [line, zero], what="kept"), flags

    def _at(self, x: Value, indices: Value, what: str) -> Value:
        return self.parts.op("gather_at", [x, indices], AxisAttrs(0), what)

    def fast(self, corners: Value) -> _Found:
        """The best class of each box."""
        if int(self.raw.attribute("max_classes_per_detection", 1)) != 1:
            raise ImportFailed("only one class of each detection is supported")
        parts, scores, limit = self.parts, self.scores(), min(self.most, self.count)
        best = parts.op("reduce", [scores], ReduceAttrs((1,), "max"), "best")
        attrs = ArgReduceAttrs(1, dtype="int32")
        classes = parts.op("arg_reduce", [scores], attrs, "best_class")
        line = parts.reshaped(best, (1, self.count), "best_line")
        kept, flags = self._kept(self.chosen(corners, line, limit), limit)
        lines = [parts.reshaped(x, (self.count,), f"{x.name}.line") for x in (best, classes)]
        found, number = (
            self._at(x, kept, what) for x, what in zip(lines, ("score", "class"), strict=True)
        )
        return _Found(kept, parts.cast(number, "float32", "class_number"), found, flags, limit)

    def regular(self, corners: Value) -> _Found:
        """Class by class, then the best of all."""
        each = int(self.raw.attribute("detections_per_class", 100))
        if each < 1:
            raise ImportFailed(f"{each} detections of a class")
        parts, limit = self.parts, min(each, self.count)
        by_class = parts.op("transpose", [self.scores()], TransposeAttrs((1, 0)), "turned")
        total = self.classes * limit
        kept, flags = self._kept(self.chosen(corners, by_class, limit), total)
        first = np.repeat(np.arange(self.classes) * self.count, limit)
        places = parts.op("int_add", [kept, parts.table(first, "class_starts")], what="places")
        line = parts.reshaped(by_class, (self.classes * self.count,), "all_scores")
        real = self._at(line, places, "found")
        truth = parts.cast(flags, "bool", "is_found")
        least = parts.table(-np.inf, "none", "float32")
        ranked = parts.op("where", [truth, real, least], what="ranked")
        count = min(self.most, total)
        scores, order = self.builder.node(
            "top_k", [ranked], TopKAttrs(0, count, dtype="int32"), name=f"{parts.name}/top",
            sources=(parts.name,),
        ).outputs  # fmt: skip
        numbers = parts.table(np.repeat(np.arange(self.classes), limit), "class_of", "float32")
        return _Found(self._at(kept, order, "top_boxes"), self._at(numbers, order, "top_classes"),
                      scores, self._at(flags, order, "top_flags"), count)  # fmt: skip

    def outputs(self, corners: Value, found: _Found) -> tuple[Value, ...]:
        """[1, most, 4], [1, most], [1, most] and [1], zeros where nothing is found."""
        parts = self.parts
        truth = parts.cast(found.flags, "bool", "there")
        zero = parts.table(0.0, "nothing", "float32")
        columns = [(found.classes, "classes"), (found.scores, "scores")]
        lines = [parts.op("where", [truth, x, zero], what=f"{what}.there") for x, what in columns]
        rows = self._at(corners, found.boxes, "boxes")
        wide = parts.reshaped(truth, (found.count, 1), "there_rows")
        boxes = parts.op("where", [wide, rows, zero], what="boxes.there")
        made = [self._whole(boxes, found.count, "boxes"),
                *(self._whole(x, found.count, what)
                  for x, (_, what) in zip(lines, columns, strict=True))]  # fmt: skip
        total = parts.op("reduce", [found.flags], ReduceAttrs((0,), "sum"), "total")
        return (*made, parts.cast(total, "float32", "number"))

    def _whole(self, x: Value, count: int, what: str) -> Value:
        """Pad to the declared number of boxes, and add an axis for the image."""
        parts = self.parts
        if count < self.most:
            padding = ((0, self.most - count), *((0, 0) for _ in x.type.shape[1:]))
            x = parts.op("pad", [x], PadAttrs(padding), f"{what}.longer")
        return parts.reshaped(x, (1, *x.type.shape), f"{what}.image")


@from_tflite("CUSTOM:TFLite_Detection_PostProcess")
def import_detection(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite Micro's detection post-processing, fast with one class of each box, or regular."""
    detection = _Detection(builder, raw)
    corners = detection.decoded()
    is_regular = bool(raw.attribute("use_regular_nms", False))
    found = (detection.regular if is_regular else detection.fast)(corners)
    return detection.outputs(corners, found)
