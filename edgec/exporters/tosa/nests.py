"""The stages of a definition as operations of TOSA: any operator that TOSA has no word for.

An operator's `lower` computes over indices; here the indices are grids. A reduction computes the
operands of all steps, then reduces them. Floats that become integers in an operator keep their
bits: they are added in order, and an int8 function of one float is a table of the floats at which
it changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from edgec.exporters.tosa.elements import MOST_INDICES, Either, Elements, Leaf, on_grids, walk
from edgec.exporters.tosa.steps import find_steps, level_of
from edgec.exporters.tosa.text import CannotSay, Tensor, TosaText
from edgec.exporters.tosa.values import (
    binary,
    broadcast,
    cast,
    full,
    gathered,
    reshaped,
    sliced,
    tabulated,
)
from edgec.graph.types import Array
from edgec.loop.define import Definition, Stage
from edgec.loop.dtype import integer_range, is_float, is_integer
from edgec.loop.ir import Binary, Expr, IndexValue, Load
from edgec.loop.nest import bound_at
from edgec.loop.read_arrays import index_grids
from edgec.loop.values import ExprValue, as_expr
from edgec.numerics.term import Var, as_term

#: Most floats that are added one by one.
_MOST_IN_ORDER = 1 << 12
_INT8 = np.arange(-128, 128, dtype=np.int8)
#: The dtypes of functions computed through a table of all results.
_TABULATED = (["int8"], ["int8", "int8"], ["float32"])
#: Operations that round floats.
_ROUNDED = ("add", "mul")
#: By the operation of a chain: TOSA's reduction and the operation of two values.
_REDUCTIONS = {
    "add": ("reduce_sum", "add"), "min": ("reduce_min", "minimum"),
    "max": ("reduce_max", "maximum"), "and": ("reduce_all", "logical_and"),
    "or": ("reduce_any", "logical_or"), "mul": ("reduce_product", "mul"),
}  # fmt: skip


def write_nests(
    out: TosaText, definition: Definition, buffers: dict[str, Either], *, keeps_bits: bool
) -> None:
    """Write every stage; `buffers` gets each stage's result.

    keeps_bits: results are integers. Raises CannotSay.
    """
    near: set[str] = set()  # buffers of floats that may differ in their last bits
    for stage in definition.stages:
        if stage.steps is not None or stage.at is not None:
            raise CannotSay("steps that follow one another, or parts of a result")
        nest = _Nest(out, stage, buffers, near, keeps_bits)
        value = nest.reduction() if stage.update is not None else nest.value(stage.init)
        buffers[stage.target.name] = value


class _Nest:
    """One stage."""

    def __init__(
        self,
        out: TosaText,
        stage: Stage,
        buffers: Mapping[str, Either],
        near: set[str],
        keeps_bits: bool,
    ) -> None:
        self.out, self.stage, self.buffers, self.near = out, stage, buffers, near
        self.keeps_bits = keeps_bits
        self.axes = [Var(name, 0, e) for name, e in zip(stage.axes, stage.shape, strict=True)]

    def value(self, body: Callable[..., object]) -> Either:
        """The value of a body without reduction, in the stage's shape."""
        stage, rank = self.stage, len(self.axes)
        grids = dict(zip(self.axes, index_grids(stage.shape), strict=True))
        elements = Elements(self.out, self.buffers, grids, rank)
        expr = as_expr(body(*map(as_term, self.axes)), stage.target.dtype)  # type: ignore[arg-type]
        made: Either | None = self._by_table(expr, elements)
        if made is None:
            made = elements.of(expr)
            self._check(expr, elements)
        if isinstance(made, np.ndarray):
            return np.ascontiguousarray(np.broadcast_to(made, stage.shape))
        return broadcast(self.out, made, stage.shape)

    def _check(self, expr: Expr, elements: Elements) -> None:
        """Floats of unknown last bits stay floats. Raises CannotSay."""
        read = {each.buffer.name for each in walk(expr) if isinstance(each, Load)}
        if elements.is_exact and not read & self.near:
            return
        if self.keeps_bits and is_integer(self.stage.target.dtype):
            raise CannotSay("integers that depend on the last bit of a float")
        self.near.add(self.stage.target.name)

    def _by_table(self, expr: Expr, elements: Elements) -> Tensor | None:
        """An int8 function of one or two 8-bit values, or of one float, as a table of results."""
        has_floats = any(is_float(each.dtype) for each in walk(expr))
        if self.stage.target.dtype != "int8" or not has_floats:
            return None
        leaves = {each for each in walk(expr) if isinstance(each, (Load, IndexValue))}
        free = sorted((leaf for leaf in leaves if not self._is_known(leaf)), key=str)
        fixed = _numbers(leaves - set(free), elements)
        if fixed is None or [leaf.dtype for leaf in free] not in _TABULATED:
            return None

        def results(*values: Array) -> Array:
            assumed = {**fixed, **dict(zip(free, values, strict=True))}
            alone = Elements(TosaText(), self.buffers, {}, 1, assumed)
            shape = np.broadcast_shapes(*(value.shape for value in values))
            return np.broadcast_to(np.asarray(alone.of(expr)), shape)

        operands = [elements.tensor(elements.of(leaf)) for leaf in free]
        return self._looked_up(operands, results)

    def _looked_up(self, operands: Sequence[Tensor], results: Callable[..., Array]) -> Tensor:
        if len(operands) == 2:
            return self._of_pairs(operands, results)
        if operands[0].dtype == "float32":
            return level_of(self.out, operands[0], find_steps(results))
        return tabulated(self.out, operands[0], results(_INT8))

    def _is_known(self, leaf: Leaf) -> bool:
        if isinstance(leaf, IndexValue):
            return True
        return isinstance(self.buffers[leaf.buffer.name], np.ndarray)

    def _of_pairs(self, operands: Sequence[Tensor], results: Callable[..., Array]) -> Tensor:
        """A table of all 65,536 pairs of int8."""
        out, rank = self.out, len(self.axes)
        first, second = (
            binary(out, "add", cast(out, each, "int32"), full(out, 128, rank, "int32"))
            for each in operands
        )
        row = binary(out, "mul", first, full(out, 256, rank, "int32"))
        pairs = results(np.repeat(_INT8, 256), np.tile(_INT8, 256))
        table = out.constant(np.ascontiguousarray(pairs.astype(np.int32)))
        return cast(out, gathered(out, table, binary(out, "add", row, second)), "int8")

    def reduction(self) -> Either:
        """The result of all steps."""
        stage = self.stage
        assert stage.update is not None
        terms = list(map(as_term, self.axes))
        bounds = [(bound_at(a, terms), bound_at(b, terms)) for _, a, b in stage.reduce_axes]
        inner = [
            Var(name, start.bounds()[0], stop.bounds()[1])
            for (name, _, _), (start, stop) in zip(stage.reduce_axes, bounds, strict=True)
        ]
        extents = [max(axis.stop - axis.start, 0) for axis in inner]
        joint = (*stage.shape, *extents)
        if not prod(joint):
            return self.value(stage.init)
        if prod(joint) > 16 * MOST_INDICES:
            raise CannotSay(f"a reduction of {prod(joint)} steps")
        lows = [*(0 for _ in self.axes), *(axis.start for axis in inner)]
        grids = {
            axis: grid + low
            for axis, grid, low in zip([*self.axes, *inner], index_grids(joint), lows, strict=True)
        }
        elements = Elements(self.out, self.buffers, grids, len(joint))
        accumulator = Load(stage.target.buffer, tuple(terms))
        update = stage.update(ExprValue(accumulator), *terms, *map(as_term, inner))
        kind, parts = _chain(as_expr(update, stage.target.dtype), accumulator)
        mask = np.asarray(True)
        for axis, (start, stop) in zip(inner, bounds, strict=True):
            first, last = on_grids(start, grids), on_grids(stop, grids)
            mask = mask & (first <= grids[axis]) & (grids[axis] < last)
        total = self.written(self.value(stage.init))
        for part in parts:
            steps = self._masked(elements, part, mask, joint, kind)
            total = self._combined(kind, total, steps, len(self.axes))
            self._check(part, elements)
        return total

    def written(self, value: Either) -> Tensor:
        """A value of the text."""
        return value if isinstance(value, Tensor) else self.out.constant(value)

    def _masked(
        self, elements: Elements, part: Expr, mask: Array, joint: Sequence[int], kind: str
    ) -> Tensor:
        """The operand of each step; a neutral one in steps that an element does not have."""
        value = broadcast(self.out, elements.tensor(elements.of(part)), joint)
        if mask.all():
            return value
        neutral = full(self.out, _neutral(kind, value.dtype), len(joint), value.dtype)
        known = self.out.constant(mask.reshape((1,) * (len(joint) - mask.ndim) + mask.shape))
        return self.out.op("select", [known, value, neutral], joint, value.dtype)

    def _combined(self, kind: str, total: Tensor, steps: Tensor, rank: int) -> Tensor:
        out, shape = self.out, total.shape
        reduction, operation = _REDUCTIONS[kind]
        rounds = steps.dtype == "float32" and kind in _ROUNDED
        if kind == "mul" or (self.keeps_bits and rounds):
            return self._in_order(operation, total, steps)
        for axis in range(rank, len(steps.shape)):
            reduced = [1 if a == axis else e for a, e in enumerate(steps.shape)]
            steps = out.op(reduction, [steps], reduced, steps.dtype, axis=f"{axis} : i32")
        if rounds:
            self.near.add(self.stage.target.name)
        return binary(out, operation, total, reshaped(out, steps, shape))

    def _in_order(self, operation: str, total: Tensor, steps: Tensor) -> Tensor:
        out, shape = self.out, total.shape
        count = prod(steps.shape[len(shape) :])
        if count > _MOST_IN_ORDER:
            raise CannotSay(f"a sum of {count} floats in order")
        rows = reshaped(out, steps, (*shape, count))
        for step in range(count):
            one = sliced(out, rows, (*(0 for _ in shape), step), (*shape, 1))
            total = binary(out, operation, total, reshaped(out, one, shape))
        return total


