"""storage_align: let the rows of a temporary start at multiples of a number of elements."""

from __future__ import annotations

from dataclasses import replace

from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.primitives.compute_at import require_temporary
from edgec.loop.primitives.lookup import find_buffer
from edgec.loop.rewrite import ReplaceBuffer


def storage_align(
    func: PrimFunc, buffer: str, dimension: int, factor: int
) -> tuple[PrimFunc, None]:
    """Round the extent of a temporary's dimension up to a multiple of `factor`.

        scratch t: int16[5, 27]        ->        scratch t: int16[5, 32]

    The same elements are used, at the same indices; the added ones are not. So a microkernel can
    rely on strides. `dimension` may count from the last, which is -1. Comes after `simplify`, which
    would remove the new elements again.
    """
    old = find_buffer(func, buffer)
    require_temporary("storage_align", buffer, old)
    if factor < 1 or not -len(old.shape) <= dimension < len(old.shape):
        raise ScheduleError(
            f"storage_align: {buffer} has no multiple of {factor} in dimension {dimension}"
        )
    shape = list(old.shape)
    shape[dimension] = -(-shape[dimension] // factor) * factor
    new = replace(old, shape=tuple(shape))
    return (
        PrimFunc(
            func.name,
            tuple(new if p == old else p for p in func.params),
            tuple(new if a == old else a for a in func.allocs),
            ReplaceBuffer({old: new}).stmt(func.body),
        ),
        None,
    )
