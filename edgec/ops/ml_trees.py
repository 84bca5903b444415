"""Trees of ai.onnx.ml in the one form that `edgec.ops.tree_ensemble` walks.

1. A tree's nodes follow each other, its root first; a tree of one leaf gets a node over it.
2. Every comparison becomes `feature <= threshold`: `<` by the next smaller number, `>` and `>=`
   with the branches changed, `==` and membership by two nodes for each number.
3. A NaN goes where it went before: left where a flag says so, else right.
4. A leaf adds to every target; where each tree adds to one target alone, and each target has as
   many trees, the trees of a target follow each other and a leaf is one number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from edgec.errors import BadNode
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.graph.types import Array
from edgec.ops.tree_ensemble import AGGREGATES, MISSING_LEFT, TreeEnsembleAttrs

#: ONNX's comparisons, in the order of their numbers in TreeEnsemble.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
         "BRANCH_MEMBER")  # fmt: skip


#: More targets than this are damage: each has an entry in every leaf.
MOST_TARGETS = 1 << 16


@dataclass(frozen=True)
class Branch:
    """A node of a tree in the file. yes, no: index of the next node, or -1 - index of a leaf.

    values: what the feature is compared with; a set has several. nan_is_yes: a NaN takes the branch
    `yes`.
    """

    mode: str
    feature: int
    values: tuple[float, ...]
    yes: int
    no: int
    nan_is_yes: bool = False


@dataclass(frozen=True)
class Forest:
    """roots: the first node of each tree, or -1 - a leaf. leaves: (target, weight) of each leaf."""

    nodes: Sequence[Branch]
    roots: Sequence[int]
    leaves: Sequence[Sequence[tuple[int, float]]]


@dataclass
class _Tables:
    """Nodes in the order found: (feature and flag, threshold, right, left)."""

    dtype: str
    nodes: list[tuple[int, float, int, int]] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)

    def add(self, feature: int, threshold: float, left: int, right: int, nan_left: bool) -> int:
        """A node whose children are there already; its number."""
        self.nodes.append((2 * feature + MISSING_LEFT * nan_left, threshold, right, left))
        below = [self.depths[child] for child in (left, right) if child >= 0]
        self.depths.append(1 + max(below, default=0))
        return len(self.nodes) - 1

    def below(self, value: float) -> float:
        """The next smaller number; a NaN for the smallest number, since nothing is below a NaN."""
        number = np.dtype(self.dtype).type(value)
        lower = np.nextafter(number, -np.inf, dtype=self.dtype)
        return float(lower) if lower < number else float("nan")

    def branch(self, node: Branch, yes: int, no: int) -> int:
        """Append the nodes of one comparison; the last one appended is evaluated first."""
        value, feature, nan = node.values[0], node.feature, node.nan_is_yes
        if node.mode in ("BRANCH_LEQ", "BRANCH_LT"):
            limit = value if node.mode == "BRANCH_LEQ" else self.below(value)
            return self.add(feature, limit, yes, no, nan)
        if node.mode in ("BRANCH_GT", "BRANCH_GTE"):
            limit = value if node.mode == "BRANCH_GT" else self.below(value)
            return self.add(feature, limit, no, yes, not nan)
        if node.mode == "BRANCH_NEQ":
            return self.equal(feature, value, no, yes, nan_is_equal=False)
        made = no
        for number, each in enumerate(sorted(set(node.values), reverse=True), 1):
            is_first = number == len(set(node.values))
            made = self.equal(feature, each, yes, made, nan_is_equal=nan and is_first)
        return made

    def equal(self, feature: int, value: float, yes: int, no: int, *, nan_is_equal: bool) -> int:
        """Whether the feature is a number: not more, and not less either."""
        not_less = self.add(feature, self.below(value), no, yes, False)
        return self.add(feature, value, not_less, no, nan_is_equal)


def _reached(forest: Forest, root: int) -> list[int]:
    """A tree's nodes, children before parents. Raises BadNode if they do not form a tree."""
    order, waiting, seen = list[int](), [root], set[int]()
    while waiting:
        place = waiting.pop()
        if place < 0:
            if not -len(forest.leaves) <= place:
                raise BadNode(f"leaf {-1 - place} of {len(forest.leaves)}")
            continue
        if place in seen or place >= len(forest.nodes):
            raise BadNode(f"node {place} of a tree is reached twice, or is none")
        seen.add(place)
        order.append(place)
        waiting += (forest.nodes[place].no, forest.nodes[place].yes)
    return order[::-1]


