"""tree_ensemble: the leaf that each tree finds for a row of features, and the sums of the leaves.

The C code is one loop over all trees of a row, without recursion: it walks a tree to a leaf
(`edgec.codegen.settled` ends the loop there), then adds up the leaves. The tables are constants, so
they lie in flash, each in the smallest integers that hold it:

    feature [n]       of each node, twice its number, plus 1 where a NaN goes left (if any does)
    threshold [n]     as it is, or as a place in the table of all different ones, if that is smaller
    child [n, 2]      right and left: a node's number within its tree, or -1 - the number of a leaf
    root [trees]      the first node of each tree
    leaf [rows, c]    what a leaf adds: rows of all trees, each once; or rows of each tree in turn

The smaller of the two leaf tables is taken. All comparisons are `feature <= threshold`; the
importer rewrites others (`edgec.ops.ml_trees`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, register
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, int32, maximum, minimum, select
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.op import Op
from edgec.ops.row import FLOATS

#: How leaves become a result: the number that changes nothing, and the operation.
AGGREGATES: dict[str, tuple[float, Callable[[Value, Value], Value]]] = {
    "sum": (0.0, lambda a, b: a + b),
    "min": (np.inf, minimum),
    "max": (-np.inf, maximum),
}
#: A bit beside the number of a node's feature: a missing value goes left.
MISSING_LEFT = 1


@dataclass(frozen=True)
class TreeEnsembleAttrs:
    """depth: the most nodes from a root to a leaf. aggregate: of AGGREGATES. targets: results of a
    row; if each leaf adds to one of them only, the trees are ordered by target, with equal numbers
    for each.
    """

    depth: int
    aggregate: str = "sum"
    targets: int = 1


@register
class TreeEnsemble(Op[TreeEnsembleAttrs]):
    """x [rows, features], feature int32 [n], threshold [n], child int32 [n, 2] (right, left), root
    int32 [trees], leaf [leaves, targets] or [leaves, 1]; floats of one dtype.
    """

    name = "tree_ensemble"
    attrs_class = TreeEnsembleAttrs
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    constant_inputs = (1, 2, 3, 4, 5)

    def infer(self, attrs: TreeEnsembleAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """[rows, targets]."""
        if len(inputs) != 6:
            raise TypeMismatch(f"tree_ensemble has 6 operands, not {len(inputs)}")
        x, _, threshold, _, _, leaf = inputs
        if x.dtype not in FLOATS or {threshold.dtype, leaf.dtype} != {x.dtype}:
            raise TypeMismatch(f"tree_ensemble of {x}, {threshold} and {leaf}")
        _check_tables(attrs, x, [each.shape for each in inputs[1:]])
        return (TensorType((x.shape[0], attrs.targets), x.dtype),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Find each tree's leaf first, then combine the leaves."""
        attrs: TreeEnsembleAttrs = node.attrs
        x = tensor_of(inputs[0])
        feature, threshold, child, root, leaf = (constant_of(each).data for each in inputs[1:])
        child, base, leaf = smallest_leaves(child, root, leaf)
        tables = _Tables(target, feature, child, root)
        limit = _coded(target, "threshold", threshold)

        def step(at: Value, row: Any, tree: Any, level: Any) -> Value:
            here = tables.node(maximum(int32(at), 0), tree)
            goes_left = tables.goes_left(x, row, here, limit(here))
            return select(at < 0, at, tables.child[here, int32(goes_left)])

        rows, trees = x.shape[0], len(root)
        found = target.definition.reduce(
            target.unique("found"), [("level", 0, attrs.depth)], init=lambda row, tree: 0,
            update=step, shape=(rows, trees), dtype=child.dtype.name,
        )  # fmt: skip
        add = _coded(target, "leaf", leaf)
        first = None if base is None else target.table("first_leaf", base)
        own = leaf.shape[1] != attrs.targets
        each = trees // attrs.targets if own else trees
        neutral, together = AGGREGATES[attrs.aggregate]

        def update(total: Value, row: Any, column: Any, k: Any) -> Value:
            tree = column * each + k if own else k
            place = -1 - int32(found[row, tree])
            if first is not None:
                place = place + int32(first[tree])
            return together(total, add(place, 0 if own else column))

        return target.reduce(
            "total", node.output.type.shape, x.dtype, [("k", 0, each)],
            init=lambda row, column: neutral, update=update,
        )  # fmt: skip


