"""Whether the steps of a loop may run at once: as the lanes of a vector, or on several threads.

A loop that is bound to a GPU's blocks or threads is like a parallel one.

    vectorized for c in 0..8 {            parallel for h in 0..32 {
      acc[c] = acc[c] + x[k] * w[k, c]      for w in 0..32 { out[h, w] = f(x[h, w]) }
    }                                     }

No iteration may access elements that another one writes: for each buffer written inside, an
iteration's elements span less than the distance between iterations. A register buffer that is used
only inside is private: every lane, and every thread, has its own.

The planner may let an output take the place of an input, by the order of the serial loop. So only
the last store of a vectorized loop may leave the registers: every lane has then read before the
first one writes. A parallel loop has no order; `edgec.loop.overlap` knows that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.errors import ScheduleError
from edgec.loop.access import accesses, count_uses, flat_address, reads, term_range, writes
from edgec.loop.bound import BLOCKS, BOUND, THREADS
from edgec.loop.ir import Block, Buffer, Call, For, If, PrimFunc, Stmt, Store
from edgec.loop.microkernel import is_microkernel, pointed_at, written_by
from edgec.loop.rewrite import statements, walk
from edgec.loop.simplify import lower_blocks
from edgec.numerics.term import Term, Var, as_term

#: Kinds of loops whose steps run at once.
AT_ONCE = ("vectorized", "parallel", *BOUND)
#: Lanes of a vector: a power of two; a vector may need several of a core's registers.
LANES = (2, 4, 8, 16, 32, 64)


def private_buffers(func: PrimFunc, loop: For) -> frozenset[Buffer]:
    """The register buffers that nothing outside the loop uses; of a GPU's block shared ones too."""
    scopes = ("register", "shared") if loop.kind in BLOCKS else ("register",)
    used = reads(loop) | writes(loop)
    return frozenset(
        b for b in used if b.scope in scopes and count_uses(loop, b) == count_uses(func.body, b)
    )


def why_not_at_once(func: PrimFunc, loop: For) -> str:
    """Why the steps of a loop may not run at once, as its kind says; nothing if they may."""
    if loop.kind in BOUND:
        return _why_not_bound(func, loop)
    private = private_buffers(func, loop)
    if loop.kind == "vectorized":
        extent = loop.extent
        if extent not in LANES:
            return f"a vector has {', '.join(map(str, LANES))} lanes, not {extent}"
        why = _why_no_vector(loop, private)
        if why:
            return why
    return why_not_apart(loop, private)


def _why_not_bound(func: PrimFunc, loop: For) -> str:
    """Why a loop may not be bound to threads or blocks; a loop of one step always may."""
    if loop.extent == 1:
        return ""
    scopes = ("register",) if loop.kind in THREADS else ("register", "shared")
    own = {buffer for buffer in func.allocs if buffer.scope in scopes}
    return why_not_apart(loop, private_buffers(func, loop) | own)


def why_not_apart(loop: For, private: frozenset[Buffer]) -> str:
    """Why steps of a loop depend on each other, private buffers aside; empty if they do not."""
    lowered = lower_blocks(loop)
    assert isinstance(lowered, For)
    return _dependence(lowered, private)


def _digits_of(rest: Rest, least: int) -> tuple[dict[int, int], int, int]:
    """The digits from `least` on, by their strides, and the range of the sum of all others."""
    near, loops, elements = rest
    found: dict[int, int] = {}
    for atom, factor in near.parts:
        if isinstance(atom, Var) and abs(factor) >= least and atom.stop - atom.start > 1:
            near = near - as_term(atom) * factor
            found[abs(factor)] = found.get(abs(factor), 1) + atom.stop - atom.start - 1
    low, high = term_range(near, loops)
    return found, low, high + elements - 1


def require_at_once(func: PrimFunc) -> None:
    """Raise ScheduleError if a loop runs steps at once that depend on each other."""
    for stmt in statements(func.body):
        if isinstance(stmt, For) and stmt.kind in AT_ONCE:
            why = why_not_at_once(func, stmt)
            if why:
                raise ScheduleError(f"loop {stmt.var.name} cannot be {stmt.kind}: {why}")


