"""factor: sum over few rows of weights first, then over their multiples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import (
    Axis,
    AxisKind,
    Binary,
    Block,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    Load,
    PrimFunc,
    Stmt,
    Store,
)
from edgec.loop.primitives.layout import Array, Repack
from edgec.loop.primitives.lookup import fresh, with_changes
from edgec.loop.primitives.nests import own_nest
from edgec.loop.primitives.sum_term import SumTerm, declare_before, find_term
from edgec.loop.rewrite import subexpressions
from edgec.numerics.term import Var, as_term


def factor(
    func: PrimFunc, block: str, buffer: str, rows: Sequence[int], mix: Sequence[Sequence[int]]
) -> tuple[PrimFunc, tuple[str, str, Repack, str]]:
    """Make the sums of all channels of sums of some channels: weights = mix x weights[rows].

        block acc(p, c, k) {                  block acc_part(p, r, k) {
          init { acc[p, c] = bias[c] }          init { acc_part[p, r] = 0 }
          acc[p, c] = acc[p, c]                 acc_part[p, r] = acc_part[p, r] + x[p, k] * w[r, k]
            + x[p, k] * w[c, k]         ->    }
        }                                     block acc(p, c, r) {
                                                init { acc[p, c] = bias[c] }
                                                acc[p, c] = acc[p, c] + acc_part[p, r] * w_mix[c, r]
                                              }

    Requires: sums of int32 whose block starts them itself, of loops from 0 to constants. The caller
    checks that the factors are exact and that no sum leaves int32. Returns the names of the parts
    and of the weights, the function that keeps their `rows`, and the name of the factors.
    """
    term = find_term("factor", func, block, buffer)
    read = _weights(term)
    weights, channel = read.buffer, read.indices[0]
    store, init = term.block.body, term.block.init
    assert isinstance(store, Store)
    spatial = [a.var for a in term.block.axes if a.kind == "spatial"]
    channels = [var for var in spatial if as_term(var) == channel]
    if len(channels) != 1 or init is None or np.shape(mix) != (weights.shape[0], len(rows)):
        raise ScheduleError(f"factor: {weights.name} has no rows of {block}'s channels to mix")
    short = replace(weights, shape=(len(rows), *weights.shape[1:]))
    factors = Buffer(fresh(func, f"{weights.name}_mix"), np.shape(mix), "int8", "constant")
    row = Var("r", 0, len(rows))
    kept = [row if var == channels[0] else var for var in spatial]
    part = Buffer(fresh(func, f"{block}_part"), tuple(v.stop for v in kept), "int32", "scratch")
    here = tuple(as_term(var) for var in kept)
    product = Binary("mul", _first(store), _as_sum(Load(short, (as_term(row), *read.indices[1:]))))
    steps = [a.var for a in term.block.axes if a.kind == "reduce"]
    sums = _nest(term, part.name, kept, steps, Store(part, here, Const(0, "int32")),
                 Store(part, here, Binary("add", Load(part, here), product)))  # fmt: skip
    mixed = Binary("mul", Load(part, here), _as_sum(Load(factors, (channel, as_term(row)))))
    assert isinstance(store.value, Binary)
    whole = _nest(term, block, spatial, [row], init,
                  replace(store, value=Binary("add", store.value.left, mixed)))  # fmt: skip
    root = own_nest(func, block).root
    func = with_changes(func, [(root, whole)])
    params = tuple(short if p == weights else p for p in func.params)
    func = replace(func, params=(*params, factors))
    func = declare_before(func, part, store.buffer, sums, (whole,))
    return func, (part.name, weights.name, lambda array: _kept(array, rows), factors.name)


def _kept(array: Array, rows: Sequence[int]) -> Array:
    return np.ascontiguousarray(array[list(rows)])


def _weights(term: SumTerm) -> Load:
    """The load of the weights, the second factor."""
    loads = [p for p in subexpressions(term.weight) if isinstance(p, Load)]
    if len(loads) != 1 or loads[0].buffer.scope != "constant" or loads[0].dtype != "int8":
        raise ScheduleError(f"factor: {term.block.name} multiplies by no constant of int8")
    store = term.block.body
    if not isinstance(store, Store) or store.buffer.dtype != "int32":
        raise ScheduleError(f"factor: {term.block.name} does not sum int32")
    return loads[0]


def _first(store: Store) -> Expr:
    """The first factor of the added product."""
    assert isinstance(store.value, Binary) and isinstance(store.value.right, Binary)
    return store.value.right.left


def _as_sum(load: Load) -> Expr:
    return Cast("int32", load)


def _nest(
    term: SumTerm, name: str, spatial: Sequence[Var], steps: Sequence[Var], init: Stmt, body: Stmt
) -> Stmt:
    """The loops of a block, one for each axis."""
    kinds: dict[Var, AxisKind] = {var: "spatial" for var in spatial}
    kinds |= {var: "reduce" for var in steps}
    axes = kinds.items()
    loops = [replace(var, name=f"{name}_{var.name}") for var, _ in axes]
    bound = (Axis(var, kind, as_term(loop)) for (var, kind), loop in zip(axes, loops, strict=True))
    nest: Stmt = Block(name, tuple(bound), init, body)
    for loop in reversed(loops):
        nest = For(loop, as_term(0), as_term(loop.stop), "serial", nest)
    return nest
