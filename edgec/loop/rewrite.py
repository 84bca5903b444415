"""Walk and rebuild loop nests.

`Rewriter` is the one place that knows every node's children; a pass overrides the methods of the
nodes it changes. Nodes whose children stay the same objects may be rebuilt: they compare equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from operator import is_
from typing import Any

from edgec.loop.ir import (
    Axis,
    Binary,
    Block,
    Branch,
    Buffer,
    BufferRef,
    Call,
    Cast,
    Const,
    Expr,
    For,
    Gather,
    If,
    IndexValue,
    Intrinsic,
    Load,
    PrimFunc,
    Select,
    Seq,
    Stmt,
    Store,
    Sync,
    While,
)
from edgec.numerics.term import Term, TermLike, Var


class Rewriter:
    """Rebuild statements and expressions bottom-up; override what should change."""

    def term(self, term: Term) -> Term:
        """An index term, in a bound, an index, a binding or a condition."""
        return term

    def buffer(self, buffer: Buffer) -> Buffer:
        """A buffer where it is used."""
        return buffer

    def terms(self, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        """Several index terms."""
        return tuple(self.term(t) for t in terms)

    def load(self, load: Load) -> Expr:
        """An element that is read."""
        return Load(self.buffer(load.buffer), self.terms(load.indices))

    def expr(self, expr: Expr) -> Expr:
        """Any expression."""
        if isinstance(expr, Load):
            return self.load(expr)
        if isinstance(expr, Gather):
            return Gather(self.buffer(expr.buffer), tuple(self.expr(i) for i in expr.indices))
        if isinstance(expr, IndexValue):
            return IndexValue(self.term(expr.term), expr.dtype)
        if isinstance(expr, Binary):
            return Binary(expr.op, self.expr(expr.left), self.expr(expr.right))
        if isinstance(expr, Cast):
            return Cast(expr.dtype, self.expr(expr.value))
        if isinstance(expr, Select):
            return Select(self.expr(expr.condition), self.expr(expr.yes), self.expr(expr.no))
        if isinstance(expr, Intrinsic):
            return Intrinsic(expr.name, tuple(self.expr(a) for a in expr.args), expr.dtype)
        return expr

    def argument(self, argument: BufferRef | Expr) -> BufferRef | Expr:
        """An argument of a call."""
        if isinstance(argument, BufferRef):
            buffer, indices = self.buffer(argument.buffer), self.terms(argument.indices)
            return BufferRef(buffer, indices, argument.use, argument.box)
        return self.expr(argument)

    def stmt(self, stmt: Stmt) -> Stmt:
        """Any statement."""
        if isinstance(stmt, For):
            return self.loop(stmt)
        if isinstance(stmt, Block):
            return self.block(stmt)
        if isinstance(stmt, Store):
            return self.store(stmt)
        if isinstance(stmt, If):
            otherwise = None if stmt.otherwise is None else self.stmt(stmt.otherwise)
            return If(self.term(stmt.left), self.term(stmt.right), self.stmt(stmt.body), otherwise)
        if isinstance(stmt, Seq):
            return Seq(tuple(self.stmt(s) for s in stmt.stmts))
        if isinstance(stmt, Branch):
            otherwise = None if stmt.otherwise is None else self.stmt(stmt.otherwise)
            return Branch(self.expr(stmt.condition), self.stmt(stmt.body), otherwise)
        if isinstance(stmt, While):
            head, condition = self.stmt(stmt.head), self.expr(stmt.condition)
            return replace(stmt, head=head, condition=condition, body=self.stmt(stmt.body))
        if isinstance(stmt, Sync):
            return stmt
        return Call(stmt.callee, tuple(self.argument(a) for a in stmt.args))

    def loop(self, loop: For) -> Stmt:
        start, stop = self.term(loop.start), self.term(loop.stop)
        return For(loop.var, start, stop, loop.kind, self.stmt(loop.body))

    def block(self, block: Block) -> Stmt:
        axes = tuple(Axis(a.var, a.kind, self.term(a.binding)) for a in block.axes)
        init = None if block.init is None else self.stmt(block.init)
        return Block(block.name, axes, init, self.stmt(block.body))

    def store(self, store: Store) -> Stmt:
        """An element that is written."""
        return Store(self.buffer(store.buffer), self.terms(store.indices), self.expr(store.value))


class Substitute(Rewriter):
    """Replace variables by terms everywhere."""

    def __init__(self, values: Mapping[Var, TermLike]) -> None:
        self.values = values

    def term(self, term: Term) -> Term:
        """The term with its variables replaced."""
        return term.substitute(self.values) if term.parts else term


class ReplaceBuffer(Rewriter):
    """Use another buffer in place of one; indices stay."""

    def __init__(self, buffers: Mapping[Buffer, Buffer]) -> None:
        self.buffers = buffers

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer that takes its place."""
        return self.buffers.get(buffer, buffer)


