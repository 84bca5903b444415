"""Count how often one call of a function accesses each of its parameters.

For the choice of memories that differ in speed. Counted from the tree, as in `edgec.loop.cost`: a
load or store is one access of its element's width. Microkernels with a declared cost read and write
whole words: their meaning's accesses are counted in words. A C compiler's use of registers is not
considered.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.loop.cost import parts
from edgec.loop.dtype import bits
from edgec.loop.foreign import find_foreign
from edgec.loop.ir import TRACES, Buffer, BufferRef, Call, Gather, Load, PrimFunc, Stmt, Store
from edgec.loop.microkernel import get_microkernel, meaning_of_call
from edgec.loop.rewrite import expressions, subexpressions
from edgec.loop.simplify import lower_blocks

WORD_BYTES = 4

#: Accesses of one buffer: width in bytes -> how many; averages where loop bounds vary.
Traffic = dict[int, float]


def traffic(func: PrimFunc, callees: Mapping[str, PrimFunc] | None = None) -> dict[str, Traffic]:
    """Accesses of each parameter, by name, in one call; `callees` are functions it calls."""
    callees = callees or {}
    known = {name: list(traffic(callee).values()) for name, callee in callees.items()}
    found = _Counting(known).stmt(lower_blocks(func.body))
    return {param.name: found.get(param, {}) for param in func.params}


def wait_cycles(counted: Traffic, wait_states: float, width_bytes: int) -> float:
    """Cycles that accesses wait in a memory that is `width_bytes` wide.

    Each takes `wait_states` cycles more than one, and one wider than the memory is several.
    """
    return sum(
        count * (-(-width // width_bytes) * (1.0 + wait_states) - 1.0)
        for width, count in counted.items()
    )


def add_traffic(total: Traffic, more: Traffic, times: float = 1.0) -> None:
    """Add accesses to `total`, this many times."""
    for width, count in more.items():
        total[width] = total.get(width, 0.0) + count * times


_Found = dict[Buffer, Traffic]


class _Counting:
    def __init__(self, callees: Mapping[str, list[Traffic]]) -> None:
        self.callees = callees

    def stmt(self, stmt: Stmt) -> _Found:
        if isinstance(stmt, Call):
            return self.call(stmt)
        found = self.read(stmt)
        if isinstance(stmt, Store):
            _count(found, stmt.buffer)
        return _sum((found, 1.0), *((self.stmt(part), times) for part, times in parts(stmt)))

    def read(self, stmt: Stmt) -> _Found:
        """The loads of the expressions directly in a statement."""
        found: _Found = {}
        for expr in expressions(stmt):
            for part in subexpressions(expr):
                if isinstance(part, (Load, Gather)):
                    _count(found, part.buffer)
        return found

    def call(self, call: Call) -> _Found:
        refs = [arg for arg in call.args if isinstance(arg, BufferRef)]
        found = self.read(call)
        if call.callee in TRACES:
            return found
        own = self.callees.get(call.callee) or _kernel_traffic(call)
        for ref, counted in zip(refs, own, strict=True):
            if ref.buffer.scope != "register":
                add_traffic(found.setdefault(ref.buffer, {}), counted)
        return found


def _kernel_traffic(call: Call) -> list[Traffic]:
    """A microkernel's accesses through each of its pointers; for a foreign function, each element
    once.
    """
    if find_foreign(call.callee) is not None:
        refs = [argument for argument in call.args if isinstance(argument, BufferRef)]
        return [{bits(r.buffer.dtype) // 8: float(r.buffer.elements)} for r in refs]
    kernel = get_microkernel(call.callee)
    meaning = meaning_of_call(kernel, call)
    counts = traffic(meaning)
    if kernel.stream is not None:
        first, *others = kernel.stream.sources
        for name in others:  # the meaning of some sizes may lack one: no group, no shifts
            add_traffic(counts[first], counts.get(name, {}))
    own = [counts[param.name] for param in kernel.pointers(meaning)]
    return [_in_words(c) for c in own] if kernel.instructions is not None else own


def _in_words(counted: Traffic) -> Traffic:
    """The same bytes in words; wider accesses stay."""
    words: Traffic = {}
    for width, count in counted.items():
        add_traffic(words, {max(width, WORD_BYTES): count * min(width / WORD_BYTES, 1.0)})
    return words


def _count(found: _Found, buffer: Buffer) -> None:
    if buffer.scope != "register":
        add_traffic(found.setdefault(buffer, {}), {max(bits(buffer.dtype) // 8, 1): 1.0})


def _sum(*parts: tuple[_Found, float]) -> _Found:
    """Counts of several statements, each this many times."""
    total: _Found = {}
    for found, times in parts:
        for buffer, counted in found.items():
            add_traffic(total.setdefault(buffer, {}), counted, times)
    return total
