"""The proof that comes with a plan: peak, lower bound, gap, and the buffers live at the peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from edgec.memory.problem import Buffer, Problem


@dataclass(frozen=True)
class RegionCertificate:
    """The proof for one region.

    No plan that keeps the same buffers in this region has a peak below `lower_bound_bytes`.
    `proof` says why: "live bytes" (they are live together), "search" (every arrangement was
    excluded), or "open" where peak and bound differ. `live_at_peak` lists (buffer, bytes) at
    step `peak_step`, the largest first.
    """

    region: str
    peak_bytes: int
    lower_bound_bytes: int
    proof: str
    peak_step: int
    live_at_peak: tuple[tuple[str, int], ...]

    @property
    def gap_bytes(self) -> int:
        """Most bytes that a better plan could save."""
        return self.peak_bytes - self.lower_bound_bytes

    @property
    def is_optimal(self) -> bool:
        """Whether no plan can be smaller."""
        return self.gap_bytes == 0


@dataclass(frozen=True)
class Certificate:
    """The proofs of all regions, and the effort of the search: `nodes` placements tried.

    `cost` is the total cost of the choice of regions, in cycles; `is_cheapest`: no choice that fits
    costs less.
    """

    solver: str
    nodes: int
    regions: tuple[RegionCertificate, ...]
    cost: float = 0.0
    is_cheapest: bool = True

    @property
    def is_optimal(self) -> bool:
        """Whether every region's peak equals its lower bound."""
        return all(region.is_optimal for region in self.regions)

    def region(self, name: str) -> RegionCertificate:
        """Return the certificate of the region called `name`; raise KeyError if there is none."""
        for region in self.regions:
            if region.region == name:
                return region
        raise KeyError(name)

    @property
    def shown(self) -> tuple[RegionCertificate, ...]:
        """The regions that hold something; the first of all if none does."""
        return tuple(r for r in self.regions if r.peak_bytes) or self.regions[:1]

    def text(self) -> str:
        """Return a few lines for people."""
        lines = []
        for r in self.shown:
            verdict = (
                f"optimal, by {r.proof}"
                if r.is_optimal
                else f"gap {r.gap_bytes:,} bytes: best found within the time limit"
            )
            lines.append(
                f"{r.region}: peak {r.peak_bytes:,} bytes, "
                f"lower bound {r.lower_bound_bytes:,} ({verdict})"
            )
            if r.live_at_peak:
                live = ", ".join(f"{name} {size:,}" for name, size in r.live_at_peak)
                lines.append(f"  live at the peak (step {r.peak_step}): {live}")
        if len(self.shown) > 1:
            verdict = "the least" if self.is_cheapest else "the least that was found"
            lines.append(f"waiting for memories: about {round(self.cost):,} cycles, {verdict}")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """Return the same as plain values for JSON."""
        return {
            "solver": self.solver,
            "nodes": self.nodes,
            "optimal": self.is_optimal,
            "wait_cycles": round(self.cost),
            "cheapest_regions": self.is_cheapest,
            "regions": [
                {
                    "region": r.region,
                    "peak_bytes": r.peak_bytes,
                    "lower_bound_bytes": r.lower_bound_bytes,
                    "gap_bytes": r.gap_bytes,
                    "optimal": r.is_optimal,
                    "proof": r.proof,
                    "peak_step": r.peak_step,
                    "live_at_peak": [{"buffer": n, "bytes": s} for n, s in r.live_at_peak],
                }
                for r in self.shown
            ],
        }


def certify_region(
    problem: Problem,
    offsets: Mapping[str, int],
    region_of: Mapping[str, str],
    region: str,
    lower_bound_bytes: int,
    proof: str,
) -> RegionCertificate:
    """Measure one region of a plan and state its bounds."""
    inside = [b for b in problem.buffers if region_of[b.name] == region and b.size_bytes]
    peak = max((offsets[b.name] + b.size_bytes for b in inside), default=0)
    # The step with the most live bytes among the steps of the buffers that reach the peak.
    tops = [b for b in inside if offsets[b.name] + b.size_bytes == peak]
    starts = {b.start for b in inside}
    steps = {t for top in tops for t in starts.intersection(range(top.start, top.stop))}
    live_bytes = _live_bytes(inside)
    step = max(steps, key=lambda t: (live_bytes[t], -t), default=0)
    live = [(b.name, b.size_bytes) for b in inside if b.start <= step < b.stop]
    return RegionCertificate(
        region=region,
        peak_bytes=peak,
        lower_bound_bytes=lower_bound_bytes,
        proof=proof if lower_bound_bytes == peak else "open",
        peak_step=step,
        live_at_peak=tuple(sorted(live, key=lambda item: (-item[1], item[0]))),
    )


def _live_bytes(buffers: Sequence[Buffer]) -> dict[int, int]:
    """Bytes that are live at each step at which a buffer starts or stops."""
    changes: dict[int, int] = {}
    for b in buffers:
        changes[b.start] = changes.get(b.start, 0) + b.size_bytes
        changes[b.stop] = changes.get(b.stop, 0) - b.size_bytes
    steps = sorted(changes)
    return dict(zip(steps, accumulate(changes[t] for t in steps), strict=True))
