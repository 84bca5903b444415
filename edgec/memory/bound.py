"""Lower bounds of the peak: no plan can be smaller, whatever solver made it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from edgec.memory.instance import Instance, make_instance
from edgec.memory.problem import Buffer, Overlap


def lower_bound_bytes(buffers: Sequence[Buffer], overlaps: Sequence[Overlap] = ()) -> int:
    """Return a lower bound of the bytes that these buffers, all in one region, need in every legal
    plan.

    The maximum over time of the live bytes, including alignment padding, minus the most that
    permitted overlaps can save at that step. Exact for steps whose buffers may overlap only one of
    them.
    """
    instance = make_instance(buffers, overlaps)
    return max(instance_bound_bytes(instance), stacks_bound_bytes(buffers, overlaps))


def live_bytes(buffers: Sequence[Buffer]) -> int:
    """Return the largest sum of sizes live at one step: the bound without overlap and padding."""
    starts = {b.start for b in buffers}
    return max(
        (sum(b.size_bytes for b in buffers if b.start <= t < b.stop) for t in starts), default=0
    )


def apart_bytes(buffers: Sequence[Buffer]) -> int | None:
    """The bytes of buffers that are live at once, without overlaps: the last one ends unpadded.

    None where they have several alignments, or offsets are given.
    """
    aligns = {b.align_bytes for b in buffers}
    if len(aligns) != 1 or any(b.fixed_offset is not None for b in buffers):
        return None
    paddings = [-b.size_bytes % align for align in aligns for b in buffers]
    return sum(b.size_bytes for b in buffers) + sum(paddings) - max(paddings)


def stacked_bytes(buffers: Sequence[Buffer], overlaps: Sequence[Overlap]) -> int:
    """The bytes of buffers that are live at once, where all overlaps are with one buffer.

    Each that may overlap it must end below a line, relative to its start. To stack them in the
    order of these lines is best (as jobs by their due dates); the others lie apart.
    """
    align = min(b.align_bytes for b in buffers)
    sizes = {b.name: -(-b.size_bytes // align) * align for b in buffers}
    first = overlaps[0].first
    lines = sorted((sizes[o.second] - o.distance_bytes, sizes[o.second]) for o in overlaps)
    stacked, start = 0, 0
    for line, size in lines:
        stacked += size
        start = max(start, -(-(stacked - line) // align) * align)
    apart = set(sizes) - {o.second for o in overlaps} - {first}
    return max(start + sizes[first], stacked) + sum(sizes[name] for name in apart)


def stacks_bound_bytes(buffers: Sequence[Buffer], overlaps: Sequence[Overlap]) -> int:
    """Return the exact bytes of steps whose buffers may overlap only one of them."""
    bound = 0
    by_name = {b.name: b for b in buffers}
    known = [
        o
        for o in overlaps
        if o.first in by_name
        and o.second in by_name
        and o.distance_bytes < by_name[o.second].size_bytes
    ]
    beginning: dict[str, list[Overlap]] = {}
    for o in known:
        beginning.setdefault(o.second, []).append(o)
    live: dict[str, Buffer] = {}
    for step, starting in groupby(sorted(buffers, key=lambda b: b.start), key=lambda b: b.start):
        live = {name: b for name, b in live.items() if b.stop > step}
        live |= {b.name: b for b in starting}
        permitted = [o for name in live for o in beginning.get(name, ()) if o.first in live]
        firsts, seconds = ({getattr(o, k) for o in permitted} for k in ("first", "second"))
        if len(firsts) == 1 and len(seconds) == len(permitted):
            align = min(b.align_bytes for b in live.values())
            padding = max(-b.size_bytes % align for b in live.values())
            bound = max(bound, stacked_bytes(tuple(live.values()), permitted) - padding)
    return bound


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