def _numbers(leaves: set[Leaf], elements: Elements) -> dict[Leaf, Array] | None:
    """The known value of an expression, [1] each; None if one of them depends on the index."""
    found: dict[Leaf, Array] = {}
    for leaf in leaves:
        known = np.asarray(elements.of(leaf)).reshape(-1)
        if (known != known[0]).any():
            return None
        found[leaf] = known[:1]
    return found


def _neutral(kind: str, dtype: str) -> float:
    if kind in ("min", "max"):
        low, high = (-np.inf, np.inf) if is_float(dtype) else integer_range(dtype)
        return high if kind == "min" else low
    return 1 if kind in ("mul", "and") else 0


def _chain(update: Expr, accumulator: Load) -> tuple[str, list[Expr]]:
    """The operation that combines an accumulator with the operands of a step, and these in order.

    Raises CannotSay where a step does anything else with it.
    """
    kinds: list[str] = []
    parts: list[Expr] = []
    while isinstance(update, Binary):
        sides = {side: accumulator in walk(side) for side in (update.left, update.right)}
        if sorted(sides.values()) != [False, True]:
            break
        kinds.append(update.op)
        update, part = sorted(sides, key=lambda side: not sides[side])
        parts.append(part)
    if update != accumulator or len(set(kinds)) != 1 or kinds[0] not in _REDUCTIONS:
        raise CannotSay("steps that are not a sum, product, maximum or minimum")
    return kinds[0], parts[::-1]
