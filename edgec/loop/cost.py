"""Estimate how many instructions a nest takes, for the choice between variants.

Counts the operations of each store times its executions. Nothing is measured, and a C compiler's
hoisting and merging are only guessed; use it to compare schedules of one function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgec.loop.bound import BOUND, Launch
from edgec.loop.dtype import is_float
from edgec.loop.foreign import find_foreign
from edgec.loop.intrinsics import get_intrinsic, is_known
from edgec.loop.ir import (
    TRACES,
    Binary,
    Block,
    Branch,
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
    remembered,
)
from edgec.loop.primitives.int4 import unpacked_byte
from edgec.loop.rewrite import children, expressions
from edgec.loop.simplify import lower_blocks
from edgec.numerics.term import Term, Var

#: Rounds that a loop is taken to run where data decide it.
ROUNDS = 8
# How many values of the outer variables are tried to average a loop's trip count.
_MOST_SAMPLES = 256


#: Instructions of one iteration of a loop on a Cortex-M4: an addition, a comparison, a branch.
#: Other operations cost one. Other cores differ by a factor that is similar for all schedules of a
#: function.
LOOP_STEP = 3
#: Thumb instructions take two or four bytes.
BYTES_PER_INSTRUCTION = 3


@dataclass(frozen=True)
class Cost:
    """Totals of one run of a function; averages where loop bounds vary."""

    loads: float = 0.0
    stores: float = 0.0
    multiplies: float = 0.0
    instructions: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.loads + other.loads,
            self.stores + other.stores,
            self.multiplies + other.multiplies,
            self.instructions + other.instructions,
        )

    def times(self, count: float) -> Cost:
        """The cost of running it `count` times."""
        return Cost(
            self.loads * count,
            self.stores * count,
            self.multiplies * count,
            self.instructions * count,
        )


def estimate(func: PrimFunc, callees: Mapping[str, PrimFunc] | None = None) -> Cost:
    """The cost of one call. A call of a microkernel costs its declared instructions.

    `callees` are other functions that this one calls.
    """
    if not callees:
        return _estimate_alone(func)
    known = {name: estimate(callee) for name, callee in callees.items()}
    return _Estimator(known).stmt(lower_blocks(func.body))


@remembered
def _estimate_alone(func: PrimFunc) -> Cost:
    return _Estimator({}).stmt(lower_blocks(func.body))


def thread_instructions(
    func: PrimFunc, launch: Launch, callees: Mapping[str, PrimFunc], *, most: bool
) -> float:
    """Instructions of a thread of a GPU that runs a function: of the average, or the most.

    Statements outside of bound loops are run by every thread; the thread that does most has a step
    in every one of these loops.
    """
    known = {name: estimate(callee) for name, callee in callees.items()}
    return _ThreadEstimator(known, launch, most).stmt(lower_blocks(func.body)).instructions


@remembered
def estimate_code_bytes(func: PrimFunc) -> int:
    """Estimate the bytes of its machine code and of the microkernels that it calls.

    Kernels are counted in full, even if other functions call them too.
    """
    from edgec.loop.microkernel import get_microkernel, kernels_of

    own = _CodeEstimator({}).stmt(lower_blocks(func.body))
    kernels = sum(get_microkernel(name).code_bytes for name in kernels_of(func))
    instructions = own.instructions + len(func.params) + len(func.indices)
    return round(instructions * BYTES_PER_INSTRUCTION) + kernels


def average_trips(loop: For) -> float:
    """Number of steps of the loop, averaged over the variables that its bounds depend on."""
    extent = loop.stop - loop.start
    if extent.constant is not None:
        return max(extent.constant, 0)
    points = _samples(extent)
    return sum(max(extent.evaluate(p), 0) for p in points) / len(points)


def holds_share(stmt: If) -> float:
    """Part of the values of its variables for which the condition holds."""
    room = stmt.right - stmt.left
    points = _samples(room)
    return sum(room.evaluate(p) > 0 for p in points) / len(points)


def parts(stmt: Stmt) -> tuple[tuple[Stmt, float], ...]:
    """The statements directly inside, and how often each runs while this one runs once.

    A statement under a condition on data runs half of the times, a loop whose end data decide
    `ROUNDS` times.
    """
    if isinstance(stmt, For):
        return ((stmt.body, average_trips(stmt)),)
    if isinstance(stmt, If):
        share = holds_share(stmt)
        return tuple(zip(children(stmt), (share, 1 - share), strict=False))
    if isinstance(stmt, While):
        rounds = ROUNDS if stmt.limit is None else min(stmt.limit, ROUNDS)
        return (stmt.head, rounds + 1.0), (stmt.body, float(rounds))
    times = 0.5 if isinstance(stmt, Branch) else 1.0
    return tuple((child, times) for child in children(stmt))


def _samples(term: Term) -> list[dict[str, int]]:
    points: list[dict[str, int]] = [{}]
    variables = sorted(term.variables(), key=lambda v: v.name)
    for var in variables:
        values = _spread(var, max(1, _MOST_SAMPLES // len(points)))
        points = [{**p, var.name: value} for p in points for value in values]
    return points


def _spread(var: Var, most: int) -> list[int]:
    size = max(var.stop - var.start, 1)
    count = min(size, most)
    return [var.start + (2 * i + 1) * size // (2 * count) for i in range(count)]


class _Estimator:
    def __init__(self, callees: Mapping[str, Cost]) -> None:
        self.callees = callees

    def stmt(self, stmt: Stmt) -> Cost:
        if isinstance(stmt, Call):
            return self.call(stmt)
        total = self.own(stmt)
        for part, times in self.parts(stmt):
            total += self.stmt(part).times(times)
        return total

    def parts(self, stmt: Stmt) -> tuple[tuple[Stmt, float], ...]:
        return parts(stmt)

    def own(self, stmt: Stmt) -> Cost:
        """The cost of a statement without the statements in it."""
        assert not isinstance(stmt, Block)
        if isinstance(stmt, For):
            is_serial = stmt.kind == "serial"
            return Cost(instructions=LOOP_STEP * average_trips(stmt) * is_serial)
        if isinstance(stmt, Store):
            stored = Cost(stores=1, instructions=1)
            value = self.expr(stmt.value)
            return value if stmt.buffer.scope == "register" else value + stored
        total = self.all(expressions(stmt))
        return total if isinstance(stmt, Seq) else total + Cost(instructions=2)

    def call(self, call: Call) -> Cost:
        from edgec.loop.microkernel import get_microkernel, meaning_of_call, stated_instructions

        if call.callee in TRACES:
            return Cost()
        if call.callee in self.callees:
            return self.callees[call.callee] + Cost(instructions=2 * len(call.args) + 8)
        foreign = find_foreign(call.callee)
        if foreign is not None:
            return Cost(instructions=foreign.cost(call) + 2 * len(call.args))
        kernel = get_microkernel(call.callee)
        pointers = sum(isinstance(a, BufferRef) for a in call.args)
        count = stated_instructions(kernel, call)
        if count is not None:
            return Cost(instructions=count + pointers + 4)
        body = lower_blocks(meaning_of_call(kernel, call).body)
        return self.stmt(body) + Cost(instructions=pointers + 4)

    def expr(self, expr: Expr) -> Cost:
        if isinstance(expr, (Const, IndexValue)):
            return Cost()
        if isinstance(expr, Load):
            if expr.buffer.scope == "register":
                return Cost()
            return Cost(loads=1, instructions=1)
        if isinstance(expr, Gather):
            return self.all(expr.indices) + Cost(loads=1, instructions=2)
        if isinstance(expr, Binary):
            return self.binary(expr)
        if isinstance(expr, Cast):
            inside = self.expr(expr.value)
            number = expr.value.value if isinstance(expr.value, Cast) else expr.value
            # The load extends, and so does the extraction of half a byte.
            widens = isinstance(expr.value, Load) or unpacked_byte(number) is not None
            return inside if widens else inside + Cost(instructions=1)
        if isinstance(expr, Select):
            return self.all((expr.condition, expr.yes, expr.no)) + Cost(instructions=2)
        return self.intrinsic(expr)

    def all(self, exprs: tuple[Expr, ...]) -> Cost:
        total = Cost()
        for expr in exprs:
            total += self.expr(expr)
        return total

    def binary(self, expr: Binary) -> Cost:
        if half := unpacked_byte(expr):  # a shift or a field; else a choice between them
            byte, is_known = half
            return self.expr(byte) + Cost(instructions=1 if is_known else 3)
        inside = self.expr(expr.left) + self.expr(expr.right)
        is_product = expr.op == "mul"
        if is_float(expr.left.dtype):
            return inside + Cost(multiplies=float(is_product), instructions=1)
        if is_product:
            return inside + Cost(multiplies=1, instructions=1)
        if expr.op == "add" and any(
            isinstance(e, Binary) and e.op == "mul" for e in (expr.left, expr.right)
        ):
            return inside  # the multiplication adds
        return inside + Cost(instructions=2 if expr.op in ("min", "max", "div") else 1)

    def intrinsic(self, expr: Intrinsic) -> Cost:
        count = get_intrinsic(expr.name).instructions if is_known(expr.name) else 10
        return self.all(expr.args) + Cost(instructions=count)


class _ThreadEstimator(_Estimator):
    def __init__(self, callees: Mapping[str, Cost], launch: Launch, most: bool) -> None:
        super().__init__(callees)
        self.launch, self.most = launch, most

    def parts(self, stmt: Stmt) -> tuple[tuple[Stmt, float], ...]:
        if isinstance(stmt, For) and stmt.kind in BOUND:
            (kind,) = (kind for kind in BOUND if kind == stmt.kind)
            return ((stmt.body, 1.0 if self.most else average_trips(stmt) / self.launch.of(kind)),)
        return parts(stmt)


class _CodeEstimator(_Estimator):
    """Counts the code instead of its executions: loops once, both branches of a condition."""

    def parts(self, stmt: Stmt) -> tuple[tuple[Stmt, float], ...]:
        if isinstance(stmt, For) and stmt.kind != "serial":
            return parts(stmt)
        return tuple((child, 1.0) for child in children(stmt))

    def own(self, stmt: Stmt) -> Cost:
        if isinstance(stmt, For) and stmt.kind == "serial":
            bounds = 2.0 if stmt.stop.constant is not None else 4.0
            return Cost(instructions=LOOP_STEP + bounds)
        return super().own(stmt)

    def call(self, call: Call) -> Cost:
        return Cost(instructions=len(call.args) + 2)


#: The function itself, in `instructions_by_callee`.
OWN = ""


def instructions_by_callee(
    func: PrimFunc, callees: Mapping[str, PrimFunc] | None = None
) -> dict[str, float]:
    """Instructions of one call, by the name of the code that runs: `OWN`, microkernels, other
    callees.

    A callee's own calls are listed separately, not with the callee.
    """
    callees = callees or {}
    found: dict[str, float] = {}
    below = {name: instructions_by_callee(callee) for name, callee in callees.items()}
    for call, times in _calls(lower_blocks(func.body), 1.0):
        for name, count in _of_call(call, below).items():
            found[name] = found.get(name, 0.0) + count * times
    total = estimate(func, callees=callees).instructions
    return {OWN: max(total - sum(found.values()), 0.0), **found}


def _of_call(call: Call, below: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Instructions of one call, by the name of the code; `below` has each callee's."""
    from edgec.loop.microkernel import get_microkernel, meaning_of_call, stated_instructions

    if call.callee in TRACES:
        return {}
    if call.callee in below:
        return {name or call.callee: count for name, count in below[call.callee].items()}
    foreign = find_foreign(call.callee)
    if foreign is not None:
        return {call.callee: foreign.cost(call)}
    kernel = get_microkernel(call.callee)
    stated = stated_instructions(kernel, call)
    if stated is None:
        stated = estimate(meaning_of_call(kernel, call)).instructions
    return {call.callee: stated}


def _calls(stmt: Stmt, times: float) -> list[tuple[Call, float]]:
    """All calls inside, and how often each is made."""
    if isinstance(stmt, Call):
        return [(stmt, times)]
    return [found for part, often in parts(stmt) for found in _calls(part, times * often)]
