"""Read the text of the loop IR back; the inverse of `edgec.loop.printer`.

The grammar is in `docs/loop_ir.md`. A mistake raises ContractError with the line and the expected
token.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast, get_args

from edgec.loop.dtype import DTYPES
from edgec.loop.expr_parser import ExprParser
from edgec.loop.ir import (
    Axis,
    AxisKind,
    Block,
    BoundKind,
    Branch,
    Buffer,
    BufferRef,
    Call,
    Expr,
    For,
    ForKind,
    If,
    PrimFunc,
    Scope,
    Seq,
    Stmt,
    Store,
    Sync,
    SyncScope,
    Use,
    While,
)
from edgec.numerics.term import Term, Var

_SCOPES = ("arena", "scratch", "constant", "register", "shared")
_KINDS = ("unrolled", "vectorized", "parallel", *get_args(BoundKind))
_SYNCS = get_args(SyncScope)
_USES = ("reads", "writes", "updates")


def parse_func(text: str) -> PrimFunc:
    """The function that the text describes; ContractError with its line if it is malformed."""
    return _FuncParser(text).func()


def parse_term(text: str, variables: Mapping[str, Var]) -> Term:
    """The index term that the text describes, in these variables; ContractError if malformed."""
    parser = ExprParser(text)
    with parser.scope(variables):
        term = parser.term()
    if parser.peek() != "":
        parser.fail("the end")
    return term


class _FuncParser(ExprParser):
    def func(self) -> PrimFunc:
        self.expect("func")
        name = self.name()
        self.expect("(")
        params = self.separated(self.declaration, ")")
        indices: list[Var] = []
        while self.accept(",") if indices else self.accept("at"):
            index, bounds = self.variable()
            if bounds is None:
                self.fail("bounds of the index")
            indices.append(Var(index, *bounds))
        with self.scope({v.name: v for v in indices}):
            while self.accept("sizes"):
                params = self.opened(params)
        self.expect("{")
        allocs: list[Buffer] = []
        while self.accept("alloc"):
            allocs.append(self.declaration())
        with self.scope({v.name: v for v in indices}):
            body = self.body()
        if self.peek() != "":
            self.fail("the end")
        return PrimFunc(name, tuple(params), tuple(allocs), body, tuple(indices))

    def opened(self, params: Sequence[Buffer]) -> list[Buffer]:
        """The parameters; one of them gets the extents that follow."""
        name = self.name()
        self.expect("[")
        extents = tuple(self.separated(self.term, "]"))
        if name not in self.buffers or len(self.buffers[name].shape) != len(extents):
            self.fail("the sizes of a parameter")
        self.buffers[name] = replace(self.buffers[name], extents=extents)
        return [self.buffers[param.name] for param in params]

    def declaration(self) -> Buffer:
        name = self.name()
        self.expect(":")
        scope = self.one_of(_SCOPES)
        dtype = self.one_of(DTYPES)
        self.expect("[")
        shape = self.separated(self.integer, "]")
        buffer = Buffer(name, tuple(shape), dtype, cast(Scope, scope))
        if name in self.buffers:
            self.fail("a buffer name that is not taken")
        self.buffers[name] = buffer
        return buffer

    def body(self) -> Stmt:
        """Statements up to the closing brace, which is consumed."""
        stmts: list[Stmt] = []
        while not self.accept("}"):
            stmts.append(self.stmt())
        return stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))

    def stmt(self) -> Stmt:
        if self.accept("{"):
            inner = self.body()
            return Seq(inner.stmts if isinstance(inner, Seq) else (inner,))
        if self.peek() in (*_KINDS, "for"):
            return self.loop()
        if self.accept("sync"):
            return Sync(cast(SyncScope, self.one_of(_SYNCS)))
        if self.accept("block"):
            return self.block()
        if self.accept("if"):
            left = self.term()
            self.expect("<")
            right = self.term()
            self.expect("{")
            body = self.body()
            return If(left, right, body, self.otherwise())
        if self.accept("when"):
            condition = self.expr()
            self.expect("{")
            body = self.body()
            return Branch(condition, body, self.otherwise())
        if self.peek() in ("at", "repeat"):
            return self.repeat()
        if self.accept("call"):
            callee = self.name()
            self.expect("(")
            return Call(callee, tuple(self.separated(self.argument, ")")))
        buffer, indices = self.element()
        self.expect("=")
        return Store(buffer, indices, self.expr())

    def otherwise(self) -> Stmt | None:
        if not self.accept("else"):
            return None
        self.expect("{")
        return self.body()

    def repeat(self) -> While:
        limit = None
        if self.accept("at"):
            self.expect("most")
            limit = self.integer()
        self.expect("repeat")
        self.expect("{")
        head = self.body()
        self.expect("while")
        condition = self.expr()
        self.expect("{")
        return While(head, condition, self.body(), limit)

    def loop(self) -> For:
        kind = self.peek() if self.peek() in _KINDS else "serial"
        if kind != "serial":
            self.next()
        self.expect("for")
        name, bounds = self.variable()
        self.expect("in")
        start = self.term()
        self.expect("..")
        stop = self.term()
        low, high = bounds or (start.bounds()[0], stop.bounds()[1])
        var = Var(name, low, high)
        self.expect("{")
        with self.scope({name: var}):
            body = self.body()
        return For(var, start, stop, cast(ForKind, kind), body)

    def variable(self) -> tuple[str, tuple[int, int] | None]:
        name = self.name()
        if not self.accept("["):
            return name, None
        low = self.integer()
        self.expect("..")
        high = self.integer()
        self.expect("]")
        return name, (low, high)

    def block(self) -> Block:
        name = self.name()
        self.expect("(")
        axes = self.separated(self.axis, ")")
        self.expect("{")
        init: Stmt | None = None
        with self.scope({a.var.name: a.var for a in axes}):
            if self.accept("init"):
                self.expect("{")
                init = self.body()
            body = self.body()
        return Block(name, tuple(axes), init, body)

    def axis(self) -> Axis:
        name, bounds = self.variable()
        self.expect(":")
        kind = self.one_of(("spatial", "reduce"))
        self.expect("=")
        binding: Term = self.term()
        low, high = binding.bounds()
        start, stop = bounds or (low, high + 1)
        return Axis(Var(name, start, stop), cast(AxisKind, kind), binding)

    def argument(self) -> BufferRef | Expr:
        if self.accept("&"):
            buffer, indices = self.element()
            if self.peek() not in _USES:
                return BufferRef(buffer, indices)
            use = cast(Use, self.next())
            self.expect("[")
            return BufferRef(buffer, indices, use, tuple(self.separated(self.integer, "]")))
        return self.expr()

    def one_of(self, words: tuple[str, ...]) -> str:
        if self.peek() not in words:
            self.fail(" or ".join(words))
        return self.next()
