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

        block acc(p, c, k) {                   block acc_part(p, r, k) {
          init { acc[p, c] = bias[c] }           init { acc_part[p, r] = 0 }
          acc[p, c] = acc[p, c]                  acc_part[p, r] = acc_part[p, r]
            + x[p, k] * w[c, k]          ->        + x[p, k] * w[r, k]
        }                                      }
                                               block acc(p, c, r) {
                                                 init { acc[p, c] = bias[c] }
                                                 acc[p, c] = acc[p, c]
                                                   + acc_part[p, r] * w_mix[c, r]
                                               }

    Requires: sums of int32 whose block starts them itself, of loops from 0 to constants. The caller
    checks that the factors are exact and that no sum leaves int32. Returns the names of the parts
    and of the weights, the function that keeps their `rows`, and the name of the factors.
    """
    made = _Factored(func, find_term("factor", func, block, buffer), rows, np.shape(mix))
    root = own_nest(func, block).root
    whole = made.sums()
    func = with_changes(func, [(root, whole)])
    params = tuple(made.few if p == made.weights.buffer else p for p in func.params)
    func = replace(func, params=(*params, made.mix))
    func = declare_before(func, made.part, made.store.buffer, made.parts(), (whole,))
    few = made.few.name
    return func, (made.part.name, few, lambda array: _kept(array, rows), made.mix.name)


class _Factored:
    """The two sums, and their buffers."""

    def __init__(
        self, func: PrimFunc, term: SumTerm, rows: Sequence[int], mixed: tuple[int, ...]
    ) -> None:
        store = term.block.body
        assert isinstance(store, Store) and isinstance(store.value, Binary)
        self.term, self.store, self.weights = term, store, _weights(term)
        buffer, self.channel = self.weights.buffer, self.weights.indices[0]
        self.spatial, self.steps = _axes(term, "spatial"), _axes(term, "reduce")
        channels = [var for var in self.spatial if as_term(var) == self.channel]
        if len(channels) != 1 or term.block.init is None or mixed != (buffer.shape[0], len(rows)):
            raise ScheduleError(
                f"factor: {buffer.name} has no rows of {term.block.name}'s channels"
            )
        self.row = Var("r", 0, len(rows))
        self.few = replace(buffer, shape=(len(rows), *buffer.shape[1:]))
        self.mix = Buffer(fresh(func, f"{buffer.name}_mix"), mixed, "int8", "constant")
        self.kept = [self.row if var == channels[0] else var for var in self.spatial]
        shape = tuple(var.stop for var in self.kept)
        self.part = Buffer(fresh(func, f"{term.block.name}_part"), shape, "int32", "scratch")

    @property
    def _here(self) -> Load:
        return Load(self.part, tuple(as_term(var) for var in self.kept))

    def parts(self) -> Stmt:
        """The loops that sum over few rows."""
        here, places = self._here, (as_term(self.row), *self.weights.indices[1:])
        product = Binary("mul", _first(self.store), Cast("int32", Load(self.few, places)))
        init = Store(self.part, here.indices, Const(0, "int32"))
        body = Store(self.part, here.indices, Binary("add", here, product))
        return _nest(self.part.name, self.kept, self.steps, init, body)

    def sums(self) -> Stmt:
        """The loops that add the parts' multiples."""
        weight = Cast("int32", Load(self.mix, (self.channel, as_term(self.row))))
        before, init = self.store.value, self.term.block.init
        assert isinstance(before, Binary) and init is not None
        value = Binary("add", before.left, Binary("mul", self._here, weight))
        body = replace(self.store, value=value)
        return _nest(self.term.block.name, self.spatial, [self.row], init, body)


def _axes(term: SumTerm, kind: AxisKind) -> list[Var]:
    return [axis.var for axis in term.block.axes if axis.kind == kind]


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


def _nest(name: str, spatial: Sequence[Var], steps: Sequence[Var], init: Stmt, body: Stmt) -> Stmt:
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
