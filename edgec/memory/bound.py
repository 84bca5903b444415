"""Lower bounds of the peak: no plan can be smaller, whatever solver made it."""

from __future__ import annotations

from collections.abc import Sequence

from edgec.memory.instance import Instance, make_instance
from edgec.memory.problem import Buffer, Overlap


def lower_bound_bytes(buffers: Sequence[Buffer], overlaps: Sequence[Overlap] = ()) -> int:
    """Return bytes that these buffers, all in one region, need in every legal plan.

    The largest, over time, of the live bytes less what the permitted overlaps of buffers live
    at that moment can save at most; alignment padding between buffers included.
    """
    return instance_bound_bytes(make_instance(buffers, overlaps))


def live_bytes(buffers: Sequence[Buffer]) -> int:
    """Return the largest sum of sizes live at one step: the bound without overlap and padding."""
    starts = {b.start for b in buffers}
    return max(
        (sum(b.size_bytes for b in buffers if b.start <= t < b.stop) for t in starts), default=0
    )


def instance_bound_bytes(instance: Instance) -> int:
    """Return the same for a translated problem."""
    bound = 0
    for i, low in enumerate(instance.lo.tolist()):
        bound = max(bound, low * instance.granule + int(instance.size_bytes[i]))
    for section in instance.sections:
        bound = max(bound, section_bound_bytes(instance, section.members, section.weights))
    return bound


def section_bound_bytes(
    instance: Instance, members: tuple[int, ...], weights: tuple[int, ...]
) -> int:
    """Return the bytes that one section's stack needs.

    Offsets are whole granules, so every buffer but the highest takes whole granules.
    """
    padding = [
        int(instance.size[i]) * instance.granule - int(instance.size_bytes[i]) for i in members
    ]
    return max(0, sum(weights) * instance.granule - max(padding))
