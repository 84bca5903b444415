"""non_max_suppression: the boxes of the best scores, without those that overlap a better one.

Each round chooses the remaining box with the best score and removes all boxes whose overlap with it
(intersection over union) exceeds a limit. The soft form reduces their scores instead, by a Gaussian
of the overlap (Bodla et al., 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Definition, Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value as LoopValue
from edgec.loop.values import cast, index, intrinsic, maximum, minimum, select
from edgec.ops.broadcast import operand_tensors
from edgec.ops.nonzero import indices_where, require_computed, write_count
from edgec.ops.onnx_graph import OnnxGraph, own_operands
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.reshape import ReshapeAttrs


@dataclass(frozen=True)
class NonMaxSuppressionAttrs:
    """limit: the most boxes of a class. centered: a box is its centre, width and height, x first;
    else two corners that lie opposite each other, y first.
    """

    limit: int
    centered: bool = False


@register
class SoftNonMaxSuppression(Op[NonMaxSuppressionAttrs]):
    """The operands of `non_max_suppression` and sigma float32 [1] -> the numbers of the boxes int32
    [batch, classes, limit], -1 where there are no more, and their scores, 0 there.

    Each chosen box multiplies the other scores by exp(-overlap**2 / (2 sigma)).
    """

    name = "soft_non_max_suppression"
    attrs_class = NonMaxSuppressionAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6

    def infer(self, attrs: NonMaxSuppressionAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Numbers and scores for each class of each image."""
        *first, sigma = inputs
        if sigma.dtype != "float32" or sigma.shape != (1,):
            raise TypeMismatch(f"soft_non_max_suppression with a sigma {sigma}")
        (numbers,) = NonMaxSuppression().infer(attrs, *first)
        return numbers, TensorType(numbers.shape, "float32")

    def steps(self, attrs: NonMaxSuppressionAttrs, inputs: Types) -> int:
        """The steps of all choices."""
        return _steps(attrs, inputs)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A loop of choices over the remaining scores; a removed box's score is not above the
        limit.
        """
        attrs: NonMaxSuppressionAttrs = node.attrs
        boxes, scores, most, overlap, threshold, sigma = operand_tensors(target, inputs)
        define, (batch, classes, _) = target.definition, scores.shape
        chosen, shown = target.targets
        now = define.compute(
            "now", lambda b, c, n: scores[b, c, n], shape=scores.shape, dtype="float32"
        )

        def after(t: Any, b: Any, c: Any, n: Any) -> LoopValue:
            taken = maximum(best[b, c], 0)
            part = shared_part(attrs, boxes, b, n, taken)
            softer = now[b, c, n] * intrinsic("exp_f32", part * part * (-0.5 / sigma[0]))
            goes = index(n).equals(best[b, c]) | (part >= overlap[0])
            lowered: LoopValue = select(goes, threshold[0], softer)
            return select(best[b, c] < 0, now[b, c, n], lowered)

        with define.steps("choices", attrs.limit):
            best = _best(define, now, lambda b, c, n: now[b, c, n] > threshold[0])
            is_wanted = partial(_is_wanted, most)
            define.compute(
                chosen, lambda t, b, c: select(is_wanted(t), best[b, c], -1),
                shape=(batch, classes), at=lambda t, b, c: (b, c, t), name="choice",
            )  # fmt: skip
            define.compute(
                shown, lambda t, b, c: select(
                    is_wanted(t) & (best[b, c] >= 0), now[b, c, maximum(best[b, c], 0)], 0.0
                ),
                shape=(batch, classes), at=lambda t, b, c: (b, c, t), name="score",
            )  # fmt: skip
            define.compute(now, after, name="lower")
        return chosen


@register
class NonMaxSuppression(Op[NonMaxSuppressionAttrs]):
    """boxes float32 [batch, boxes, 4], scores [batch, classes, boxes], the most boxes of a class
    int64 [1], the largest overlap float32 [1], the score to exceed float32 [1]
    -> the numbers of the boxes int32 [batch, classes, limit], -1 where there are no more.

    The first box wins among equal scores. A NaN is never above the limit.
    """

    name = "non_max_suppression"
    attrs_class = NonMaxSuppressionAttrs
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NonMaxSuppressionAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Numbers for each class of each image."""
        boxes, scores, *ends = inputs
        batch, classes, count = (*scores.shape, 0, 0, 0)[:3]
        fits = len(scores.shape) == 3 and boxes.shape == (batch, count, 4)
        dtypes = [x.dtype for x in inputs]
        if not fits or dtypes != ["float32", "float32", "int64", "float32", "float32"]:
            raise TypeMismatch(f"non_max_suppression of {', '.join(map(str, inputs))}")
        if any(x.shape != (1,) for x in ends) or not 1 <= attrs.limit <= count:
            raise TypeMismatch(f"non_max_suppression: {attrs.limit} of {count} boxes")
        return (TensorType((batch, classes, attrs.limit), "int32"),)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """ONNX has it with `chosen_boxes` only, which writes both."""

    def steps(self, attrs: NonMaxSuppressionAttrs, inputs: Types) -> int:
        """The steps of all choices."""
        return _steps(attrs, inputs)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A loop of choices over the remaining boxes."""
        attrs: NonMaxSuppressionAttrs = node.attrs
        boxes, scores, most, overlap, threshold = operand_tensors(target, inputs)
        define, (batch, classes, _) = target.definition, scores.shape
        assert target.target is not None
        chosen = target.target
        left = define.compute(
            "left", lambda b, c, n: cast(scores[b, c, n] > threshold[0], "uint8"),
            shape=scores.shape, dtype="uint8",
        )  # fmt: skip

        def stays(t: Any, b: Any, c: Any, n: Any) -> LoopValue:
            taken = maximum(best[b, c], 0)
            part = shared_part(attrs, boxes, b, n, taken)
            goes = index(n).equals(best[b, c]) | ((part > 0.0) & (part > overlap[0]))
            return select(goes, 0, left[b, c, n])

        with define.steps("choices", attrs.limit):
            best = _best(define, scores, lambda b, c, n: left[b, c, n] > 0)
            define.compute(
                chosen, lambda t, b, c: select(index(t, "int64") < most[0], best[b, c], -1),
                shape=(batch, classes), at=lambda t, b, c: (b, c, t), name="choice",
            )  # fmt: skip
            define.compute(left, stays, name="stay")
        return chosen


@register
class ChosenBoxes(Op[NoAttrs]):
    """The result of `non_max_suppression` [batch, classes, limit] -> rows (image, class, box) of
    the chosen boxes int64 [batch * classes * limit, 3], their number int32 [1].

    Unused rows are zeros.
    """

    name = "chosen_boxes"
    fusion = Fusion.OPAQUE

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """A row for each number."""
        (x,) = inputs
        if x.dtype != "int32" or len(x.shape) != 3 or not x.elements:
            raise TypeMismatch(f"chosen_boxes of {x}")
        return TensorType((x.elements, 3), "int64"), TensorType((1,), "int32")

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """NonMaxSuppression, which is this and the node before it."""
        before, (rows, count) = out.producers[node.inputs[0]], node.outputs
        out.emit(
            "NonMaxSuppression", own_operands(out, before), out.define_own(rows),
            center_point_box=int(before.attrs.centered),
        )  # fmt: skip
        write_count(out, rows, 0, count)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The indices of the entries that are not -1, and these entries."""
        (x,), (rows, count) = operand_tensors(target, inputs), target.targets
        found = indices_where(target, x.shape, count, lambda at: x[at] >= 0)

        def column(number: int, of: Callable[[tuple[LoopValue, ...]], LoopValue]) -> None:
            target.definition.compute(
                rows, lambda j: select(index(j) < count[0], cast(of(found(j)), "int64"), 0),
                shape=rows.shape[:1], at=lambda j: (j, number), name=f"column{number}",
            )  # fmt: skip

        column(0, lambda at: at[0])
        column(1, lambda at: at[1])
        column(2, lambda at: x[at])
        return rows


