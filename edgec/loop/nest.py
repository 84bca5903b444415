"""Turn a stage of a definition into its loop nest: one For per axis around one block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from edgec.errors import ContractError
from edgec.loop.ir import Axis, Block, Expr, For, Load, Seq, Stmt, Store
from edgec.loop.rewrite import Substitute
from edgec.loop.values import ExprValue, Operand, as_expr
from edgec.numerics.term import Term, Var, as_term

if TYPE_CHECKING:
    from edgec.loop.define import Stage, Steps


def nest_of_stage(stage: Stage, *, needs_own_init: bool) -> list[Stmt]:
    """The nests of a stage.

    `for acc_n in ..: for acc_k in ..: block acc(n: spatial = acc_n, k: reduce = acc_k) {...}`.
    With `needs_own_init` (some element may have no reduce step) the initial value is stored by a
    nest of its own, before, whose block is `<stage>_init`. Without any reduce step it is all.
    """
    if stage.update is None or _never_steps(stage):
        return [_plain(stage, stage.name)]
    if needs_own_init:
        return [_plain(stage, f"{stage.name}_init"), _reduction(stage, with_init=False)]
    return [_reduction(stage, with_init=True)]


def _never_steps(stage: Stage) -> bool:
    """Whether a reduce axis has no step for any element."""
    outer = _terms([*_outer(stage), *(loop.var for loop in _spatial_loops(stage, stage.name))])
    return any(
        bound_at(stop, outer).bounds()[1] <= bound_at(start, outer).bounds()[0]
        for _, start, stop in stage.reduce_axes
    )


def loop_of_steps(steps: Steps, nests: list[Stmt]) -> Stmt:
    """The loop around the nests of its stages."""
    var = _step_of(steps)
    return For(var, as_term(0), as_term(steps.count), "serial", Seq(tuple(nests)))


def _step_of(steps: Steps) -> Var:
    return Var(steps.name, 0, steps.count)


def _plain(stage: Stage, block: str) -> Stmt:
    axes = _spatial(stage, block)
    inner = [a.var for a in axes]
    body = _store(stage, inner, stage.init(*_terms(inner)))
    return _wrap(Block(block, _used(stage, axes, body), None, body), _spatial_loops(stage, block))


def _reduction(stage: Stage, *, with_init: bool) -> Stmt:
    assert stage.update is not None
    loops = _spatial_loops(stage, stage.name)
    outer = _terms([*_outer(stage), *(loop.var for loop in loops)])
    axes = list(_spatial(stage, stage.name))
    inner = [a.var for a in axes]
    for name, start, stop in stage.reduce_axes:
        first, last = bound_at(start, outer), bound_at(stop, outer)
        low, high = first.bounds()[0], last.bounds()[1]
        loop = Var(f"{stage.name}_{name}", low, high)
        loops.append(For(loop, first, last, "serial", _NOTHING))
        axes.append(Axis(Var(name, low, high), "reduce", as_term(loop)))
    steps = [a.var for a in axes[len(inner) :]]
    spatial = _terms(inner)
    own = spatial[len(_outer(stage)) :]
    accumulator = ExprValue(Load(stage.target.buffer, tuple(own)))
    body = _store(stage, inner, stage.update(accumulator, *spatial, *_terms(steps)))
    init = _store(stage, inner, stage.init(*spatial)) if with_init else None
    kept = _used(stage, tuple(axes), body, *([init] if init is not None else []))
    return _wrap(Block(stage.name, kept, init, body), loops)


def _used(stage: Stage, axes: tuple[Axis, ...], *stmts: Stmt) -> tuple[Axis, ...]:
    """The axes without the step's, where all steps compute the same."""
    if stage.steps is None:
        return axes
    first = Substitute({axes[0].var: as_term(0)})
    return axes if any(first.stmt(stmt) != stmt for stmt in stmts) else axes[1:]


_NOTHING: Stmt = Seq(())  # stands in for a body that `_wrap` fills


def _outer(stage: Stage) -> list[Var]:
    """The loop of steps around a stage, if it is in one."""
    return [] if stage.steps is None else [_step_of(stage.steps)]


def _spatial_loops(stage: Stage, block: str) -> list[For]:
    return [
        For(Var(f"{block}_{a}", 0, e), as_term(0), as_term(e), "serial", _NOTHING)
        for a, e in zip(stage.axes[len(_outer(stage)) :], stage.shape, strict=True)
    ]


def _spatial(stage: Stage, block: str) -> tuple[Axis, ...]:
    loops = [*_outer(stage), *(loop.var for loop in _spatial_loops(stage, block))]
    return tuple(
        Axis(Var(name, loop.start, loop.stop), "spatial", as_term(loop))
        for name, loop in zip(stage.axes, loops, strict=True)
    )


def _wrap(block: Block, loops: list[For]) -> Stmt:
    stmt: Stmt = block
    for loop in reversed(loops):
        stmt = For(loop.var, loop.start, loop.stop, loop.kind, stmt)
    return stmt


def _terms(variables: list[Var]) -> list[Term]:
    return [as_term(v) for v in variables]


def bound_at(bound: int | Term | Callable[..., Any], outer: Sequence[Term]) -> Term:
    """A loop's bound at the values of the loops around it."""
    return as_term(bound(*outer) if callable(bound) else bound)


def _store(stage: Stage, inner: list[Var], value: Operand) -> Store:
    buffer = stage.target.buffer
    expr: Expr = as_expr(value, buffer.dtype)
    if expr.dtype != buffer.dtype:
        raise ContractError(
            f"stage {stage.name} computes {expr.dtype}, but {buffer.name} is {buffer.dtype}",
            hint="add a cast",
        )
    spatial = _terms(inner)
    own = spatial[len(_outer(stage)) :]
    indices = own if stage.at is None else [as_term(i) for i in stage.at(*spatial)]
    if len(indices) != len(buffer.shape):
        raise ContractError(f"stage {stage.name} needs {len(buffer.shape)} indices of its target")
    return Store(buffer, tuple(indices), expr)
