"""tree_ensemble: tables of the fewest bytes, a tree of one leaf, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.tree_ensemble import TreeEnsemble, TreeEnsembleAttrs, smallest_leaves

F, I = "float32", "int32"  # noqa: E741
#: Two trees of one node, whose leaves are 0, 1 and 2, 3; the first is right.
CHILD = np.array([[-2, -1], [-4, -3]], np.int32)
ROOT = np.array([0, 1], np.int32)
TYPES = [
    TensorType((5, 3), F), TensorType((2,), I), TensorType((2,), F), TensorType((2, 2), I),
    TensorType((2,), I), TensorType((4, 1), F),
]  # fmt: skip


def test_a_threshold_goes_left_and_a_nan_where_it_is_sent() -> None:
    feature = np.array([2, 3], np.int32)  # the second feature; of the second tree NaNs go left
    limit, leaf = np.array([1, 1], F), np.array([[1], [10], [100], [1000]], F)
    x = np.zeros((5, 3), F)
    x[:, 1] = 0, 1, 2, np.nan, -np.inf
    op, attrs = TreeEnsemble(), TreeEnsembleAttrs(1)
    (found,) = op.evaluate(attrs, [x, feature, limit, CHILD, ROOT, leaf], TYPES,
                           op.infer(attrs, *TYPES))  # fmt: skip
    np.testing.assert_array_equal(found[:, 0], [101, 101, 1010, 110, 101])


def test_equal_leaves_are_one() -> None:
    leaf = np.array([[1, 0], [0, 1], [0, 1], [1, 0]], F)
    child, first, rows = smallest_leaves(CHILD, ROOT, leaf)
    assert first is None and rows.shape == (2, 2) and child.dtype == np.int8
    for old, new in zip(CHILD.ravel(), child.ravel(), strict=True):
        np.testing.assert_array_equal(rows[-1 - new], leaf[-1 - old])


def test_many_leaves_are_counted_within_their_tree() -> None:
    trees = 200  # of two nodes and three leaves
    child = np.stack([[-1 - 3 * t, 1, -2 - 3 * t, -3 - 3 * t] for t in range(trees)])
    child = child.reshape(-1, 2).astype(np.int32)
    root = np.arange(0, 2 * trees, 2, dtype=np.int32)
    leaf = np.arange(3 * trees, dtype=F)[:, np.newaxis]
    small, first, rows = smallest_leaves(child, root, leaf)
    assert small.dtype == np.int8 and first is not None and first.dtype == np.uint16
    for tree in range(trees):
        was, now = (c[2 * tree : 2 * tree + 2].ravel() for c in (child, small.astype(int)))
        ends = was < 0
        assert now[1] == 1
        np.testing.assert_array_equal(rows[int(first[tree]) - 1 - now[ends]], leaf[-1 - was[ends]])


@pytest.mark.parametrize(
    ("place", "type_", "attrs", "message"),
    [
        (0, TensorType((5, 3), "int8"), TreeEnsembleAttrs(1), "tree_ensemble of int8"),
        (2, TensorType((2,), "float64"), TreeEnsembleAttrs(1), "float64"),
        (3, TensorType((3, 2), I), TreeEnsembleAttrs(1), "by tables of"),
        (0, TensorType((5, 3), F), TreeEnsembleAttrs(1, "sum", 3), "2 trees for 3 targets"),
        (0, TensorType((5, 3), F), TreeEnsembleAttrs(1, "mode"), "by 'mode'"),
        (0, TensorType((5, 3), F), TreeEnsembleAttrs(0), "tree_ensemble by"),
    ],
)
def test_refusals(place: int, type_: TensorType, attrs: TreeEnsembleAttrs, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        TreeEnsemble().infer(attrs, *TYPES[:place], type_, *TYPES[place + 1 :])
