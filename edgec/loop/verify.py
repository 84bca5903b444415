"""The contract of a PrimFunc, checked plainly. Knows nothing about schedules.

Names are unique, buffers declared, variables in scope; a variable's bounds cover its loop's range;
types agree; constants are not written; no index is always outside its buffer, where anything runs;
a block's body speaks only of its axes, and a block that reduces also accumulates; the steps of a
vectorized or parallel loop touch nothing that another one writes; barriers are uniform, and what
bound loops need fits a GPU (`edgec.loop.bound`).
"""

from __future__ import annotations

from edgec.errors import ContractError
from edgec.loop.access import reads, term_range, writes
from edgec.loop.bound import why_not_bound
from edgec.loop.dtype import DTYPES, integer_range, is_float, is_integer
from edgec.loop.intrinsics import get_intrinsic, is_known
from edgec.loop.ir import (
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
    While,
)
from edgec.loop.lanes import AT_ONCE, why_not_at_once
from edgec.loop.rewrite import statements, walk
from edgec.numerics.term import Term, Var

#: Iterations that are counted through at most, where interval analysis shows too little.
MOST_STEPS = 10_000


def verify_func(func: PrimFunc) -> None:
    """Raise ContractError, naming function and place, unless the function keeps the contract."""
    _Verifier(func).run()


def _values_are_within(loop: For, loops: tuple[For, ...], bounds: tuple[int, int]) -> bool:
    """Whether a loop stays within bounds, found by counting through the loops around it.

    For cases that interval analysis cannot prove, since it removes one variable after the other.
    False after MOST_STEPS, and where a parameter of the function takes part.
    """
    steps = 0
    known = {around.var for around in loops}
    if any(not (s.start.variables() | s.stop.variables()) <= known for s in (*loops, loop)):
        return False

    def stays(values: dict[str, int], around: tuple[For, ...]) -> bool:
        nonlocal steps
        steps += 1
        if steps > MOST_STEPS:
            return False
        head, *rest = around
        start, stop = head.start.evaluate(values), head.stop.evaluate(values)
        if head is loop:
            return start >= stop or (bounds[0] <= start and stop <= bounds[1])
        return all(stays({**values, head.var.name: n}, tuple(rest)) for n in range(start, stop))

    return stays({}, (*loops, loop))


