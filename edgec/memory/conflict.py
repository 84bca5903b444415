"""Why a region is too small: the smallest set of buffers found that alone does not fit."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.errors import PlanError
from edgec.memory.bound import instance_bound_bytes, section_bound_bytes
from edgec.memory.instance import make_instance
from edgec.memory.problem import Buffer, Overlap, Region
from edgec.memory.search import Search, Verdict
from edgec.memory.strategy import plain_strategies

# Enough for a conflict that people can read; a set that needs more stays a little too large.
_NODE_LIMIT = 500
_STRATEGIES = 2


def capacity_error(
    buffers: Sequence[Buffer],
    overlaps: Sequence[Overlap],
    region: Region,
    lower_bound_bytes: int,
    proof: str,
) -> PlanError:
    """Return the error for buffers that do not fit `region`, or were not made to fit in time.

    lower_bound_bytes: they need at least this.
    """
    assert region.capacity_bytes is not None
    capacity = region.capacity_bytes
    if lower_bound_bytes <= capacity:
        return PlanError(
            f"no plan for region {region.name} was found in time: its buffers need at least "
            f"{lower_bound_bytes:,} bytes of its {capacity:,}",
            details=_live_lines(_worst_set(buffers, overlaps)),
            hint="raise the time limit, or the capacity by a few percent",
        )
    conflict = irreducible_conflict(buffers, overlaps, capacity)
    what = f"region {region.name} has {capacity:,} bytes, its buffers need at least "
    return PlanError(
        what + f"{lower_bound_bytes:,}",
        details=(
            f"these {len(conflict)} buffers alone do not fit (proven by {proof}):",
            *_live_lines(conflict),
        ),
        hint="optimize for RAM, use a smaller input or model, or a board with more RAM",
    )


def irreducible_conflict(
    buffers: Sequence[Buffer], overlaps: Sequence[Overlap], capacity_bytes: int
) -> list[Buffer]:
    """Return buffers that do not fit together, but would without any one of them.

    Buffers are tried from the smallest to the largest. If a search would take too long, its buffer
    stays: the set still does not fit, but may be larger than necessary.
    """
    worst = _worst_set(buffers, overlaps)
    kept = worst if _cannot_fit(worst, overlaps, capacity_bytes) else list(buffers)
    for candidate in sorted(kept, key=lambda b: (b.size_bytes, b.name)):
        fewer = [b for b in kept if b is not candidate]
        if _cannot_fit(fewer, overlaps, capacity_bytes):
            kept = fewer
    return sorted(kept, key=lambda b: (-b.size_bytes, b.name))


def _worst_set(buffers: Sequence[Buffer], overlaps: Sequence[Overlap]) -> list[Buffer]:
    """Return the buffers live at the moment that needs the most bytes."""
    instance = make_instance(buffers, overlaps)
    if not instance.sections:
        return []
    worst = max(
        instance.sections, key=lambda s: section_bound_bytes(instance, s.members, s.weights)
    )
    return [instance.buffers[i] for i in worst.members]


def _cannot_fit(
    buffers: Sequence[Buffer], overlaps: Sequence[Overlap], capacity_bytes: int
) -> bool:
    instance = make_instance(buffers, overlaps)
    if instance_bound_bytes(instance) > capacity_bytes:
        return True
    if not instance.is_exact or not len(instance):
        return False
    search = Search(instance)
    return any(
        search.run(capacity_bytes, strategy, _NODE_LIMIT).verdict is Verdict.NONE
        for strategy in plain_strategies(instance, _STRATEGIES)
    )


def _live_lines(buffers: Sequence[Buffer]) -> tuple[str, ...]:
    return tuple(
        f"{b.name}: {b.size_bytes:,} bytes, live in steps {b.start} to {b.stop - 1}"
        + ("" if b.fixed_offset is None else f", fixed at {b.fixed_offset}")
        for b in sorted(buffers, key=lambda b: (-b.size_bytes, b.name))
    )
