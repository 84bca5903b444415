"""cut: run the last steps of a loop in a nest of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.access import writes
from edgec.loop.ir import (
    Binary,
    Block,
    Buffer,
    Const,
    Expr,
    For,
    IndexValue,
    PrimFunc,
    Select,
    Seq,
    Stmt,
)  # fmt: skip
from edgec.loop.primitives.compute_at import require_temporary
from edgec.loop.primitives.lookup import find_block, find_loop, fresh, reduce_vars, with_changes
from edgec.loop.primitives.nests import written_buffer
from edgec.loop.rewrite import (
    ReplaceBuffer,
    Rewriter,
    Substitute,
    blocks_of,
    loops_of,
    sequence,
    statements,
)  # fmt: skip
from edgec.numerics.term import Term, TermLike, Var, as_term


def cut(
    func: PrimFunc, loop: str, at: int, blocks: Sequence[str], suffix: str
) -> tuple[PrimFunc, str]:
    """Run the steps of `loop` from `at` on in a copy of its nest, with copies of some temporaries.

        for i in 0..8 {                     for i in 0..8 { t[i] = f(x[i]) }
          t[i] = f(x[i])             ->     for i_end in 0..8 { t_end[i_end] = f(x[i_end]) }
        }
        for j in 0..8 {                     for j in 0..6 { u[j] = g(t[j]) }
          u[j] = g(t[j])                    for j_end in 6..8 { u[j_end] = g(t_end[j_end]) }
        }

    `blocks` name those that write the temporaries; all names in copies end in `suffix`. Each part
    can then be scheduled separately: `compute_at` shrinks the copies to the needed elements.

    Requires: the loop and the blocks' nests stand on their own, one after the other, in this order
    (without blocks, the loop may stand inside others); it steps from 0 to a number and carries no
    reduction.
    Conditions on indices that are constant within a part are removed. Returns the new loop's name.
    """
    target, path = find_loop(func, loop)
    stop = target.extent
    if target.start.constant != 0 or stop is None or not 0 < at < stop:
        raise ScheduleError(f"cut: {at} is not inside of loop {loop}")
    tops = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
    if blocks and not all(isinstance(s, Seq) for s in path):
        raise ScheduleError(f"cut: loop {loop} stands inside another statement")
    for stmt in statements(target):
        if isinstance(stmt, Block) and target.var in reduce_vars(stmt):
            raise ScheduleError(f"cut: block {stmt.name} reduces over loop {loop}")
    buffers: dict[Buffer, Buffer] = {}
    for name in blocks:
        block, _ = find_block(func, name)
        buffer = written_buffer(block)
        require_temporary("cut", name, buffer)
        buffers[buffer] = replace(buffer, name=f"{buffer.name}{suffix}")
    nests = [s for s in tops if s is not target and writes(s) & buffers.keys()]
    for nest in nests:
        if writes(nest) - buffers.keys() or tops.index(nest) > tops.index(target):
            raise ScheduleError(
                f"cut: loop {loop} does not follow the results of {', '.join(blocks)} make"
            )
    if writes(target) & buffers.keys():
        raise ScheduleError(f"cut: loop {loop} is one of {', '.join(blocks)}")
    copies = [_copied(nest, buffers, suffix) for nest in (*nests, target)]
    for copy in copies:
        for name in (*loops_of(copy), *blocks_of(copy)):
            if fresh(func, name) != name:
                raise ScheduleError(f"cut: {func.name} already has {name!r}")
    last = copies.pop()
    assert isinstance(last, For)
    begin, end = _part(target, 0, at), _part(last, at, stop)
    func = with_changes(func, [(target, sequence(*copies, begin, end))])
    params = (*func.params, *(new for old, new in buffers.items() if old in func.params))
    allocs = (*func.allocs, *(new for old, new in buffers.items() if old in func.allocs))
    return replace(func, params=params, allocs=allocs), end.var.name


def _part(loop: For, start: int, stop: int) -> For:
    var = replace(loop.var, start=start, stop=stop)
    body = _Decided().stmt(Substitute({loop.var: as_term(var)}).stmt(loop.body))
    return replace(loop, var=var, start=as_term(start), stop=as_term(stop), body=body)


def _copied(stmt: Stmt, buffers: Mapping[Buffer, Buffer], suffix: str) -> Stmt:
    values: dict[Var, TermLike] = {}
    for name, loop in loops_of(stmt).items():
        values[loop.var] = as_term(replace(loop.var, name=f"{name}{suffix}"))
    renamed = _Rename(values, suffix).stmt(stmt)
    return ReplaceBuffer(buffers).stmt(renamed)


class _Rename(Substitute):
    def __init__(self, values: Mapping[Var, TermLike], suffix: str) -> None:
        super().__init__(values)
        self.suffix = suffix

    def loop(self, loop: For) -> Stmt:
        new = super().loop(loop)
        assert isinstance(new, For)
        return replace(new, var=replace(loop.var, name=f"{loop.var.name}{self.suffix}"))

    def block(self, block: Block) -> Stmt:
        new = super().block(block)
        assert isinstance(new, Block)
        return replace(new, name=f"{block.name}{self.suffix}")


class _Decided(Rewriter):
    """Leave out choices between values by where an element lies, where loops leave only one."""

    def block(self, block: Block) -> Stmt:
        narrow: dict[Var, Var] = {}
        for axis in block.axes:
            low, high = axis.binding.bounds()
            narrow[axis.var] = replace(axis.var, start=low, stop=high + 1)
        new = Substitute({old: as_term(var) for old, var in narrow.items()}).block(block)
        assert isinstance(new, Block)
        axes = tuple(replace(axis, var=narrow[axis.var]) for axis in new.axes)
        return super().block(replace(new, axes=axes))

    def expr(self, expr: Expr) -> Expr:
        if isinstance(expr, Select):
            outcome = _outcome(expr.condition)
            if outcome is not None:
                return self.expr(expr.yes if outcome else expr.no)
        return super().expr(expr)


def _outcome(condition: Expr) -> bool | None:
    """The value of a condition on indices if it is the same at all of them; else None."""
    if not isinstance(condition, Binary):
        return None
    if condition.op == "and":
        return _of_both({_outcome(condition.left), _outcome(condition.right)})
    left, right = _place(condition.left), _place(condition.right)
    if condition.op not in ("le", "lt") or left is None or right is None:
        return None
    low, high = (right - left).bounds()
    least = int(condition.op == "lt")
    return True if low >= least else False if high < least else None


def _of_both(outcomes: set[bool | None]) -> bool | None:
    return False if False in outcomes else True if outcomes == {True} else None


def turning_points(condition: Expr) -> Iterator[tuple[Var, int]]:
    """Loops' variables and the step of each from which on a part of a condition on places differs.

    Of parts that compare one place that moves by one with the loop.
    """
    if isinstance(condition, Binary) and condition.op == "and":
        yield from turning_points(condition.left)
        yield from turning_points(condition.right)
    yield from _turning_point(_room(condition))


def _turning_point(room: Term | None) -> Iterator[tuple[Var, int]]:
    if room is None or len(room.parts) != 1:
        return
    ((atom, factor),) = room.parts
    if isinstance(atom, Var) and abs(factor) == 1:
        yield atom, -room.offset if factor == 1 else room.offset + 1


def _room(condition: Expr) -> Term | None:
    """A term that is >= 0 exactly where a comparison of indices is true."""
    if not isinstance(condition, Binary) or condition.op not in ("le", "lt"):
        return None
    left, right = _place(condition.left), _place(condition.right)
    return None if left is None or right is None else right - left - (condition.op == "lt")


def _place(expr: Expr) -> Term | None:
    if isinstance(expr, Const) and isinstance(expr.value, int):
        return as_term(expr.value)
    return expr.term if isinstance(expr, IndexValue) else None