def _why_no_vector(loop: For, private: frozenset[Buffer]) -> str:
    inside = list(statements(loop.body))
    for stmt in inside:
        if isinstance(stmt, Call):
            return f"it calls {stmt.callee}"
        terms: tuple[Term, ...] = ()
        if isinstance(stmt, For):
            terms = (stmt.start, stmt.stop)
        elif isinstance(stmt, If):
            terms = (stmt.left, stmt.right)
        if any(loop.var in term.variables() for term in terms):
            return "its body runs only for some lanes"
    if any(isinstance(stmt, Block) for stmt in inside):
        return ""  # temporaries may still move to registers
    stores = [stmt for stmt in inside if isinstance(stmt, Store)]
    early = [s for s in stores[:-1] if s.buffer.scope != "register" and s.buffer not in private]
    return f"it stores {early[0].buffer.name} before its last statement" if early else ""


@dataclass(frozen=True)
class Touch:
    """Elements from an address on, which one step of the loops inside reads or writes."""

    buffer: Buffer
    address: Term | None
    elements: int
    loops: tuple[For, ...]
    is_write: bool


def _dependence(loop: For, private: frozenset[Buffer]) -> str:
    found = touches(loop.body)
    for buffer in {t.buffer for t in found if t.is_write} - private:
        if not _are_apart(loop, [t for t in found if t.buffer == buffer]):
            return f"its steps share elements of {buffer.name}"
    return ""


def touches(body: Stmt) -> list[Touch]:
    """The accesses of a statement; a kernel's pointer accesses all that follows in its meaning."""
    found: list[Touch] = []
    for stmt, path in walk(body):
        loops = tuple(s for s in path if isinstance(s, For))
        if isinstance(stmt, Call) and is_microkernel(stmt.callee):
            written = written_by(stmt)
            for ref, elements in pointed_at(stmt):
                address = flat_address(ref.buffer, ref.indices)
                found.append(Touch(ref.buffer, address, elements, loops, ref.buffer in written))
        elif isinstance(stmt, (Store, Call)):
            for access in accesses(stmt, loops):
                address = None
                if access.indices is not None:
                    address = flat_address(access.buffer, access.indices)
                touch = Touch(access.buffer, address, 1, access.loops, access.is_write)
                found.append(touch)
    return found


def _are_apart(loop: For, touched: list[Touch]) -> bool:
    """Whether no two steps touch the same element when one of them writes it."""
    first: Term | None = None
    step = 0
    rests: list[Rest] = []
    for touch in touched:
        if touch.address is None:
            return False
        coefficient = dict(touch.address.parts).get(loop.var, 0)
        rest = touch.address - as_term(loop.var) * coefficient
        inside = {s.var for s in touch.loops}
        if loop.var in rest.variables() or not coefficient:
            return False
        if first is None:
            outer = [part for part in rest.parts if not Term((part,), 0).variables() & inside]
            first, step = Term(tuple(outer), rest.offset), coefficient
        if coefficient != step or (rest - first).variables() - inside:
            return False
        rests.append((rest - first, touch.loops, touch.elements))
    return not rests or are_told_apart([(step, loop.var.stop - loop.var.start)], rests)


#: The remaining address without the loops' share, the loops around, and the number of elements
#: there.
Rest = tuple[Term, tuple[For, ...], int]


def are_told_apart(steps: Sequence[tuple[int, int]], rests: Sequence[Rest]) -> bool:
    """Whether the loops' iterations access disjoint addresses.

    steps: stride and extent of each loop. Strides must behave like digits of a number: all smaller
    strides together never reach the next one. In a tile of a matrix, the columns and rows of an
    iteration are digits, with the loop's own digits between them.
    """
    digits = {abs(step): extent for step, extent in steps if extent > 1}
    if not digits:
        return True
    ends: list[int] = []
    others: dict[int, int] = {}
    for rest in rests:
        own, low, high = _digits_of(rest, min(digits))
        ends += [low, high]
        others |= {step: max(extent, others.get(step, 1)) for step, extent in own.items()}
    reach = max(ends) - min(ends)
    for step, extent in sorted((digits | others).items()):
        if reach >= step or (step in digits and step in others):
            return False
        reach += step * (extent - 1)
    return len(digits) == sum(extent > 1 for _, extent in steps)
