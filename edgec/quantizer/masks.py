"""Masks before a softmax: what stands for minus infinity in integers.

1. A sum with a constant, or a constant choice, that nothing but a softmax reads is a sum with zeros
   and -MASKED: e**-MASKED is nothing in float32, too, beside any score within that of the largest.
2. A choice whose constant condition is the same everywhere is what it chooses.

Such sums are stored in int16 also among int8: scores keep their small steps beside -MASKED.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Arithmetic
from edgec.graph.types import Array
from edgec.ops.add import Add, AddAttrs
from edgec.passes.rewriter import Rewriter

#: The magnitude of what stands for a mask, and how far below 0 a mask begins.
MASKED, LEAST_MASK = 128.0, 1e3


def with_masks(function: Function) -> Function:
    """The same function with masks of finite numbers."""
    return Rewriter(function).run(_Masks(_Readers(function)))


def masked_sums(function: Function) -> tuple[Value, ...]:
    """The sums with such masks."""
    readers = _Readers(function)
    return tuple(
        node.output
        for node in function.nodes
        if node.op.computes is Arithmetic.SUM
        and any(_lowest(value) == -MASKED for value in node.inputs)
        and readers.are_softmax(node.output)
    )


class _Readers:
    def __init__(self, function: Function) -> None:
        self.consumers = function.consumers()
        self.results = frozenset(function.results)

    def are_softmax(self, value: Value) -> bool:
        """Whether nothing but a softmax reads a value."""
        readers = self.consumers.get(value, ())
        is_own = value not in self.results and bool(readers)
        return is_own and all(node.op.normalizes for node in readers)


@dataclass(frozen=True)
class _Masks:
    readers: _Readers

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        found: tuple[Value, Array] | None = None
        if _is_choice(node):
            chosen = _only_choice(node, inputs)
            if chosen is not None:
                return (chosen,)
            found = _masked_choice(node, inputs)
        elif node.op.computes is Arithmetic.SUM:
            found = _masked_sum(inputs)
        if found is None or not self.readers.are_softmax(node.output):
            return None
        x, mask = found
        known = (v.origin for v in inputs if isinstance(v, Constant) and v.type.shape == mask.shape)
        constant = rewriter.builder.constant(
            f"{node.name}.mask", mask.astype(np.float32), origin=next(known, None)
        )
        return rewriter.remake(node, [x, constant], AddAttrs(), op=Add)


def _is_choice(node: Node) -> bool:
    """Whether a condition chooses each element of one of two operands."""
    return node.op.is_elementwise and node.op.reads_alike and node.op.steering == (0,)


def _only_choice(node: Node, inputs: Sequence[Value]) -> Value | None:
    condition = inputs[0]
    if not isinstance(condition, Constant) or condition.data.any() != condition.data.all():
        return None
    chosen = inputs[1 if condition.data.all() else 2]
    return chosen if chosen.type == node.output.type else None


def _masked_sum(inputs: Sequence[Value]) -> tuple[Value, Array] | None:
    for x, mask in (tuple(inputs), tuple(inputs[::-1])):
        if _lowest(mask) <= -LEAST_MASK and isinstance(mask, Constant):
            others = mask.data[mask.data > -LEAST_MASK]
            if np.abs(others).max(initial=0.0) < MASKED:
                return x, np.where(mask.data > -LEAST_MASK, mask.data, -MASKED)
    return None


def _masked_choice(node: Node, inputs: Sequence[Value]) -> tuple[Value, Array] | None:
    condition, first, second = inputs
    if not isinstance(condition, Constant):
        return None
    for x, mask, hides in ((first, second, ~condition.data), (second, first, condition.data)):
        is_mask = _highest(mask) <= -LEAST_MASK and x.type.shape == node.output.type.shape
        if is_mask and not isinstance(x, Constant):
            return x, np.where(hides, -MASKED, 0.0)
    return None


def _lowest(value: Value) -> float:
    """Of a constant and 0; 0 for another value."""
    return float(value.data.min(initial=0.0)) if _is_floats(value) else 0.0


def _highest(value: Value) -> float:
    return float(value.data.max(initial=-np.inf)) if _is_floats(value) else 0.0


def _is_floats(value: Value) -> TypeGuard[Constant]:
    return isinstance(value, Constant) and value.type.dtype == "float32"