class StatementRewriter:
    """Rebuild only statements. Unchanged statements remain the same objects, so cached results stay
    valid.
    """

    def stmt(self, stmt: Stmt) -> Stmt:
        """The statement with its parts replaced."""
        before = children(stmt)
        after = tuple(map(self.stmt, before))
        return stmt if all(map(is_, before, after)) else _REBUILD[type(stmt)](stmt, after)


class ReplaceStmts(StatementRewriter):
    """Replace statements, found by identity; None as the new statement removes it."""

    def __init__(self, changes: list[tuple[Stmt, Stmt | None]]) -> None:
        self.changes = {id(old): new for old, new in changes}

    def stmt(self, stmt: Stmt) -> Stmt:
        """The new statement, or the old one with its parts replaced."""
        if id(stmt) in self.changes:
            new = self.changes[id(stmt)]
            return Seq(()) if new is None else new
        return super().stmt(stmt)


def sequence(*stmts: Stmt) -> Stmt:
    """Statements one after the other; nested sequences are opened, one statement stays bare."""
    flat: list[Stmt] = []
    for stmt in stmts:
        flat += stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def is_empty(stmt: Stmt) -> bool:
    """Whether the statement does nothing."""
    return isinstance(stmt, Seq) and not stmt.stmts


class _Prune(StatementRewriter):
    def stmt(self, stmt: Stmt) -> Stmt:
        new = super().stmt(stmt)
        if isinstance(new, Seq):
            is_open = len(new.stmts) != 1 and not any(isinstance(s, Seq) for s in new.stmts)
            return new if is_open else sequence(*new.stmts)
        if isinstance(new, For) and is_empty(new.body):
            return Seq(())
        if isinstance(new, If):
            if new.otherwise is not None and is_empty(new.otherwise):
                new = replace(new, otherwise=None)
            if is_empty(new.body) and new.otherwise is None:
                return Seq(())
        return new


def prune(stmt: Stmt) -> Stmt:
    """Open nested sequences and drop loops and conditions around nothing."""
    return _Prune().stmt(stmt)


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside; a block's init comes before its body."""
    return _CHILDREN[type(stmt)](stmt)


#: By class: a statement with other children.
_REBUILD: dict[type, Callable[[Any, tuple[Stmt, ...]], Stmt]] = {
    For: lambda loop, inside: For(loop.var, loop.start, loop.stop, loop.kind, *inside),
    Block: lambda b, inside: Block(b.name, b.axes, *(() if b.init else (None,)), *inside),
    If: lambda stmt, inside: If(stmt.left, stmt.right, *inside),
    Branch: lambda stmt, inside: Branch(stmt.condition, *inside),
    While: lambda loop, inside: While(inside[0], loop.condition, inside[1], loop.limit),
    Seq: lambda _, inside: Seq(inside),
}


def _and_otherwise(stmt: If | Branch) -> tuple[Stmt, ...]:
    return (stmt.body,) if stmt.otherwise is None else (stmt.body, stmt.otherwise)


