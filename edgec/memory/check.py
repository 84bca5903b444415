"""The checker of memory plans: plain, every pair that is live at once, ignorant of solvers."""

from __future__ import annotations

from collections.abc import Mapping

from edgec.errors import PlanError
from edgec.memory.problem import Buffer, Problem


def check_plan(
    problem: Problem, plan_offsets: Mapping[str, int], region_of: Mapping[str, str]
) -> None:
    """Raise PlanError, naming the buffers, unless every rule of `problem` holds.

    plan_offsets: bytes from the start of the buffer's region. region_of: that region.
    """
    permitted: dict[tuple[str, str], int] = {}
    for o in problem.overlaps:
        pair = (o.first, o.second)
        permitted[pair] = min(o.distance_bytes, permitted.get(pair, o.distance_bytes))
    if set(plan_offsets) != {b.name for b in problem.buffers}:
        raise PlanError("the plan does not place exactly the problem's buffers")
    for b in problem.buffers:
        offset, region = plan_offsets[b.name], region_of.get(b.name)
        if region not in b.regions:
            raise PlanError(f"{b.name} is placed in region {region}, which it may not use")
        if offset < 0 or offset % b.align_bytes:
            raise PlanError(f"{b.name} at {offset} is not aligned to {b.align_bytes} bytes")
        if b.fixed_offset is not None and offset != b.fixed_offset:
            raise PlanError(f"{b.name} is at {offset} but fixed at {b.fixed_offset}")
        capacity = problem.region(region).capacity_bytes
        if capacity is not None and b.size_bytes and offset + b.size_bytes > capacity:
            raise PlanError(f"{b.name} ends at {offset + b.size_bytes}, {region} at {capacity}")

    def may_share(first: Buffer, second: Buffer) -> bool:
        distance = permitted.get((first.name, second.name))
        return distance is not None and (
            plan_offsets[second.name] + distance <= plan_offsets[first.name]
        )

    by_start = sorted(problem.buffers, key=lambda b: b.start)
    for i, a in enumerate(by_start):
        for j in range(i + 1, len(by_start)):
            b = by_start[j]
            if b.start >= a.stop:
                break
            if region_of[a.name] != region_of[b.name]:
                continue
            low = max(plan_offsets[a.name], plan_offsets[b.name])
            high = min(plan_offsets[a.name] + a.size_bytes, plan_offsets[b.name] + b.size_bytes)
            if low < high and not may_share(a, b) and not may_share(b, a):
                raise PlanError(
                    f"{a.name} and {b.name} are live together and share bytes [{low}, {high}) "
                    f"of {region_of[a.name]}"
                )