def _best(
    define: Definition, scores: Tensor, is_left: Callable[[Any, Any, Any], LoopValue]
) -> Tensor:
    """Index of the first of the largest remaining scores, -1 if none is left."""
    *shape, count = scores.shape
    boxes = [("n", 0, count)]
    lowest = float(np.finfo(np.float32).min)
    top = define.reduce(
        "top", boxes, init=lambda t, b, c: lowest, shape=shape, dtype="float32",
        update=lambda acc, t, b, c, n: maximum(
            acc, select(is_left(b, c, n), scores[b, c, n], lowest)
        ),
    )  # fmt: skip
    first = define.reduce(
        "first", boxes, init=lambda t, b, c: count, shape=shape, dtype="int32",
        update=lambda acc, t, b, c, n: minimum(
            acc, select(is_left(b, c, n) & scores[b, c, n].equals(top[b, c]), index(n), count)
        ),
    )  # fmt: skip
    return define.compute(
        "best", lambda t, b, c: select(first[b, c] < count, first[b, c], -1), shape=shape,
        dtype="int32",
    )  # fmt: skip


def _steps(attrs: NonMaxSuppressionAttrs, inputs: Types) -> int:
    """A choice looks at all boxes about sixteen times."""
    return attrs.limit * 16 * (1 + inputs[1].elements // 8192)


def _is_wanted(most: Tensor, step: Any) -> LoopValue:
    wanted: LoopValue = index(step, "int64") < most[0]
    return wanted


def shared_part(
    attrs: NonMaxSuppressionAttrs, boxes: Tensor, b: Any, n: Any, other: Any
) -> LoopValue:
    """Intersection over union of two boxes of an image."""

    def ends(box: Any, axis: int) -> tuple[LoopValue, LoopValue]:
        if attrs.centered:
            middle, half = boxes[b, box, axis], boxes[b, box, 2 + axis] / 2.0
            return middle - half, middle + half
        one, two = boxes[b, box, axis], boxes[b, box, 2 + axis]
        return minimum(one, two), maximum(one, two)

    sides, own, others = [], [], []
    for axis in (1, 0) if not attrs.centered else (0, 1):
        (low, high), (other_low, other_high) = ends(n, axis), ends(other, axis)
        sides.append(minimum(high, other_high) - maximum(low, other_low))
        own.append(high - low)
        others.append(other_high - other_low)
    shared, area, other_area = (x * y for x, y in (sides, own, others))
    union = area + other_area - shared
    real = (sides[0] > 0.0) & (sides[1] > 0.0) & (shared > 0.0)
    real = real & (area > 0.0) & (other_area > 0.0) & (union > 0.0)
    part: LoopValue = select(real, shared / union, 0.0)
    return part


def _number(builder: GraphBuilder, raw: RawNode, position: int, absent: np.ndarray) -> Value:
    """One number as [1]; a default where it is absent."""
    value = raw.optional(position)
    if value is None:
        return builder.constant(f"{raw.name}.default", absent)
    if value.type.elements != 1 or value.type.dtype != absent.dtype.name:
        raise ImportFailed(f"input {position} is {value.type}, not one {absent.dtype.name}")
    if isinstance(value, Constant):
        return builder.constant(f"{raw.name}.{position}", value.data.reshape(1))
    attrs = ReshapeAttrs((1,))
    return builder.op("reshape", [value], attrs, name=f"{raw.name}/{position}", sources=())


@from_onnx("NonMaxSuppression", since=10)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX NonMaxSuppression: one row (image, class, box) for each chosen box."""
    require_computed(raw, 0, 1)
    boxes, scores = raw.operand(0), raw.operand(1)
    most = _number(builder, raw, 2, np.zeros(1, np.int64))
    overlap = _number(builder, raw, 3, np.zeros(1, np.float32))
    lowest = np.full(1, -np.inf, np.float32)
    threshold = _number(builder, raw, 4, lowest)
    count = boxes.type.shape[1] if len(boxes.type.shape) == 3 else 0
    limit = min(max(int(most.data[0]), 1), count) if isinstance(most, Constant) else count
    attrs = NonMaxSuppressionAttrs(limit, bool(raw.attribute("center_point_box", 0)))

    chosen = builder.op(
        NonMaxSuppression, [boxes, scores, most, overlap, threshold], attrs,
        name=f"{raw.name}/boxes", sources=(raw.name,),
    )  # fmt: skip
    rows, number = builder.node(ChosenBoxes, [chosen], name=raw.name).outputs
    builder.open(rows, 0, number)
    return rows