def _check_tables(
    attrs: TreeEnsembleAttrs, x: TensorType, shapes: Sequence[tuple[int, ...]]
) -> None:
    """Raise TypeMismatch where tables do not fit each other, the attributes, or x."""
    feature, threshold, child, root, leaf = shapes
    is_whole = [len(shape) for shape in (x.shape, root, leaf)] == [2, 1, 2]
    if not is_whole or (threshold, child) != (feature, (*feature, 2)):
        raise TypeMismatch(f"tree_ensemble of {x} by tables of {shapes}")
    each = attrs.targets if leaf[1] == 1 else 1  # targets that share the trees evenly
    if leaf[1] not in (1, attrs.targets) or root[0] % each:
        raise TypeMismatch(f"{root[0]} trees for {attrs.targets} targets, leaves {leaf}")
    if attrs.aggregate not in AGGREGATES or min(attrs.depth, root[0]) < 1:
        raise TypeMismatch(f"tree_ensemble by {attrs.aggregate!r}, {root[0]} trees")


class _Tables:
    """The tables of nodes as tensors, and how they are read."""

    def __init__(self, target: Lowering, feature: Array, child: Array, root: Array) -> None:
        self.missing = bool((feature & MISSING_LEFT).any())
        kept = feature if self.missing else feature >> 1
        self.feature = target.table("feature", kept.astype(smallest_integer(kept)))
        self.child = target.table("child", child)
        self.root = target.table("root", root.astype(smallest_integer(root)))

    def node(self, at: Value, tree: Any) -> Value:
        """The number of a node among all, from that within its tree."""
        return at if self.root.shape == (1,) else int32(self.root[tree]) + at

    def goes_left(self, x: Tensor, row: Any, here: Value, limit: Value) -> Value:
        """Whether the feature is at most the threshold, or a NaN that is sent there."""
        feature = int32(self.feature[here])
        if not self.missing:
            return x[row, feature] <= limit
        given = x[row, feature >> 1]
        is_sent = (feature & MISSING_LEFT).equals(1)
        return (given <= limit) | (is_sent & (given.equals(given) ^ True))


def smallest_integer(values: Array) -> str:
    """The smallest dtype that holds these integers, signed where one is negative."""
    low, high = int(values.min(initial=0)), int(values.max(initial=0))
    kinds = ("int8", "int16", "int32") if low < 0 else ("uint8", "uint16", "int32")
    return next(d for d in kinds if np.iinfo(d).min <= low and high <= np.iinfo(d).max)


def _coded(target: Lowering, name: str, values: Array) -> Callable[..., Value]:
    """A table of floats read by `read(place, ...)`; by indices if it has few distinct floats."""
    bits = values.view(f"u{values.itemsize}")  # zeros of both signs, and NaNs, stay
    different, indices = np.unique(bits, return_inverse=True)
    indices = indices.reshape(values.shape)
    indices = indices.astype(smallest_integer(indices))
    if indices.nbytes + different.nbytes >= values.nbytes:
        whole = target.table(name, values)
        return lambda *at: whole[at]
    codes = target.table(f"{name}_place", indices)
    table = target.table(name, different.view(values.dtype))
    return lambda *at: table[int32(codes[at])]


def smallest_leaves(child: Array, root: Array, leaf: Array) -> tuple[Array, Array | None, Array]:
    """Children, the first leaf of each tree (None: leaves have one numbering), and leaves.

    The form of fewer bytes: one numbering for all different leaves, or one from 0 in each tree.
    """
    forms = (_shared_leaves(child, leaf), _own_leaves(child, root, leaf))
    return min(forms, key=lambda form: sum(a.nbytes for a in form if a is not None))


def _shared_leaves(child: Array, leaf: Array) -> tuple[Array, Array | None, Array]:
    rows, number = np.unique(leaf.view(f"u{leaf.itemsize}"), axis=0, return_inverse=True)
    made = np.where(child < 0, -1 - number.reshape(-1)[-1 - np.minimum(child, -1)], child)
    return made.astype(smallest_integer(made)), None, rows.view(leaf.dtype)


def _own_leaves(child: Array, root: Array, leaf: Array) -> tuple[Array, Array | None, Array]:
    made, base, order = child.copy(), [], list[int]()
    for start, stop in zip(root, [*root[1:], len(child)], strict=True):
        part = made[start:stop]
        numbers, indices = np.unique(-1 - part[part < 0], return_inverse=True)
        part[part < 0] = -1 - indices
        base.append(len(order))
        order += numbers.tolist()
    first = np.asarray(base)
    return made.astype(smallest_integer(made)), first.astype(smallest_integer(first)), leaf[order]
