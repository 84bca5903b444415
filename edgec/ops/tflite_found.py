"""TFLite operators whose results data decide: WHERE, UNIQUE and NON_MAX_SUPPRESSION.

The sizes of WHERE and UNIQUE depend on the data; the others return their largest possible size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.mul import MulAttrs
from edgec.ops.non_max_suppression import NonMaxSuppressionAttrs, SoftNonMaxSuppression
from edgec.ops.nonzero import require_computed
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.pad import PadAttrs
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.scattered import AxisAttrs
from edgec.ops.transpose import TransposeAttrs
from edgec.ops.unique import UniqueAttrs


@from_tflite("WHERE", plain_bytes=True)
def import_where(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite WHERE: a row with the place of each element that is not zero."""
    require_computed(raw, 0)
    x = raw.operand(0)
    x = Parts(builder, raw).numbers(x) if x.type.is_quantized else x
    places, count = builder.node("nonzero", [x], name=f"{raw.name}/places",
                                 sources=(raw.name,)).outputs  # fmt: skip
    builder.open(places, 1, count)
    return builder.op("transpose", [places], TransposeAttrs((1, 0)), name=raw.name)


@from_tflite("UNIQUE", plain_bytes=True)
def import_unique(builder: GraphBuilder, raw: RawNode) -> tuple[Value, Value]:
    """TFLite UNIQUE of a list: values as they stand first, and which of them each element is."""
    require_computed(raw, 0)
    (x,), parts = raw.operands(1), Parts(builder, raw)
    if len(x.type.shape) != 1 or len(raw.output_types) != 2 or raw.output_types[1] is None:
        raise ImportFailed(f"{x.type}: only a list is supported")
    stored = parts.numbers(x) if x.type.is_quantized else x
    rows = parts.reshaped(stored, (x.type.elements, 1), "rows")
    places, numbers, _, count = builder.node(
        "unique", [rows], UniqueAttrs(ordered=False), name=f"{raw.name}/unique",
        sources=(raw.name,),
    ).outputs  # fmt: skip
    builder.open(places, 0, count)
    values = parts.op("gather_at", [x, places], AxisAttrs(0))
    return values, parts.last(parts.cast(numbers, raw.output_types[1].dtype, "numbers"))


@dataclass(frozen=True)
class _Selected:
    """kept: numbers of boxes. flags: 1 where there is one. scores: of soft suppression. All have
    the most size. number: how many there are.
    """

    kept: Value
    flags: Value
    scores: Value | None
    number: Value


def _selected(builder: GraphBuilder, raw: RawNode, sigma: Value | None = None) -> _Selected:
    """The boxes of a node; with a sigma, by soft suppression."""
    boxes, scores = raw.operand(0), raw.operand(1)
    most = int(raw.constant(2, "the most boxes").data.reshape(-1)[0])
    parts, (count, *_) = Parts(builder, raw), boxes.type.shape
    if most < 1:
        raise ImportFailed(f"at most {most} boxes")
    ends = [parts.reshaped(raw.operand(n), (1,), f"end{n}") for n in (3, 4)]
    operands = [
        parts.reshaped(boxes, (1, count, 4), "image"),
        parts.reshaped(scores, (1, 1, count), "class"),
        parts.table([most], "most", "int64"),
        *ends,
    ]
    limit, scored = min(most, count), None
    attrs, longer = NonMaxSuppressionAttrs(limit), PadAttrs(((0, most - limit),))
    if sigma is None:
        chosen = parts.op("non_max_suppression", operands, attrs, "chosen")
    else:
        operands.append(parts.reshaped(sigma, (1,), "sigma"))
        chosen, found = builder.node(
            SoftNonMaxSuppression, operands, attrs, name=f"{raw.name}/soft", sources=(raw.name,),
            output_names=[f"{raw.name}/chosen", f"{raw.name}/scored"],
        ).outputs  # fmt: skip
        scored = parts.reshaped(found, (limit,), "scores_line")
        if limit < most:
            scored = parts.op("pad", [scored], longer, "longer_scores")
    line = parts.reshaped(chosen, (limit,), "line")
    zero = parts.table(0, "zero")
    is_box = parts.op("greater_equal", [line, zero], what="is_box")
    kept = parts.op("maximum", [line, zero], what="kept")
    flags = parts.cast(is_box, "int32", "flags")
    total = parts.op("reduce", [flags], ReduceAttrs((0,), "sum"), "total")
    if limit < most:
        kept = parts.op("pad", [kept], longer, "longer")
        flags = parts.op("pad", [flags], longer, "longer_flags")
    return _Selected(kept, flags, scored, parts.reshaped(total, (), "number"))


@from_tflite("NON_MAX_SUPPRESSION_V4")
def import_suppression(builder: GraphBuilder, raw: RawNode) -> tuple[Value, Value]:
    """TFLite NON_MAX_SUPPRESSION_V4 of at most a constant number of boxes."""
    found, parts = _selected(builder, raw), Parts(builder, raw)
    return parts.last(found.kept), parts.last(found.number)


@from_tflite("NON_MAX_SUPPRESSION_V5")
def import_scored_suppression(builder: GraphBuilder, raw: RawNode) -> tuple[Value, Value, Value]:
    """TFLite NON_MAX_SUPPRESSION_V5, also soft; with the scores of the boxes."""
    sigma, parts = raw.constant(5, "soft_nms_sigma"), Parts(builder, raw)
    found = _selected(builder, raw, sigma if np.any(sigma.data > 0) else None)
    scores = found.scores
    if scores is None:
        chosen = parts.op("gather_at", [raw.operand(1), found.kept], AxisAttrs(0), "found")
        real = parts.cast(found.flags, "float32", "real")
        scores = parts.op("mul", [chosen, real], MulAttrs(), "scores")
    return parts.last(found.kept), parts.last(scores), parts.last(found.number)
