"""Functions that all threads run: the parts of them, and where threads wait for each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from edgec.codegen.register import Registers
from edgec.loop.access import term_range
from edgec.loop.ir import Buffer, For, Seq, Stmt
from edgec.loop.lanes import Touch, touches

#: Statements that one thread runs, or one loop that all share.
Part = tuple[Stmt, ...]


def is_shared(stmt: Stmt) -> bool:
    """Whether threads share the steps of a loop."""
    return isinstance(stmt, For) and stmt.kind == "parallel"


def parts_of(body: Sequence[Stmt], registers: Registers) -> list[Part]:
    """The parts of a function; none where threads share none, or parts have locals in common."""
    parts: list[Part] = []
    for shared, group in groupby(body, is_shared):
        stmts = tuple(group)
        parts += [(stmt,) for stmt in stmts] if shared else [stmts]
    used = [set().union(*map(registers.uses, part)) for part in parts]
    is_apart = sum(map(len, used)) == len(set().union(*used))
    return parts if any(map(is_shared, body)) and is_apart else []


def meets_before(parts: Sequence[Part], *, is_apart: bool) -> list[bool]:
    """The parts before which all threads wait for each other: their bytes overlap earlier writes.

    is_apart: no two buffers overlap.
    """
    found: list[bool] = []
    seen: list[_Span] = []
    for part in parts:
        own = _spans(part)
        found.append(any(_meet(a, b, is_apart=is_apart) for a in seen for b in own))
        seen = own if found[-1] else seen + own
    return found


@dataclass(frozen=True)
class _Span:
    """Between which addresses of a buffer a part reads or writes; None where nobody knows."""

    buffer: Buffer
    is_write: bool
    ends: tuple[int, int] | None


def _spans(part: Part) -> list[_Span]:
    found: dict[tuple[Buffer, bool], list[tuple[int, int] | None]] = {}
    for touch in touches(Seq(part)):
        found.setdefault((touch.buffer, touch.is_write), []).append(_ends(touch))
    return [_Span(*key, _around(ends)) for key, ends in found.items()]


def _ends(touch: Touch) -> tuple[int, int] | None:
    """The first and the last address."""
    if touch.address is None or touch.address.variables() - {s.var for s in touch.loops}:
        return None
    low, high = term_range(touch.address, touch.loops)
    return low, high + touch.elements - 1


def _around(ends: Sequence[tuple[int, int] | None]) -> tuple[int, int] | None:
    known = [each for each in ends if each is not None]
    if len(known) < len(ends):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _meet(first: _Span, second: _Span, *, is_apart: bool) -> bool:
    """Whether two may access one element that one of them writes. If their buffers overlap, the
    second never reads what the first has written, since every buffer is written before it is read.
    """
    if first.buffer != second.buffer:
        return second.is_write and not is_apart
    if not (first.is_write or second.is_write):
        return False
    if first.ends is None or second.ends is None:
        return True
    return first.ends[0] <= second.ends[1] and second.ends[0] <= first.ends[1]
