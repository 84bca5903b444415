"""The term that a sum of products adds in each step: acc + (x + offset) * w."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgec.errors import ScheduleError
from edgec.loop.access import reads, writes
from edgec.loop.dtype import integer_range, is_integer
from edgec.loop.ir import (
    Axis,
    Binary,
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
from edgec.loop.primitives.lookup import Path, find_block, find_buffer, with_changes
from edgec.loop.rewrite import sequence, subexpressions
from edgec.numerics.term import Var, as_term


@dataclass(frozen=True)
class SumTerm:
    """acc = acc + (cast(read) + offset) * weight, in a block.

    read: the element of the buffer `source`, cast unless its dtype is the sum's. offset: 0 for
    none.
    """

    primitive: str
    block: Block
    above: Path
    source: Buffer
    read: Expr
    offset: int
    weight: Expr

    @property
    def loops(self) -> tuple[For, ...]:
        """The loops around the block, outermost first."""
        return tuple(s for s in self.above if isinstance(s, For))

    def with_read(self, read: Expr, offset: int) -> Block:
        """The block with another first factor."""
        store = self.block.body
        assert isinstance(store, Store) and isinstance(store.value, Binary)
        dtype = store.buffer.dtype
        wide: Expr = read if read.dtype == dtype else Cast(dtype, read)
        if offset:
            wide = Binary("add", wide, Const(offset, store.buffer.dtype))
        value = Binary("add", store.value.left, Binary("mul", wide, self.weight))
        return replace(self.block, body=replace(store, value=value))

    def extent(self, var: Var) -> int:
        """Steps of the loop that an axis of the block is; ScheduleError where they vary."""
        axis = next(axis for axis in self.block.axes if axis.var == var)
        for loop in self.loops:
            is_axis = axis.binding == as_term(loop.var)
            if is_axis and loop.start.constant == 0 and loop.stop.constant is not None:
                return loop.stop.constant
        raise ScheduleError(f"{self.primitive}: {var} is not a loop from 0 to a constant")


def find_term(primitive: str, func: PrimFunc, block: str, buffer: str) -> SumTerm:
    """The products that a block adds of a buffer's elements; ScheduleError for other blocks."""
    found, above = find_block(func, block)
    source = find_buffer(func, buffer)
    store = found.body
    product = _added(store) if isinstance(store, Store) else None
    if not isinstance(product, Binary) or product.op != "mul":
        raise ScheduleError(f"{primitive}: {block} is not a sum of products")
    wide: Expr = product.left
    offset = 0
    if isinstance(wide, Binary) and wide.op == "add" and isinstance(wide.right, Const):
        offset = int(wide.right.value)
        wide = wide.left
    reads = [p for p in subexpressions(wide) if isinstance(p, Load) and p.buffer == source]
    read = wide.value if isinstance(wide, Cast) else wide
    if read.dtype != source.dtype or len(reads) != 1:
        raise ScheduleError(f"{primitive}: the first factor of {block} is not read of {buffer}")
    return SumTerm(primitive, found, above, source, read, offset, product.right)


def _added(store: Store) -> Expr | None:
    value = store.value
    if not isinstance(value, Binary) or value.op != "add" or not isinstance(value.left, Load):
        return None
    return value.right if value.left.buffer == store.buffer else None


def stored_as(primitive: str, value: Expr, dtype: str) -> Expr:
    """A value in a dtype of integers that holds all of its own."""
    if dtype == value.dtype:
        return value
    integers = [each for each in (dtype, value.dtype) if is_integer(each)]
    (low, high), *own = [integer_range(each) for each in integers] or [(0, 0)]
    if not own or low > own[0][0] or high < own[0][1]:
        raise ScheduleError(f"{primitive}: {dtype} does not hold all of {value.dtype}")
    return Cast(dtype, value)


def nest_of_copy(copy: Buffer, axes: Sequence[Var], value: Expr, name: str = "") -> Stmt:
    """The nest that fills a temporary, with a loop for each of its dimensions.

    name: the block's, if not the temporary's.
    """
    name = name or copy.name
    loops = [replace(var, name=f"{name}_{var.name}") for var in axes]
    bound = (Axis(v, "spatial", as_term(s)) for v, s in zip(axes, loops, strict=True))
    store = Store(copy, tuple(as_term(var) for var in axes), value)
    nest: Stmt = Block(name, tuple(bound), None, store)
    for loop in reversed(loops):
        nest = For(loop, as_term(loop.start), as_term(loop.stop), "serial", nest)
    return nest


def declare_before(
    func: PrimFunc, buffer: Buffer, block: Buffer, nest: Stmt, above: Path
) -> PrimFunc:
    """The function with one more temporary, declared before a block's, and the nest that computes
    it.

    The nest runs before the outermost statement of `above` that does not write the nest's inputs:
    inside the loop of a recurrence.
    """
    stmts = (stmt for stmt in above if not isinstance(stmt, Seq))
    top = next(stmt for stmt in stmts if not writes(stmt) & reads(nest))
    position = func.params.index(block) if block in func.params else len(func.params)
    params = (*func.params[:position], buffer, *func.params[position:])
    return replace(with_changes(func, [(top, sequence(nest, top))]), params=params)
