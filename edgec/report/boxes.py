"""A detector's boxes as fractions of the picture, from its outputs.

The four outputs of TFLite's Detection_PostProcess are recognised by their shapes. For other models
`--boxes` names the outputs; of overlapping boxes of one class only the best one stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from edgec.codegen.manifest import PortEntry
from edgec.errors import EdgecError
from edgec.report.classes import dequantized

#: How four numbers are a box: sides by their letters, or the middle and the size.
FORMS = ("yxyx", "xyxy", "xywh", "cxcywh")
#: Boxes that are shown at the most, the best ones.
MOST_BOXES = 50


@dataclass(frozen=True)
class BoxOutputs:
    """Which outputs are boxes, and their format.

    boxes: the output [..., N, 4]; further columns are scores of classes. scores: [..., N] or [...,
    N, K]. classes: [..., N], else the class with the best score. form: of FORMS. unit: fractions of
    the picture, or pixels of the model's input. background: the class without an object. least:
    score of a box. overlap: intersection over union above which the weaker box of a class is
    dropped.
    """

    boxes: str
    scores: str = ""
    classes: str = ""
    form: str = "xyxy"
    unit: str = "parts"
    background: int = -1
    least: float = 0.5
    overlap: float = 0.5


def read_boxes(text: str) -> BoxOutputs:
    """`boxes=NAME,scores=NAME,form=xyxy`. Raises ValueError for another text."""
    kinds = {field.name: str(field.type) for field in fields(BoxOutputs)}
    found: dict[str, Any] = {}
    for pair in text.split(","):
        key, _, value = pair.partition("=")
        if key not in kinds or not value:
            raise ValueError(f"{pair!r} is not one of {', '.join(f'{name}=' for name in kinds)}")
        found[key] = {"int": int, "float": float}.get(kinds[key], str)(value)
    if "boxes" not in found:
        raise ValueError("boxes= must name the output that has the boxes")
    chosen = BoxOutputs(**found)
    if chosen.form not in FORMS or chosen.unit not in ("parts", "pixels"):
        raise ValueError(f"form is one of {', '.join(FORMS)}, unit is parts or pixels")
    return chosen


def find_boxes(
    ports: Sequence[PortEntry],
    outputs: Sequence[Any],
    given: BoxOutputs | None,
    size: tuple[int, int],
    labels: Sequence[str] = (),
) -> list[dict[str, Any]] | None:
    """The boxes, best first; None if the outputs are not a detector's and `--boxes` is absent.

    size: height and width of the model's input. Each has `class`, `label` (of labels, else
    null), `score`, and `left`, `top`, `right`, `bottom` in parts of the picture. Raises
    EdgecError for outputs that are absent or do not fit.
    """
    real = {p.name: dequantized(a, p) for p, a in zip(ports, outputs, strict=True)}
    if given is None:
        found = _post_processed(list(real.values()))
        if found is None:
            return None
        boxes, scores, classes = found
        given, kept = BoxOutputs(""), np.flatnonzero(scores >= BoxOutputs.least)
    else:
        boxes, scores, classes = _named(real, given, size)
        kept = _best(boxes, scores, classes, given)
    kept = kept[np.argsort(-scores[kept], kind="stable")][:MOST_BOXES]
    return [
        {
            "class": int(classes[i]),
            "label": labels[int(classes[i])] if 0 <= classes[i] < len(labels) else None,
            "score": float(scores[i]),
            **dict(zip(("left", "top", "right", "bottom"), map(float, boxes[i]), strict=True)),
        }
        for i in kept
    ]


def _post_processed(real: Sequence[Any]) -> tuple[Any, Any, Any] | None:
    """Boxes (left, top, right, bottom), scores and classes of Detection_PostProcess."""
    shapes = [array.shape for array in real]
    if len(shapes) != 4 or len(shapes[0]) != 3 or shapes[0][::2] != (1, 4):
        return None
    most = shapes[0][1]
    if shapes[1:] != [(1, most), (1, most), (1,)]:
        return None
    count = min(most, max(0, int(real[3][0])))
    sides = real[0][0, :count][:, [1, 0, 3, 2]]
    return sides, real[2][0, :count], real[1][0, :count]


def _named(
    real: Mapping[str, Any], given: BoxOutputs, size: tuple[int, int]
) -> tuple[Any, Any, Any]:
    """Boxes (left, top, right, bottom), scores and classes of the outputs that are named."""
    rows, scores = _rows(real, given)
    scores = scores.reshape(len(rows), -1).copy()
    if 0 <= given.background < scores.shape[1]:
        scores[:, given.background] = -np.inf
    classes = real[given.classes].reshape(-1) if given.classes else scores.argmax(1)
    if len(classes) != len(rows):
        raise EdgecError(f"--boxes: {len(classes)} classes of {len(rows)} boxes")
    sides = _sides(rows[:, :4], given.form)
    unit = np.array([size[1], size[0]] * 2) if given.unit == "pixels" else 1.0
    return sides / unit, scores.max(1), classes


def _rows(real: Mapping[str, Any], given: BoxOutputs) -> tuple[Any, Any]:
    """[N, 4 or more] of boxes, and their scores. Raises EdgecError for another shape."""
    for name in filter(None, (given.boxes, given.scores, given.classes)):
        if name not in real:
            known = ", ".join(f"{key} {list(a.shape)}" for key, a in real.items())
            raise EdgecError(f"--boxes: the model has no output {name!r}", details=(known,))
    table = real[given.boxes]
    columns = table.shape[-1] if table.ndim > 1 else 0
    rows = table.reshape(-1, max(columns, 1))
    scores = real[given.scores] if given.scores else rows[:, 4:]
    if columns < 4 or not scores.size or scores.size % len(rows):
        raise EdgecError(
            f"--boxes: {given.boxes} {list(table.shape)} and {scores.size} scores are not boxes",
            hint="boxes are an output [..., N, 4], scores one of [..., N] or [..., N, classes]",
        )
    return rows, scores


def _sides(rows: Any, form: str) -> Any:
    """Left, top, right and bottom."""
    if form == "yxyx":
        return rows[:, [1, 0, 3, 2]]
    if form == "xyxy":
        return rows
    middle, size = rows[:, :2], rows[:, 2:]
    first = middle - size / 2 if form == "cxcywh" else middle
    return np.concatenate([first, first + size], axis=1)


def _best(boxes: Any, scores: Any, classes: Any, given: BoxOutputs) -> Any:
    """Numbers of the boxes that stay, the best of each heap."""
    left = np.flatnonzero(scores >= given.least)
    left = left[np.argsort(-scores[left], kind="stable")]
    kept: list[int] = []
    while len(left) and len(kept) < MOST_BOXES:
        best, rest = left[0], left[1:]
        kept.append(int(best))
        others = (classes[rest] != classes[best]) | (_union(boxes[best], boxes[rest])
                                                     < given.overlap)  # fmt: skip
        left = rest[others]
    return np.asarray(kept, np.int64)


def _union(box: Any, others: Any) -> Any:
    """Intersection over union of a box with others."""
    corner = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    both = np.prod(np.maximum(corner, 0), axis=1)
    areas = np.prod(np.maximum(others[:, 2:] - others[:, :2], 0), axis=1)
    return both / np.maximum(np.prod(np.maximum(box[2:] - box[:2], 0)) + areas - both, 1e-12)
