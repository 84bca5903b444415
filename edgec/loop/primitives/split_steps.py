"""pad_steps and split_steps: the steps of a sum of products as kernels take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.access import accesses
from edgec.loop.dtype import is_integer
from edgec.loop.ir import (
    Axis,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Seq,
    Stmt,
    Store,
)
from edgec.loop.primitives.layout import Repack
from edgec.loop.primitives.lookup import find_block, find_loop, fresh, require_unused, with_changes
from edgec.loop.primitives.sum_term import SumTerm, find_term, nest_of_copy
from edgec.loop.rewrite import ReplaceBuffer, Substitute, sequence
from edgec.loop.values import ExprValue, as_expr, index, select
from edgec.numerics.term import Var, as_term, minimum


def pad_steps(
    func: PrimFunc, block: str, buffer: str, axis: str, multiple: int
) -> tuple[PrimFunc, tuple[str, Repack]]:
    """Round the steps of a sum of products up to a multiple; the added steps add zeros.

        for acc_k in 0..6 {                          for acc_k in 0..8 {
          block acc(c, k) {                            block acc(c, k) {
            acc[c] = acc[c] + x[k] * w[c, k]    ->       acc[c] = acc[c]
        } }                                                + (k < 6 ? x[min(k, 5)] : 0) * w[c, k]
                                                     } }

    The weights are padded with zeros. A one-dimensional temporary indexed by the axis grows too,
    and is cleared before the loops around. Requires: integers, and constant weights that only this
    sum reads, with the axis as an index.
    """
    term = find_term("pad_steps", func, block, buffer)
    step = _axis(term, axis)
    extent, (weights, place) = term.extent(step.var), _weights(func, term, step)
    wide = -(-extent // multiple) * multiple
    if wide == extent or weights.shape[place] != extent or not is_integer(weights.dtype):
        raise ScheduleError(f"pad_steps: {extent} steps of {block} cannot be {wide}")
    loop, var = _loop_of(term, step), replace(step.var, stop=wide)
    outer = replace(loop.var, stop=wide)
    longer = {weights: replace(weights, shape=_with(weights.shape, place, wide))}
    if term.source.scope == "scratch" and term.read == Load(term.source, (as_term(step.var),)):
        longer[term.source] = replace(term.source, shape=(wide,))
        read: Expr = term.read
    else:
        bounded = Substitute({step.var: minimum(var, extent - 1)}).expr(term.read)
        read = as_expr(select(index(as_term(var)) < extent, ExprValue(bounded), 0), bounded.dtype)
    made = Substitute({step.var: as_term(var)}).stmt(term.with_read(read, term.offset))
    assert isinstance(made, Block)
    axes = tuple(Axis(var, a.kind, as_term(outer)) if a == step else a for a in term.block.axes)
    func = with_changes(func, [(term.block, replace(made, axes=axes))])
    found, _ = find_loop(func, loop.var.name)
    func = with_changes(func, [(found, replace(found, var=outer, stop=as_term(wide)))])
    more = _with([(0, 0)] * len(weights.shape), place, (0, wide - extent))
    func = _lengthened(func, longer, var, block)
    return func, (weights.name, lambda array: np.pad(array, more))


def _lengthened(func: PrimFunc, longer: Mapping[Buffer, Buffer], step: Var, block: str) -> PrimFunc:
    """The function with longer buffers; rows are cleared before all that is around the block."""
    params = tuple(longer.get(p, p) for p in func.params)
    func = replace(func, params=params, body=ReplaceBuffer(longer).stmt(func.body))
    top = next(stmt for stmt in find_block(func, block)[1] if not isinstance(stmt, Seq))
    for row in longer.values():
        if row.scope != "constant":
            name = fresh(func, f"{row.name}_clear")
            clear = nest_of_copy(row, [step], Const(0, row.dtype), name)
            func = with_changes(func, [(top, sequence(clear, top))])
    return func


def _with(items: Sequence[Any], place: int, item: Any) -> tuple[Any, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _weights(func: PrimFunc, term: SumTerm, step: Axis) -> tuple[Buffer, int]:
    """The constant that a sum multiplies by, and its dimension whose index the step is."""
    weight = term.weight
    while isinstance(weight, Cast):
        weight = weight.value
    if not isinstance(weight, Load) or weight.buffer.scope != "constant":
        raise ScheduleError(f"pad_steps: the products of {term.block.name} are not by constants")
    places = [d for d, at in enumerate(weight.indices) if step.var in at.variables()]
    is_index = [weight.indices[place] for place in places] == [as_term(step.var)]
    if not is_index or sum(a.buffer == weight.buffer for a in accesses(func.body)) > 1:
        raise ScheduleError(
            f"pad_steps: {step.var} is not an index of {weight.buffer.name}, or has other readers"
        )
    return weight.buffer, places[0]


def split_steps(
    func: PrimFunc, block: str, buffer: str, axis: str, parts: dict[str, int]
) -> tuple[PrimFunc, None]:
    """Split a sum of products' axis into several, in another order: here {"q": 4, "s": 1, "r": 2}.

        for acc_k in 0..16 {                      for acc_q in 0..4 {
          block acc(c, k) {                         for acc_s in 0..2 {
            acc[c] = acc[c] + x[k] * w[c, k]          for acc_r in 0..2 {
        } }                                    ->       block acc(c, q, s, r) {
                                                          acc[c] = acc[c] + x[q*4 + r*2 + s]
                                                            * w[c, q*4 + r*2 + s]
                                                  } } } }

    `parts` has the stride of each new axis, outermost first: one of them is 1, and each divides the
    next larger one. Requires: integers, whose sums have no order; and the axis is a loop from 0 to
    a multiple of the largest part.
    """
    term = find_term("split_steps", func, block, buffer)
    step = _axis(term, axis)
    require_unused(func, *(f"{block}_{name}" for name in parts))
    extents = _extents(term, term.extent(step.var), [*parts.values()])
    inner = [Var(name, 0, extent) for name, extent in zip(parts, extents, strict=True)]
    outer = [replace(var, name=f"{block}_{var.name}") for var in inner]
    total = as_term(0)
    for var in inner:
        total += as_term(var) * parts[var.name]
    changed = Substitute({step.var: total}).stmt(term.block)
    assert isinstance(changed, Block)
    made = [Axis(v, step.kind, as_term(o)) for v, o in zip(inner, outer, strict=True)]
    axes = [new for a in changed.axes for new in (made if a == step else [a])]
    loop = _loop_of(term, step)
    func = with_changes(func, [(term.block, replace(changed, axes=tuple(axes)))])
    found, _ = find_loop(func, loop.var.name)
    nest: Stmt = found.body
    for var in reversed(outer):
        nest = For(var, as_term(0), as_term(var.stop), "serial", nest)
    return with_changes(func, [(found, nest)]), None


def _extents(term: SumTerm, steps: int, parts: list[int]) -> list[int]:
    counts = [*sorted(parts), steps]
    are_parts = all(a < b and b % a == 0 for a, b in pairwise(counts[:-1])) and counts[0] == 1
    if not are_parts or steps % counts[-2] or not is_integer(term.source.dtype):
        raise ScheduleError(
            f"split_steps: {steps} steps of {term.block.name} have no parts {counts[:-1]}"
        )
    return [counts[counts.index(part) + 1] // part for part in parts]


def _axis(term: SumTerm, name: str) -> Axis:
    axis = next((a for a in term.block.axes if a.var.name == name and a.kind == "reduce"), None)
    if axis is None or not isinstance(term.block.body, Store):
        raise ScheduleError(f"{term.primitive}: {term.block.name} does not sum over {name}")
    return axis


def _loop_of(term: SumTerm, axis: Axis) -> For:
    """The loop that an axis is, one of a single step by its name."""
    name = f"{term.block.name}_{axis.var.name}"
    found = (s for s in term.loops if as_term(s.var) == axis.binding and s.var.name == name)
    loop = next(found, None)
    if loop is None:
        raise ScheduleError(f"{term.primitive}: {term.block.name} has no loop {name}")
    return loop
