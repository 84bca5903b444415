"""Masks before a softmax: the integers for minus infinity.

1. A sum with a constant, or a constant choice, that only a softmax reads becomes a sum with zeros
   and -MASKED: in float32, too, e**-MASKED vanishes beside any score within MASKED of the largest.
2. A choice whose constant condition is uniform becomes the chosen operand.
3. A computed mask (a choice, or a number times integers) also becomes -MASKED if only softmaxes
   read the sum.

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
from edgec.ops.cast import Cast
from edgec.passes.rewriter import Rewriter

#: The magnitude of a mask, and how far below 0 a number counts as a mask.
MASKED, LEAST_MASK = 128.0, 1e3


def with_masks(function: Function) -> Function:
    """The same function with masks of finite numbers."""
    masks = frozenset(_computed_masks(function, LEAST_MASK))
    return Rewriter(function).run(_Masks(_Readers(function), masks))


def masked_sums(function: Function) -> tuple[Value, ...]:
    """The sums with such masks."""
    readers, masks = _Readers(function), _computed_masks(function, MASKED)
    return tuple(
        node.output
        for node in function.nodes
        if node.op.computes is Arithmetic.SUM
        and any(_lowest(value) == -MASKED or value in masks for value in node.inputs)
        and readers.are_softmax(node.output)
    )


def _computed_masks(function: Function, least: float) -> set[Value]:
    """The values that are -`least` or lower where they are not 0, and only added to scores."""
    readers, whole = _Readers(function), _whole_values(function)
    found: set[Value] = set()
    for node in function.nodes:
        is_same = node.op.rearranges and found.issuperset(node.inputs)
        if is_same or (_makes_mask(node, least, whole) and readers.are_added(node.output)):
            found.update(node.outputs)
    return found


def _makes_mask(node: Node, least: float, whole: set[Value]) -> bool:
    """Whether a node chooses one such number, or multiplies whole numbers by it."""
    lows = [each for each in node.inputs if _highest(each) <= -least]
    if len(lows) != 1:
        return False
    others = {*node.inputs}.difference(lows)
    is_product = node.op.computes is Arithmetic.PRODUCT and whole.issuperset(others)
    return is_product or (_is_choice(node) and not isinstance(node.inputs[0], Constant))


def _whole_values(function: Function) -> set[Value]:
    """The values that nodes make, of whole numbers whatever their dtype is."""
    found: set[Value] = set()
    for node in function.nodes:
        if _keeps_whole(node) and all(_is_whole(v) or v in found for v in node.inputs):
            found.update(node.outputs)
    return found


def _is_whole(value: Value) -> bool:
    """Whether a value is of whole numbers by its dtype, or a constant of such."""
    if isinstance(value, Constant) and value.type.is_float:
        return bool(np.all(value.data == np.rint(value.data)))
    return not value.type.is_float


def _keeps_whole(node: Node) -> bool:
    """Whether whole numbers stay whole."""
    sums = (Arithmetic.SUM, Arithmetic.DIFFERENCE, Arithmetic.PRODUCT)
    return node.op.computes in sums or node.op.rearranges or isinstance(node.op, Cast)


class _Readers:
    def __init__(self, function: Function) -> None:
        self.consumers = function.consumers()
        self.results = frozenset(function.results)
        self.added: dict[Value, bool] = {}

    def are_softmax(self, value: Value) -> bool:
        """Whether only softmaxes read a value."""
        readers = self.consumers.get(value, ())
        is_own = value not in self.results and bool(readers)
        return is_own and all(node.op.normalizes for node in readers)

    def are_added(self, value: Value) -> bool:
        """Whether a value, or others with its elements, is only added to inputs of softmaxes."""
        if value not in self.added:
            readers = self.consumers.get(value, ())
            is_own = value not in self.results and bool(readers)
            self.added[value] = is_own and all(map(self._adds, readers))
        return self.added[value]

    def _adds(self, node: Node) -> bool:
        if node.op.computes is Arithmetic.SUM:
            return self.are_softmax(node.output)
        return node.op.rearranges and len(node.inputs) == 1 and self.are_added(node.output)


@dataclass(frozen=True)
class _Masks:
    readers: _Readers
    computed: frozenset[Value]

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if not self.computed.isdisjoint(node.outputs):
            return rewriter.remake(node, [self._finite(rewriter, node, each) for each in inputs])
        if _is_choice(node):
            chosen = _only_choice(node, inputs)
            if chosen is not None:
                return (chosen,)
        found = _constant_mask(node, inputs)
        if found is None or not self.readers.are_softmax(node.output):
            return None
        x, mask = found
        known = (v.origin for v in inputs if isinstance(v, Constant) and v.type.shape == mask.shape)
        constant = rewriter.builder.constant(
            f"{node.name}.mask", mask.astype(np.float32), origin=next(known, None)
        )
        return rewriter.remake(node, [x, constant], AddAttrs(), op=Add)

    def _finite(self, rewriter: Rewriter, node: Node, value: Value) -> Value:
        if _highest(value) > -LEAST_MASK or not isinstance(value, Constant):
            return value
        data = np.full_like(value.data, -MASKED)
        return rewriter.builder.constant(f"{node.name}.mask", data, origin=value.origin)


def _is_choice(node: Node) -> bool:
    """Whether a condition chooses each element of one of two operands."""
    return node.op.is_elementwise and node.op.reads_alike and node.op.steering == (0,)


def _only_choice(node: Node, inputs: Sequence[Value]) -> Value | None:
    condition = inputs[0]
    if not isinstance(condition, Constant) or condition.data.any() != condition.data.all():
        return None
    chosen = inputs[1 if condition.data.all() else 2]
    return chosen if chosen.type == node.output.type else None


def _constant_mask(node: Node, inputs: Sequence[Value]) -> tuple[Value, Array] | None:
    """The mask of finite numbers that replaces a node's constant mask."""
    if _is_choice(node):
        return _masked_choice(node, inputs)
    return _masked_sum(inputs) if node.op.computes is Arithmetic.SUM else None


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
    """Return the lowest of a constant and 0; 0 for another value."""
    return float(value.data.min(initial=0.0)) if _is_floats(value) else 0.0


def _highest(value: Value) -> float:
    return float(value.data.max(initial=-np.inf)) if _is_floats(value) else 0.0


def _is_floats(value: Value) -> TypeGuard[Constant]:
    return isinstance(value, Constant) and value.type.dtype == "float32"
