"""A classifier's likeliest classes by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgec.codegen.manifest import PortEntry
from edgec.errors import EdgecError
from edgec.resources import plain_file

MOST_CLASSES = 5


def read_labels(path: Path) -> tuple[str, ...]:
    """The names in a text file, a line each. Raises EdgecError if it cannot be read or is empty."""
    try:
        labels = tuple(plain_file(path).read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise EdgecError(f"cannot read the labels in {path}: {error}") from None
    if not labels:
        raise EdgecError(f"{path} has no labels", hint="write the name of one class on each line")
    return labels


def likeliest(
    ports: Sequence[PortEntry], outputs: Sequence[Any], labels: Sequence[str]
) -> list[dict[str, Any]]:
    """The classes with the largest real values, the first of equal ones first.

    The classifier's output is the first one whose number of elements equals the number of labels.
    Raises EdgecError if there is none.
    """
    for port, array in zip(ports, outputs, strict=True):
        if array.size == len(labels):
            real = dequantized(array, port).reshape(-1)
            order = np.argsort(-real, kind="stable")[:MOST_CLASSES]
            return [{"label": labels[i], "class": int(i), "value": float(real[i])} for i in order]
    sizes = ", ".join(
        f"{port.name} {array.size}" for port, array in zip(ports, outputs, strict=True)
    )
    raise EdgecError(f"no output has {len(labels)} elements, one for each label: {sizes}")


def dequantized(array: Any, port: PortEntry) -> Any:
    """Real values of an output, as float64; unchanged without a single scale."""
    if len(port.scale) != 1:
        return array.astype(np.float64)
    zero_point = port.zero_point[0] if port.zero_point else 0
    return (array.astype(np.float64) - zero_point) * port.scale[0]
