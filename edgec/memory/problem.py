"""The placement problem and its answer: buffers, permitted overlaps, regions, plan.

Time is counted in steps: one step is one emitted group. A buffer is live in the half-open
interval `[start, stop)`; the output of the group that runs at step t starts at t, an input that
the group is the last to read stops at t + 1, so both are live during step t.

A permitted overlap lets the output of a group share bytes with an input that dies there:

    address ->   0        off(second)      off(first)
                 |             |<-- distance -->|
    first  (input)                              [iiiiiiiiiiiiiiiiiiii)
    second (output)            [oooooooooooooooooooo)
                                                 ~~~~~ shared: by the time the group writes
                                                       these bytes it has read their old content

    allowed  <=>  off(second) + distance_bytes <= off(first)   (or the two share no byte)

`distance_bytes` 0 is "exactly in place, or lower"; negative: the output may start above the
input by up to -distance_bytes. The producer of the problem proves the distance from the access
functions; the planner only obeys it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgec.errors import PlanError

if TYPE_CHECKING:
    from edgec.memory.certificate import Certificate

DEFAULT_REGION = "arena"


@dataclass(frozen=True)
class Buffer:
    """One run of bytes that must exist during the steps `[start, stop)`.

    `regions` lists where it may live, the preferred one first, and `costs` the cost in each, in
    cycles; without costs, each region costs the buffer's bytes more than the one before.
    `align_bytes` is a power of two. `fixed_offset` fixes its offset in any region. A buffer of 0
    bytes is legal.
    """

    name: str
    size_bytes: int
    start: int
    stop: int
    align_bytes: int = 16
    regions: tuple[str, ...] = (DEFAULT_REGION,)
    fixed_offset: int | None = None
    costs: tuple[float, ...] = ()

    @property
    def cheapest(self) -> str:
        """The region that costs the least, of equals the first."""
        return min(self.regions, key=self.cost_in)

    def cost_in(self, region: str) -> float:
        at = self.regions.index(region)
        return self.costs[at] if self.costs else float(at * self.size_bytes)


@dataclass(frozen=True)
class Overlap:
    """`second` may share bytes with `first` if it starts `distance_bytes` below it, or lower.

    `first` is the input, `second` the output of one group; see the drawing above.
    """

    first: str
    second: str
    distance_bytes: int


@dataclass(frozen=True)
class Region:
    """A memory. With `capacity_bytes` None it is unbounded and its peak is minimized."""

    name: str
    capacity_bytes: int | None = None


@dataclass(frozen=True)
class Problem:
    """Buffers, permitted overlaps and regions; raises PlanError if they contradict each other."""

    buffers: tuple[Buffer, ...]
    overlaps: tuple[Overlap, ...] = ()
    regions: tuple[Region, ...] = (Region(DEFAULT_REGION),)

    def __post_init__(self) -> None:
        faults = [*_region_faults(self), *_buffer_faults(self), *_overlap_faults(self)]
        if faults:
            raise PlanError("the memory problem contradicts itself", details=tuple(faults))

    def buffer(self, name: str) -> Buffer:
        """Return the buffer called `name`; raise PlanError if there is none."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        raise PlanError(f"no buffer is called {name}")

    def region(self, name: str) -> Region:
        """Return the region called `name`; raise PlanError if there is none."""
        for region in self.regions:
            if region.name == name:
                return region
        raise PlanError(f"no region is called {name}")


@dataclass(frozen=True)
class Plan:
    """Offset and region of each buffer, peak of each region, and the proof."""

    offsets: Mapping[str, int]
    region_of: Mapping[str, str]
    peak_bytes: Mapping[str, int]
    certificate: Certificate


def _repeated(names: Iterable[str]) -> list[str]:
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _region_faults(problem: Problem) -> list[str]:
    faults = [
        f"two regions are called {name}" for name in _repeated(r.name for r in problem.regions)
    ]
    for region in problem.regions:
        if region.capacity_bytes is not None and region.capacity_bytes < 0:
            faults.append(f"region {region.name} has a capacity of {region.capacity_bytes} bytes")
    return faults


def _buffer_faults(problem: Problem) -> list[str]:
    faults = [
        f"two buffers are called {name}" for name in _repeated(b.name for b in problem.buffers)
    ]
    known = {region.name for region in problem.regions}
    for b in problem.buffers:
        if b.start >= b.stop:
            faults.append(f"buffer {b.name} is never live: [{b.start}, {b.stop})")
        if b.size_bytes < 0:
            faults.append(f"buffer {b.name} has a size of {b.size_bytes} bytes")
        if b.align_bytes < 1 or b.align_bytes & (b.align_bytes - 1):
            faults.append(f"buffer {b.name}: alignment {b.align_bytes} is not a power of two")
        elif b.fixed_offset is not None and (b.fixed_offset < 0 or b.fixed_offset % b.align_bytes):
            faults.append(
                f"buffer {b.name}: fixed offset {b.fixed_offset} is not a multiple of "
                f"{b.align_bytes}"
            )
        if not b.regions:
            faults.append(f"buffer {b.name} may live in no region")
        if b.costs and len(b.costs) != len(b.regions):
            faults.append(f"buffer {b.name} has {len(b.costs)} costs, {len(b.regions)} regions")
        for name in b.regions:
            if name not in known:
                faults.append(f"buffer {b.name} names an unknown region {name}")
    return faults


def _overlap_faults(problem: Problem) -> list[str]:
    faults = []
    by_name = {b.name: b for b in problem.buffers}
    for overlap in problem.overlaps:
        first, second = by_name.get(overlap.first), by_name.get(overlap.second)
        if first is None or second is None or first is second:
            faults.append(f"overlap of {overlap.first} and {overlap.second}: no such pair")
        elif first.start > second.start or first.stop > second.start + 1:
            # The input would be read again, or is written, after the output has destroyed it.
            faults.append(
                f"overlap of {first.name} and {second.name}: {first.name} does not die in the step "
                f"{second.start} that writes {second.name}"
            )
    return faults
