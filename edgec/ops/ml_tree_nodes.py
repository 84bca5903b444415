"""ai.onnx.ml's trees: TreeEnsembleClassifier, TreeEnsembleRegressor and TreeEnsemble."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from edgec.errors import BadNode, ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.ops.ml_node import DOMAIN, MlNode
from edgec.ops.ml_scores import (
    TRANSFORMS,
    both_scores,
    chosen_label,
    label_above,
    transform_of,
    transformed,
)
from edgec.ops.ml_trees import MODES, Branch, Forest, append_trees
from edgec.ops.op import RawNode, from_onnx

_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_LEAF = "LEAF"


def _listed_forest(node: MlNode, prefix: str) -> Forest:
    """Trees whose nodes have numbers of their own, and leaves among them."""
    trees, numbers, yes, no, features = (
        node.integers(f"nodes_{key}").tolist()
        for key in ("treeids", "nodeids", "truenodeids", "falsenodeids", "featureids")
    )
    values = node.numbers("nodes_values").tolist()
    modes = node.raw.attribute("nodes_modes")
    lists = (trees, numbers, yes, no, features, values, modes)
    if not isinstance(modes, tuple) or len({len(each) for each in lists}) != 1:
        raise BadNode(f"its lists of nodes have {[len(each) for each in lists]} entries")
    nan = node.integers("nodes_missing_value_tracks_true").tolist() or [0] * len(trees)
    positions, leaves = dict[tuple[int, int], int](), list[list[tuple[int, float]]]()
    branches = [k for k, mode in enumerate(modes) if mode != _LEAF]
    for position, k in enumerate(branches):
        positions[trees[k], numbers[k]] = position
    for k, mode in enumerate(modes):
        if mode == _LEAF:
            positions[trees[k], numbers[k]] = -1 - len(leaves)
            leaves.append([])
    _add_weights(node, prefix, positions, leaves)
    nodes = [
        Branch(modes[k], features[k], (values[k],), positions[trees[k], yes[k]],
               positions[trees[k], no[k]], bool(nan[k]))
        for k in branches
    ]  # fmt: skip
    first = {tree: k for k, tree in reversed(list(enumerate(trees)))}
    roots = [positions[tree, numbers[k]] for tree, k in sorted(first.items(), key=lambda e: e[1])]
    return Forest(nodes, roots, leaves)


def _add_weights(
    node: MlNode,
    prefix: str,
    positions: dict[tuple[int, int], int],
    leaves: list[list[tuple[int, float]]],
) -> None:
    lists = [node.integers(f"{prefix}_{key}").tolist() for key in ("treeids", "nodeids", "ids")]
    weights = node.numbers(f"{prefix}_weights").tolist()
    if len({len(each) for each in (*lists, weights)}) != 1:
        raise BadNode(f"its lists of weights have {[len(e) for e in (*lists, weights)]} entries")
    for tree, number, target, weight in zip(*lists, weights, strict=True):
        leaf = positions[tree, number]
        if leaf >= 0:
            raise BadNode(f"node {number} of tree {tree} has a weight and is not a leaf")
        leaves[-1 - leaf].append((target, weight))


def _based(node: MlNode, scores: Value, count: int) -> Value:
    """Scores plus the `count` base values, if the node has any."""
    base = node.numbers("base_values")
    if not base.size:
        return scores
    if base.size != count:
        raise BadNode(f"{base.size} base values for {count} targets")
    return node.call("Add", scores, base.astype(scores.type.dtype))


@from_onnx(f"{DOMAIN}.TreeEnsembleClassifier")
def import_classifier(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """The label of each row, and the scores of all classes."""
    node = MlNode(builder, raw)
    node.refuse_strings("classlabels_strings")
    labels, transform, x = node.integers("classlabels_int64s"), transform_of(node), node.rows()
    forest = _listed_forest(node, "class")
    ids = {target for entries in forest.leaves for target, _ in entries}
    if len(labels) > 2 or len(ids) > 1:
        scores = append_trees(builder, raw.name, x, forest, len(labels), "sum")
        scores = node.cast(_based(node, scores, len(labels)), "float32")
        return chosen_label(node, scores, labels), transformed(node, scores, transform)
    if ids == {1}:
        labels = labels if labels.size else np.asarray([0, 1])
        return _second_class(node, x, forest, labels, transform)
    return _two_classes(node, x, forest, labels, transform)


def _limit(forest: Forest) -> float:
    """The threshold: a score above it means the second class."""
    return 0.5 if all(w >= 0 for entries in forest.leaves for _, w in entries) else 0.0


def _two_classes(
    node: MlNode, x: Value, forest: Forest, labels: Array, transform: str
) -> tuple[Value, ...]:
    """One score decides between two classes."""
    score = append_trees(node.builder, node.raw.name, x, forest, 1, "sum")
    score, limit = node.cast(_based(node, score, 1), "float32"), _limit(forest)
    if len(labels) != 2:
        labels = np.asarray([0, 1]) if not labels.size else np.asarray([0, labels[0]])
    label = label_above(node, score, limit, labels)
    return label, both_scores(node, score, transform, sums_to_one=limit > 0)


def _second_class(
    node: MlNode, x: Value, forest: Forest, labels: Array, transform: str
) -> tuple[Value, ...]:
    """The same with a score in the second column; the first class has the score 0."""
    if node.numbers("base_values").size or len(labels) != 2:
        raise ImportFailed(
            "base values with scores of only the second class have no defined meaning"
        )
    scores = append_trees(node.builder, node.raw.name, x, forest, 2, "sum")
    scores = node.cast(scores, "float32")
    second = node.call("Slice", scores, np.asarray([1]), np.asarray([2]), np.asarray([1]))
    label = label_above(node, second, _limit(forest), labels)
    return label, transformed(node, scores, transform)


def _aggregated(node: MlNode, x: Value, forest: Forest, targets: int, aggregate: str) -> Value:
    """The result of all trees by one of ONNX's functions, and the base values."""
    if aggregate not in _AGGREGATES:
        raise BadNode(f"aggregate_function {aggregate!r} is unknown")
    kind = {"AVERAGE": "sum"}.get(aggregate, aggregate.lower())
    scores = append_trees(node.builder, node.raw.name, x, forest, targets, kind)
    dtype = scores.type.dtype
    if aggregate == "AVERAGE":
        scores = node.call("Div", scores, np.asarray(len(forest.roots), dtype))
    if kind != "sum":  # of a target that no leaf has reached
        none = node.call("Greater", node.call("Abs", scores), np.asarray(np.finfo(dtype).max))
        scores = node.call("Where", none, np.zeros((), dtype), scores)
    return _based(node, scores, targets)


