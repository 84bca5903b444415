"""Split the estimated instructions of a function among itself and what it calls.

For the choice of the memory that code runs from: which C functions the time is spent in.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgec.loop.cost import average_trips, estimate, holds_share, parts_of_choice
from edgec.loop.ir import TRACES, Branch, Call, Const, For, If, PrimFunc, Seq, Stmt, While
from edgec.loop.microkernel import get_microkernel, meaning_of
from edgec.loop.simplify import lower_blocks

#: The function itself.
OWN = ""


def heat(func: PrimFunc, callees: Mapping[str, PrimFunc] | None = None) -> dict[str, float]:
    """Instructions of one call by name of what runs: `OWN`, microkernels, other callees.

    What a callee calls is counted there, not with the callee.
    """
    callees = callees or {}
    found: dict[str, float] = {}
    below: dict[str, dict[str, float]] = {}
    for call, times in _calls(lower_blocks(func.body), 1.0):
        if call.callee in TRACES:
            continue
        if call.callee in callees:
            if call.callee not in below:
                below[call.callee] = heat(callees[call.callee])
            for name, count in below[call.callee].items():
                name = name or call.callee
                found[name] = found.get(name, 0.0) + count * times
        else:
            found[call.callee] = found.get(call.callee, 0.0) + _instructions(call) * times
    total = estimate(func, callees=callees).instructions
    return {OWN: max(total - sum(found.values()), 0.0), **found}


def _calls(stmt: Stmt, times: float) -> list[tuple[Call, float]]:
    """All calls inside, and how often each is made."""
    if isinstance(stmt, For):
        return _calls(stmt.body, times * average_trips(stmt))
    if isinstance(stmt, If):
        share = holds_share(stmt)
        found = _calls(stmt.body, times * share)
        return found + (_calls(stmt.otherwise, times * (1 - share)) if stmt.otherwise else [])
    if isinstance(stmt, Seq):
        return [found for child in stmt.stmts for found in _calls(child, times)]
    if isinstance(stmt, (Branch, While)):
        parts = parts_of_choice(stmt)
        return [found for part, often in parts for found in _calls(part, times * often)]
    return [(stmt, times)] if isinstance(stmt, Call) else []


def _instructions(call: Call) -> float:
    """What one call of a microkernel takes."""
    kernel = get_microkernel(call.callee)
    values = [int(a.value) for a in call.args if isinstance(a, Const)][: len(kernel.sizes)]
    if kernel.instructions is not None:
        return float(kernel.instructions(**dict(zip(kernel.sizes, values, strict=True))))
    return estimate(meaning_of(kernel, (*values, *(0 for _ in kernel.indices)))).instructions
