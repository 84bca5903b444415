"""Shared by default schedules: names of loops and parameters, and where temporaries go."""

from __future__ import annotations

from edgec.loop.ir import Buffer, Expr, PrimFunc, Store
from edgec.loop.primitives.lookup import find_block, reduce_vars
from edgec.loop.rewrite import statements
from edgec.loop.schedule import Schedule


def find_param(func: PrimFunc, name: str) -> Buffer:
    """The parameter of this name."""
    return next(buffer for buffer in func.params if buffer.name == name)


def stored_value(func: PrimFunc) -> Expr | None:
    """The value that the only store into the first output stores; None if there are several."""
    stores = [s for s in statements(func.body) if isinstance(s, Store) and s.buffer.name == "out"]
    return stores[0].value if len(stores) == 1 else None


def output_loops(func: PrimFunc, buffer: str, block: str) -> list[str]:
    """The loops of a block that writes `buffer` element by element, outermost first."""
    return [f"{block}_d{axis}" for axis in range(len(find_param(func, buffer).shape))]


def largest_divisor(extent: int, limit: int) -> int:
    return max(d for d in range(1, limit + 1) if extent % d == 0)


def gather_temporaries(schedule: Schedule, loop: str, apart: tuple[str, ...] = ()) -> None:
    """Compute every temporary but those `apart` where it is used, the last one first."""
    names = [b.name for b in schedule.func.params if b.scope == "scratch"]
    for name in reversed(names):
        if name not in apart:
            schedule.compute_at(name, loop)


def decompose(schedule: Schedule, block: str) -> None:
    """Start the block's reduction in a nest of its own.

    A window of one tap reduces nothing; where an element may have no tap at all, as in a transposed
    convolution that steps over its kernel, the start is a nest of its own already.
    """
    found, _ = find_block(schedule.func, block)
    if reduce_vars(found) and found.init is not None:
        schedule.decompose_reduction(block)


def decompose_at(schedule: Schedule, block: str, loop: str) -> str:
    """Decompose with the new nest beside `loop`; return the new nest's loop for that axis."""
    found, _ = find_block(schedule.func, block)
    if found.init is None:
        return f"{block}_init{loop.removeprefix(block)}"
    schedule.decompose_reduction(block, loop)
    return f"{loop}_init"