#: By class: this is asked for so often that a chain of questions would be slow.
_CHILDREN: dict[type, Callable[[Any], tuple[Stmt, ...]]] = {
    For: lambda loop: (loop.body,),
    Block: lambda b: (b.body,) if b.init is None else (b.init, b.body),
    If: _and_otherwise,
    Branch: _and_otherwise,
    While: lambda loop: (loop.head, loop.body),
    Seq: lambda sequence: sequence.stmts,
    Store: lambda _: (),
    Call: lambda _: (),
    Sync: lambda _: (),
}


def statements(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement inside, itself first."""
    todo = [stmt]
    while todo:
        found = todo.pop()
        yield found
        todo += reversed(children(found))


def walk(stmt: Stmt, path: tuple[Stmt, ...] = ()) -> Iterator[tuple[Stmt, tuple[Stmt, ...]]]:
    """The same, each with the statements around it, outermost first."""
    todo = [(stmt, path)]
    while todo:
        found, above = todo.pop()
        yield found, above
        inside = children(found)
        if inside:
            above = (*above, found)
            todo += [(child, above) for child in reversed(inside)]


def expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions directly in a statement: a stored value, a condition, a call's arguments."""
    if isinstance(stmt, Store):
        return (stmt.value,)
    if isinstance(stmt, (Branch, While)):
        return (stmt.condition,)
    if isinstance(stmt, Call):
        return tuple(arg for arg in stmt.args if not isinstance(arg, BufferRef))
    return ()


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside."""
    todo = [expr]
    while todo:
        found = todo.pop()
        yield found
        todo += reversed(operands(found))


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly in an expression."""
    return _OPERANDS[type(expr)](expr)


_OPERANDS: dict[type, Callable[[Any], tuple[Expr, ...]]] = {
    Const: lambda _: (),
    Load: lambda _: (),
    IndexValue: lambda _: (),
    Gather: lambda gather: gather.indices,
    Binary: lambda binary: (binary.left, binary.right),
    Cast: lambda cast: (cast.value,),
    Select: lambda select: (select.condition, select.yes, select.no),
    Intrinsic: lambda call: call.args,
}


def with_constant(expr: Expr, op: str) -> tuple[Expr, int] | None:
    """The other operand and the constant, if `expr` is this operation with one on its right."""
    if isinstance(expr, Binary) and expr.op == op and isinstance(expr.right, Const):
        return expr.left, int(expr.right.value)
    return None


def with_constants(expr: Expr, *ops: str) -> tuple[Expr, list[int]] | None:
    """The innermost operand of such operations in one another, and their constants, in order."""
    numbers: list[int] = []
    for op in ops:
        found = with_constant(expr, op)
        if found is None:
            return None
        expr = found[0]
        numbers.append(found[1])
    return expr, numbers


def buffers_of(func: PrimFunc) -> dict[str, Buffer]:
    """Every buffer of the function by its name."""
    return {b.name: b for b in (*func.params, *func.allocs)}


def loops_of(stmt: Stmt) -> dict[str, For]:
    """Every loop inside by its variable's name."""
    return {s.var.name: s for s in statements(stmt) if isinstance(s, For)}


def blocks_of(stmt: Stmt) -> dict[str, Block]:
    """Every block inside by its name."""
    return {s.name: s for s in statements(stmt) if isinstance(s, Block)}


class Reindex(Rewriter):
    """Accesses of one buffer become accesses of another; `moved` maps their indices."""

    def __init__(
        self, old: Buffer, new: Buffer, moved: Callable[[tuple[Term, ...]], tuple[Term, ...]]
    ) -> None:
        self.old, self.new, self.moved = old, new, moved

    def load(self, load: Load) -> Expr:
        return load if load.buffer != self.old else Load(self.new, self.moved(load.indices))

    def store(self, store: Store) -> Stmt:
        value = self.expr(store.value)
        if store.buffer != self.old:
            return replace(store, value=value)
        return Store(self.new, self.moved(store.indices), value)

    def argument(self, argument: BufferRef | Expr) -> BufferRef | Expr:
        if isinstance(argument, BufferRef) and argument.buffer == self.old:
            return replace(argument, buffer=self.new, indices=self.moved(argument.indices))
        return super().argument(argument)