@from_onnx(f"{DOMAIN}.TreeEnsembleRegressor")
def import_regressor(builder: GraphBuilder, raw: RawNode) -> Value:
    """The result of all trees for each target, in float32."""
    node = MlNode(builder, raw)
    forest = _listed_forest(node, "target")
    targets = int(raw.attribute("n_targets", 1))
    aggregate, transform = node.text("aggregate_function", "SUM"), transform_of(node)
    found = _aggregated(node, node.rows(), forest, targets, aggregate)
    return _transformed(node, node.cast(found, "float32"), transform)


def _transformed(node: MlNode, scores: Value, transform: str) -> Value:
    """The post transform; of a single target PROBIT alone, as ONNX Runtime has it."""
    is_done = scores.type.shape[1] > 1 or transform == "PROBIT"
    return transformed(node, scores, transform) if is_done else scores


@from_onnx(f"{DOMAIN}.TreeEnsemble", since=5)
def import_tree_ensemble(builder: GraphBuilder, raw: RawNode) -> Value:
    """The result of all trees for each target, in the dtype of the features."""
    node = MlNode(builder, raw)
    aggregate, transform = (int(raw.attribute(k, d)) for k, d in _NUMBERED)
    if not (0 <= aggregate < len(_AGGREGATES) and 0 <= transform < len(TRANSFORMS)):
        raise BadNode(f"aggregate_function {aggregate}, post_transform {transform}")
    if TRANSFORMS[transform] in ("SOFTMAX", "LOGISTIC"):
        raise ImportFailed(
            f"post_transform {transform}: the standard and ONNX Runtime disagree on 1 and 2",
            hint="use none, and a Softmax or Sigmoid after it",
        )
    targets = int(raw.attribute("n_targets", 1))
    found = _aggregated(node, node.rows(), _split_forest(node), targets, _AGGREGATES[aggregate])
    return _transformed(node, found, TRANSFORMS[transform])


_NUMBERED = (("aggregate_function", 1), ("post_transform", 0))


def _split_forest(node: MlNode) -> Forest:
    """Trees whose nodes and leaves are listed apart."""
    yes, no, yes_leaf, no_leaf, features, roots, targets = (
        node.integers(key)
        for key in ("nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs",
                    "nodes_falseleafs", "nodes_featureids", "tree_roots", "leaf_targetids")
    )  # fmt: skip
    splits, weights = node.numbers("nodes_splits"), node.numbers("leaf_weights")
    modes = node.integers("nodes_modes")
    nan = node.integers("nodes_missing_value_tracks_true")
    nan = nan if nan.size else np.zeros(len(yes), np.int64)
    lists = (yes, no, yes_leaf, no_leaf, features, splits, modes, nan)
    if len({len(each) for each in lists}) != 1 or len(weights) != len(targets):
        raise BadNode(f"its lists of nodes have {[len(each) for each in lists]} entries")
    if not ((modes >= 0) & (modes < len(MODES))).all():
        raise BadNode("it compares in an unknown way")
    sets = _sets(node.numbers("membership_values"))
    nodes = []
    for k, mode in enumerate(MODES[number] for number in modes):
        values = next(sets, ()) if mode == "BRANCH_MEMBER" else (float(splits[k]),)
        yes_at, no_at = (
            -1 - int(to[k]) if leaf[k] else int(to[k])
            for to, leaf in ((yes, yes_leaf), (no, no_leaf))
        )
        nodes.append(Branch(mode, int(features[k]), values, yes_at, no_at, bool(nan[k])))
    leaves = [[(int(t), float(w))] for t, w in zip(targets, weights, strict=True)]
    return Forest(nodes, roots.tolist(), leaves)


def _sets(values: Array) -> Iterator[tuple[float, ...]]:
    """The sets of numbers that NaNs end."""
    start = 0
    for stop in np.flatnonzero(np.isnan(values)).tolist():
        yield tuple(values[start:stop].tolist())
        start = stop + 1
