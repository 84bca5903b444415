"""A run's outputs in the user's terms: classes by name, and boxes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgec.codegen.manifest import Manifest
from edgec.report.boxes import BoxOutputs, find_boxes
from edgec.report.classes import likeliest


def add_meaning(
    report: dict[str, Any],
    manifest: Manifest,
    outputs: Sequence[Any],
    labels: Sequence[str] | None,
    boxes: BoxOutputs | None,
) -> None:
    """Add `boxes` of a detector, or `classes` if there are labels, to the object of a run.

    Raises EdgecError if no output has one element per label, and for outputs in `boxes` that do not
    fit.
    """
    size = _picture_size(manifest)
    found = find_boxes(manifest.answers, outputs, boxes, size, labels or ())
    if found is not None:
        report["boxes"] = found
    elif labels is not None:
        report["classes"] = likeliest(manifest.answers, outputs, labels)


def _picture_size(manifest: Manifest) -> tuple[int, int]:
    """Height and width of the first input that can be a picture, else 1 and 1."""
    for port in manifest.inputs:
        shape = tuple(port.shape)
        if len(shape) == 4:
            height, width = shape[1:3] if shape[3] in (1, 3) else shape[2:4]
            return height, width
    return 1, 1
