"""ai.onnx.ml's trees, against ONNX Runtime: comparisons, NaNs, aggregates, two classes, C."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_nodes import check_ml_c, check_ml_node, random_trees, save_ml_node
from onnx.numpy_helper import from_array

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.ops.ml_trees import MODES

RNG = np.random.default_rng(0)
COMPARED = MODES[:-1]
#: Numbers that thresholds are, and none.
X = (RNG.integers(-4, 5, (40, 4)) / 2).astype(np.float32)
GAPS = np.where(RNG.random(X.shape) < 0.15, np.float32("nan"), X)
EVEN, ALL, TWO = (lambda tree: (tree % 3,)), (lambda tree: (0, 1, 2)), (lambda tree: (tree % 2,))


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("mode", COMPARED)
def test_comparisons(mode: str, missing: bool, tmp_path: Path) -> None:
    trees = random_trees(3, lambda tree: (0,), [mode], missing=missing)
    check_ml_node(tmp_path, "TreeEnsembleRegressor", [GAPS], n_targets=1, **trees)


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_aggregates(aggregate: str, tmp_path: Path) -> None:
    for targets, base in ((EVEN, [1.0, 2.0, 3.0]), (ALL, []), (TWO, [])):
        more = {"base_values": base} if base else {}
        trees = random_trees(6, targets, COMPARED)
        check_ml_node(tmp_path, "TreeEnsembleRegressor", [X], n_targets=3,
                      aggregate_function=aggregate, **more, **trees)  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_features_of_other_dtypes(dtype: str, tmp_path: Path) -> None:
    trees = random_trees(3, lambda tree: (0, 1, 2), COMPARED, prefix="class")
    check_ml_node(tmp_path, "TreeEnsembleClassifier", [X.astype(dtype)], 2,
                  classlabels_int64s=[3, 5, 7], **trees)  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("positive", [False, True])
def test_classes(positive: bool, transform: str, tmp_path: Path) -> None:
    for labels, targets, base in (
        ([3, 5, 7], ALL, []), ([3, 5, 7], EVEN, [0.1, 0.2, 0.3]), ([3, 5], lambda tree: (0,), []),
        ([3, 5], lambda tree: (0,), [0.3]), ([3, 5], lambda tree: (1,), []),
    ):  # fmt: skip
        if len(labels) == 2 and targets(0) == (0,) and transform == "PROBIT":
            continue
        more = {"base_values": base} if base else {}
        trees = random_trees(6, targets, COMPARED, prefix="class", positive=positive)
        check_ml_node(tmp_path, "TreeEnsembleClassifier", [X], 2, classlabels_int64s=labels,
                      post_transform=transform, **more, **trees)  # fmt: skip


def split_tree(dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """One tree of seven nodes, one of each comparison."""
    return {
        "n_targets": 2, "tree_roots": [0], "nodes_featureids": [0, 1, 2, 3, 0, 1, 2],
        "nodes_modes": from_array(np.array([0, 1, 2, 6, 3, 4, 5], np.uint8)),
        "nodes_splits": from_array(np.array([0, 1, -1, 0, 0.5, 1, 0], dtype)),
        "membership_values": from_array(np.array([1, 2, -2, np.nan], dtype)),
        "nodes_truenodeids": [1, 3, 5, 0, 2, 4, 6], "nodes_falsenodeids": [2, 4, 6, 1, 3, 5, 7],
        "nodes_trueleafs": [0, 0, 0, 1, 1, 1, 1], "nodes_falseleafs": [0, 0, 0, 1, 1, 1, 1],
        "leaf_targetids": [0, 1] * 4, "nodes_missing_value_tracks_true": [0, 1, 0, 1, 0, 1, 0],
        "leaf_weights": from_array(np.linspace(0.1, 0.9, 8).astype(dtype)), **more,
    }  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_membership(dtype: str, tmp_path: Path) -> None:
    for aggregate in range(4):
        for transform in (0, 3, 4):
            attributes = split_tree(dtype, aggregate_function=aggregate, post_transform=transform)
            whole = np.trunc(GAPS).astype(dtype)  # the runtime drops fractions of a member
            check_ml_node(tmp_path, "TreeEnsemble", [whole], 1, 5, **attributes)


@pytest.mark.parametrize("targets", [EVEN, ALL])
def test_c_of_many_trees(targets: Any, tmp_path: Path) -> None:
    trees = random_trees(6, targets, COMPARED, prefix="class", missing=True, depth=4)
    module = check_ml_node(tmp_path, "TreeEnsembleClassifier", [GAPS[:2]], 2,
                           classlabels_int64s=[3, 5, 7], **trees)  # fmt: skip
    check_ml_c(module, tmp_path)


def changed(key: str, place: int, value: Any) -> dict[str, Any]:
    """Trees with one entry of a list changed."""
    trees = random_trees(2, lambda tree: (0,))
    trees[key][place] = value
    return trees


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (changed("nodes_truenodeids", 0, 0), "is reached twice"),
        (changed("nodes_truenodeids", 0, 99), "malformed"),
        (changed("nodes_featureids", 0, 4), "node 0 reads feature 4 of 4"),
        (changed("nodes_modes", 0, "BRANCH_NEAR"), "compares by 'BRANCH_NEAR'"),
        (changed("target_ids", 0, 3), "another target than the 1"),
        (changed("target_nodeids", 0, 0), "has a weight and is not a leaf"),
        (random_trees(2, lambda tree: (0,)) | {"nodes_values": [1.0]}, "lists of nodes have"),
        (random_trees(2, lambda tree: (0,)) | {"base_values": [1.0, 2.0]}, "2 base values"),
        (random_trees(2, lambda tree: (0,)) | {"aggregate_function": "MODE"}, "'MODE' is unknown"),
    ],
)
def test_damaged_trees(attributes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = save_ml_node(tmp_path, "TreeEnsembleRegressor", [X], n_targets=1, **attributes)
    with pytest.raises(ImportFailed, match=message):
        import_model(path)


def test_what_the_standard_and_the_runtime_read_differently(tmp_path: Path) -> None:
    path = save_ml_node(tmp_path, "TreeEnsemble", [X], 1, 5, **split_tree(post_transform=1))
    with pytest.raises(ImportFailed, match="disagree on 1 and 2"):
        import_model(path)