def _one_tree(forest: Forest, root: int, dtype: str) -> tuple[Array, Array, Array, int]:
    """Features, thresholds and children of one tree, the root first, and its depth."""
    tables, made = _Tables(dtype), dict[int, int]()
    for place in _reached(forest, root):
        node = forest.nodes[place]
        yes, no = (made.get(child, child) for child in (node.yes, node.no))
        made[place] = tables.branch(node, yes, no)
    if not tables.nodes:
        tables.add(0, 0.0, root, root, False)
    feature, threshold, right, left = zip(*tables.nodes[::-1], strict=True)
    child = np.stack([right, left], axis=1).astype(np.int32)
    child = np.where(child < 0, child, len(child) - 1 - child)
    return np.asarray(feature, np.int32), np.asarray(threshold, dtype), child, tables.depths[-1]


def _target_of(forest: Forest, child: Array) -> int | None:
    """The target that all leaves of a tree add to; None where there are several, or none."""
    found = {
        tuple(target for target, _ in forest.leaves[-1 - leaf])
        for leaf in np.unique(child[child < 0]).tolist()
    }
    only = found.pop()
    return only[0] if not found and len(only) == 1 else None


def _leaf_rows(forest: Forest, targets: int, aggregate: str, dtype: str) -> Array:
    """The weight [leaf, target] that each leaf adds to each target."""
    neutral, _ = AGGREGATES[aggregate]
    rows = np.full((len(forest.leaves), targets), neutral, dtype)
    combine = {"sum": np.add, "min": np.minimum, "max": np.maximum}[aggregate]
    for row, entries in zip(rows, forest.leaves, strict=True):
        for target, weight in entries:
            row[target] = combine(row[target], np.dtype(dtype).type(weight))
    return rows


def append_trees(
    builder: GraphBuilder, name: str, x: Value, forest: Forest, targets: int, aggregate: str
) -> Value:
    """The result [rows, targets] of all trees of x [rows, features].

    Raises BadNode for nodes that do not form trees, and for invalid features or targets.
    """
    _check(x, forest, targets)
    dtype = x.type.dtype
    trees = [_one_tree(forest, root, dtype) for root in forest.roots]
    of_tree = [_target_of(forest, child) for _, _, child, _ in trees]
    share, rest = divmod(len(trees), targets)
    alone = not rest and all(of_tree.count(target) == share for target in range(targets))
    if alone and targets > 1:
        order = np.argsort(np.asarray(of_tree), kind="stable")
        trees = [trees[place] for place in order]
    leaf = _leaf_rows(forest, targets, aggregate, dtype)
    if alone:
        only = [entries[0][0] if entries else 0 for entries in forest.leaves]
        leaf = leaf[np.arange(len(only)), only][:, np.newaxis]
    sizes = [len(feature) for feature, _, _, _ in trees]
    root = np.cumsum([0, *sizes[:-1]]).astype(np.int32)
    feature, threshold, child = (np.concatenate([t[part] for t in trees]) for part in range(3))
    arrays = {"feature": feature, "threshold": threshold, "child": child.astype(np.int32),
              "root": root, "leaf": leaf}  # fmt: skip
    operands = [builder.constant(f"{name}.{what}", array) for what, array in arrays.items()]
    attrs = TreeEnsembleAttrs(max(depth for _, _, _, depth in trees), aggregate, targets)
    return builder.op("tree_ensemble", [x, *operands], attrs, name=name)


def _check(x: Value, forest: Forest, targets: int) -> None:
    """Raise BadNode for an invalid feature or target, or if there is no tree."""
    if not forest.roots or not 1 <= targets <= MOST_TARGETS:
        raise BadNode(f"{len(forest.roots)} trees, {targets} targets")
    columns = x.type.shape[1]
    for place, node in enumerate(forest.nodes):
        if node.mode not in MODES or not node.values:
            raise BadNode(f"node {place} compares by {node.mode!r} with {len(node.values)} numbers")
        if not 0 <= node.feature < columns:
            raise BadNode(f"node {place} reads feature {node.feature} of {columns}")
    if any(not 0 <= target < targets for entries in forest.leaves for target, _ in entries):
        raise BadNode(f"a leaf has another target than the {targets} there are")
