"""From scores to probabilities and labels, as the classifiers of ai.onnx.ml end.

Sources: ONNX's standard for `post_transform`; for the approximation of PROBIT, Winitzki, "A handy
approximation for the error function and its inverse", 2008, with a = 0.147 as ONNX Runtime has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from edgec.errors import BadNode, ImportFailed
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.ops.ml_node import MlNode

#: ONNX's post transforms, in the order of their numbers in TreeEnsemble.
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_A = 0.147
#: Scores that are as small are zeros to SOFTMAX_ZERO.
_ZERO = 1e-7


def transform_of(node: MlNode) -> str:
    """The node's post transform. Raises BadNode for one that is unknown."""
    found = node.text("post_transform", "NONE")
    if found not in TRANSFORMS:
        raise BadNode(f"post_transform {found!r} is unknown")
    return found


def transformed(node: MlNode, scores: Value, transform: str) -> Value:
    """Scores [rows, classes] as the post transform says, computed in float32."""
    if transform == "NONE":
        return scores
    dtype, scores = scores.type.dtype, node.cast(scores, "float32")
    return node.cast(_TRANSFORMS[transform](node, scores), dtype)


def _softmax_zero(node: MlNode, scores: Value) -> Value:
    """A softmax in which scores of zero stay zero."""
    one, zero = np.ones((), np.float32), np.zeros((), np.float32)
    kept = node.call("Greater", node.call("Abs", scores), np.asarray(_ZERO, np.float32))
    raised = node.call("Where", kept, node.call("Softmax", scores, axis=-1), zero)
    total = node.call("ReduceSum", raised, np.asarray([-1]), keepdims=1)
    none = node.call("Equal", total, zero)
    return node.call("Div", raised, node.call("Where", none, one, total))


def _probit(node: MlNode, scores: Value) -> Value:
    """The inverse of the normal distribution's integral, by an approximation."""
    one, two, half, factor, shift = (
        np.asarray(number, np.float32) for number in (1, 2, 0.5, 1 / _A, 2 / (math.pi * _A))
    )
    z = node.call("Sub", node.call("Mul", scores, two), one)
    log = node.call("Log", node.call("Sub", one, node.call("Mul", z, z)))
    v = node.call("Add", node.call("Mul", log, half), shift)
    rest = node.call("Sub", node.call("Mul", v, v), node.call("Mul", log, factor))
    root = node.call("Sqrt", node.call("Sub", node.call("Sqrt", rest), v))
    signed = node.call("Mul", node.call("Sign", z), root)
    return node.call("Mul", signed, np.asarray(math.sqrt(2), np.float32))


_TRANSFORMS: dict[str, Callable[[MlNode, Value], Value]] = {
    "SOFTMAX": lambda node, scores: node.call("Softmax", scores, axis=-1),
    "LOGISTIC": lambda node, scores: node.call("Sigmoid", scores),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def chosen_label(node: MlNode, scores: Value, labels: Array) -> Value:
    """The label [rows] of the largest score of each row, the first of equal ones."""
    place = node.call("ArgMax", scores, axis=-1, keepdims=0)
    if np.array_equal(labels, np.arange(len(labels))):
        return place
    return node.call("Gather", labels.astype(np.int64), place, axis=0)


def label_above(node: MlNode, score: Value, limit: float, labels: Array) -> Value:
    """The second label [rows] where the score [rows, 1] is above a limit, else the first."""
    above = node.call("Greater", score, np.asarray(limit, score.type.dtype))
    found = node.call("Where", above, np.asarray(labels[1]), np.asarray(labels[0]))
    return node.shaped(found, score.type.shape[0])


def both_scores(node: MlNode, score: Value, transform: str, sums_to_one: bool) -> Value:
    """The scores [rows, 2] of two classes, from the score of the second one [rows, 1]."""
    if transform == "PROBIT":
        raise ImportFailed("PROBIT of one score is not defined for two classes")
    if sums_to_one and transform != "LOGISTIC":
        first = node.call("Sub", np.ones((), score.type.dtype), score)
        return node.call("Concat", first, score, axis=1)
    pair = node.call("Concat", node.call("Neg", score), score, axis=1)
    return transformed(node, pair, transform) if transform == "LOGISTIC" else pair
