"""ONNX nodes that are computed while a file is read, of constants alone.

Exporters ask for shapes at run time and branch on the answer. Where shapes are known, all of that
is known: comparisons and logic have no code of their own, and of an `If` one branch is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.types import Array

#: What becomes of the operands, by the node's kind.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Equal": np.equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
    "Xor": np.logical_xor,
    "Not": np.logical_not,
    "Size": lambda x: np.asarray(x.size, np.int64),
}
#: Most elements that a ConstantOfShape may have: it is a shape or a padding, no data.
MOST_ELEMENTS = 1 << 20


def is_known_kind(kind: str) -> bool:
    """Whether `computed` knows nodes of this kind."""
    return kind in _FUNCTIONS or kind == "ConstantOfShape"


def computed(kind: str, operands: Sequence[Array], attributes: Mapping[str, Any]) -> Array:
    """The result of a node. Raises ImportFailed for a shape that cannot be meant."""
    if kind != "ConstantOfShape":
        return np.asarray(_FUNCTIONS[kind](*operands))
    (shape,) = operands
    extents = [int(extent) for extent in shape.reshape(-1)]
    if any(extent < 0 for extent in extents) or math.prod(extents) > MOST_ELEMENTS:
        raise ImportFailed(f"a constant of shape {extents}")
    value = np.asarray(attributes.get("value", np.zeros(1, np.float32)))
    return np.full(extents, value.reshape(-1)[0])


def cast_truth(value: Array, attributes: Mapping[str, Any]) -> Array:
    """Truth values as numbers, or as they are."""
    from onnx import helper

    return value.astype(helper.tensor_dtype_to_np_dtype(int(attributes["to"])))