class _Verifier:
    def __init__(self, func: PrimFunc) -> None:
        self.func = func
        self.buffers: dict[str, Buffer] = {}
        self.place: list[str] = [func.name]
        # Interval analysis does not see indices that a guard excludes (the tail of a split).
        self.guards = 0
        # Loops and guards around that let nothing through: windows that meet only padding.
        self.idle = 0

    def fail(self, what: str) -> None:
        raise ContractError(f"{' > '.join(self.place)}: {what}")

    def require(self, fact: bool, what: str) -> None:
        if not fact:
            self.fail(what)

    def run(self) -> None:
        for buffer in (*self.func.params, *self.func.allocs):
            self.require(buffer.name not in self.buffers, f"two buffers named {buffer.name}")
            self.require(buffer.dtype in DTYPES, f"{buffer.name} has dtype {buffer.dtype}")
            self.require(all(e > 0 for e in buffer.shape), f"{buffer.name} has no elements")
            self.buffers[buffer.name] = buffer
        for buffer in self.func.params:
            self.require(buffer.scope != "register", f"parameter {buffer.name} is a register")
        for buffer in self.func.allocs:
            self.require(
                buffer.scope in ("register", "shared"), f"alloc {buffer.name} is {buffer.scope}"
            )
        self.unique_names()
        for why in why_not_bound(self.func):
            self.fail(why)
        self.stmt(self.func.body, {var.name: var for var in self.func.indices}, ())

    def unique_names(self) -> None:
        blocks: set[str] = set()
        loops: set[str] = set()
        for stmt in statements(self.func.body):
            if isinstance(stmt, Block):
                self.require(stmt.name not in blocks, f"two blocks named {stmt.name}")
                blocks.add(stmt.name)
        for stmt, path in walk(self.func.body):
            if isinstance(stmt, For):
                name = stmt.var.name
                around = {s.var.name for s in path if isinstance(s, For)}
                self.require(name not in around, f"loop {name} inside a loop of that name")
                self.require(name not in self.buffers, f"loop {name} has the name of a buffer")
                # Written-out loops repeat the names of loops inside; schedules need them unique.
                self.require(not blocks or name not in loops, f"two loops named {name}")
                loops.add(name)

    def stmt(self, stmt: Stmt, scope: dict[str, Var], loops: tuple[For, ...]) -> None:
        if isinstance(stmt, For):
            self.loop(stmt, scope, loops)
        elif isinstance(stmt, Block):
            self.block(stmt, scope, loops)
        elif isinstance(stmt, Store):
            self.element(stmt.buffer, stmt.indices, scope, loops)
            self.require(stmt.buffer.scope != "constant", f"{stmt.buffer.name} is constant")
            dtype = self.expr(stmt.value, scope, loops)
            self.require(
                dtype == stmt.buffer.dtype,
                f"{dtype} is stored into {stmt.buffer.dtype} {stmt.buffer.name}",
            )
        elif isinstance(stmt, If):
            self.term(stmt.left, scope)
            self.term(stmt.right, scope)
            never = term_range(stmt.right - stmt.left, loops)[1] <= 0
            self.guards += 1
            self.idle += never
            self.stmt(stmt.body, scope, loops)
            self.idle -= never
            self.guards -= 1
            if stmt.otherwise is not None:
                self.stmt(stmt.otherwise, scope, loops)
        elif isinstance(stmt, Branch):
            self.condition(stmt.condition, scope, loops)
            self.stmt(stmt.body, scope, loops)
            if stmt.otherwise is not None:
                self.stmt(stmt.otherwise, scope, loops)
        elif isinstance(stmt, While):
            self.stmt(stmt.head, scope, loops)
            self.condition(stmt.condition, scope, loops)
            self.stmt(stmt.body, scope, loops)
        elif isinstance(stmt, Seq):
            for child in stmt.stmts:
                self.stmt(child, scope, loops)
        elif isinstance(stmt, Call):
            for argument in stmt.args:
                if isinstance(argument, BufferRef):
                    self.element(argument.buffer, argument.indices, scope, loops)
                else:
                    self.expr(argument, scope, loops)

    def condition(self, expr: Expr, scope: dict[str, Var], loops: tuple[For, ...]) -> None:
        dtype = self.expr(expr, scope, loops)
        self.require(not is_float(dtype), f"a condition is {dtype}")

    def loop(self, loop: For, scope: dict[str, Var], loops: tuple[For, ...]) -> None:
        self.place.append(f"for {loop.var.name}")
        self.term(loop.start, scope)
        self.term(loop.stop, scope)
        low, high = term_range(loop.start, loops)[0], term_range(loop.stop, loops)[1]
        bounds = loop.var.start, loop.var.stop
        self.require(
            (bounds[0] <= low and high <= bounds[1])
            or high <= low
            or self.guards > 0
            or _values_are_within(loop, loops, bounds),
            f"bounds {loop.var.start}..{loop.var.stop} do not cover {low}..{high}",
        )
        if loop.kind in ("unrolled", "vectorized"):
            fixed = loop.extent is not None
            self.require(fixed, f"{loop.kind}, but its extent is not constant")
        if loop.kind in AT_ONCE:
            why = why_not_at_once(self.func, loop)
            self.require(not why, f"{loop.kind}, but {why}")
        never = term_range(loop.stop - loop.start, loops)[1] <= 0
        self.idle += never
        self.stmt(loop.body, {**scope, loop.var.name: loop.var}, (*loops, loop))
        self.idle -= never
        self.place.pop()

    def block(self, block: Block, scope: dict[str, Var], loops: tuple[For, ...]) -> None:
        self.place.append(f"block {block.name}")
        for axis in block.axes:
            self.term(axis.binding, scope)
            low, high = term_range(axis.binding, loops)
            runs = low <= high
            outside = runs and (high < axis.var.start or low >= axis.var.stop) and not self.idle
            self.require(not outside, f"axis {axis.var.name} is bound to {low}..{high}")
        inside = {a.var.name: a.var for a in block.axes}
        self.require(len(inside) == len(block.axes), "two axes have one name")
        if any(a.kind == "reduce" for a in block.axes):
            accumulates = writes(block.body) & reads(block.body)
            self.require(bool(accumulates), "reduces, but does not accumulate")
        elif block.init is not None:
            self.fail("has an init, but does not reduce")
        if block.init is not None:
            self.stmt(block.init, {n: v for n, v in inside.items()}, ())
        self.stmt(block.body, inside, ())
        self.place.pop()

    def term(self, term: Term, scope: dict[str, Var]) -> None:
        for var in term.variables():
            self.require(scope.get(var.name) == var, f"{var.name} of {term} is not in scope")

    def element(
        self,
        buffer: Buffer,
        indices: tuple[Term, ...],
        scope: dict[str, Var],
        loops: tuple[For, ...],
    ) -> None:
        self.require(self.buffers.get(buffer.name) == buffer, f"{buffer.name} is not declared so")
        self.require(
            len(indices) == len(buffer.shape),
            f"{buffer.name} has {len(buffer.shape)} dimensions, not {len(indices)}",
        )
        for index, extent in zip(indices, buffer.shape, strict=True):
            self.term(index, scope)
            low, high = term_range(index, loops)
            self.require(
                (high >= 0 and low < extent) or self.idle > 0,
                f"{buffer.name}[.. {index} ..] is in {low}..{high}, outside of {extent}",
            )

    def expr(self, expr: Expr, scope: dict[str, Var], loops: tuple[For, ...]) -> str:
        """Check an expression; its dtype."""
        if isinstance(expr, Const):
            self.require(expr.dtype in DTYPES, f"literal of dtype {expr.dtype}")
            if is_integer(expr.dtype):
                low, high = integer_range(expr.dtype)
                self.require(low <= expr.value <= high, f"{expr.value} is out of {expr.dtype}")
        elif isinstance(expr, Load):
            self.element(expr.buffer, expr.indices, scope, loops)
        elif isinstance(expr, Gather):
            self.require(self.buffers.get(expr.buffer.name) == expr.buffer, "gathers elsewhere")
            self.require(len(expr.indices) == len(expr.buffer.shape), "gathers at a wrong rank")
            for part in expr.indices:
                self.require(self.expr(part, scope, loops) == "int32", "gathers at no int32")
        elif isinstance(expr, IndexValue):
            self.term(expr.term, scope)
        elif isinstance(expr, Binary):
            left, right = self.expr(expr.left, scope, loops), self.expr(expr.right, scope, loops)
            self.require(left == right, f"{expr.op} of {left} and {right}")
            bitwise = expr.op in ("shl", "shr", "and", "or", "xor")
            self.require(not (bitwise and is_float(left)), f"{expr.op} of {left}")
        elif isinstance(expr, Cast):
            self.require(expr.dtype in DTYPES, f"a cast to {expr.dtype}")
            self.expr(expr.value, scope, loops)
        elif isinstance(expr, Select):
            condition = self.expr(expr.condition, scope, loops)
            self.require(condition == "bool", f"select by {condition}")
            yes, no = self.expr(expr.yes, scope, loops), self.expr(expr.no, scope, loops)
            self.require(yes == no, f"select of {yes} and {no}")
        else:
            self.intrinsic(expr, scope, loops)
        return expr.dtype

    def intrinsic(self, expr: Intrinsic, scope: dict[str, Var], loops: tuple[For, ...]) -> None:
        given = tuple(self.expr(a, scope, loops) for a in expr.args)
        self.require(is_known(expr.name), f"intrinsic {expr.name} is unknown")
        known = get_intrinsic(expr.name)
        self.require(
            (given, expr.dtype) == (known.args, known.dtype),
            f"{expr.name}({', '.join(given)}) -> {expr.dtype} is not its type",
        )
