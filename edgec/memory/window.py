"""Proofs that no plan fits, from a few consecutive sections alone.

A capacity is mostly impossible for local reasons: some consecutive buffers do not fit together. The
full search would prove that again for every arrangement of the rest. Leaving buffers out only makes
a problem easier, so if the buffers of a window of sections do not fit, nothing does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

from edgec.memory.instance import Instance, make_instance
from edgec.memory.problem import Overlap
from edgec.memory.search import Search, Verdict
from edgec.memory.strategy import Strategy, plain_strategies

_WIDTHS = (2, 3, 5, 8)
_WINDOWS_PER_WIDTH = 24


@dataclass
class _Window:
    """A part of the problem, and the smallest peak that a plan of it is known to have."""

    instance: Instance
    search: Search
    strategy: Strategy
    fits_in_bytes: int | None = None


class WindowProver:
    """Excludes capacities for one instance; remembers the capacity that each window fits in.

    nodes: placements that all its searches tried so far.
    """

    def __init__(self, instance: Instance, overlaps: Sequence[Overlap]) -> None:
        self.windows: list[_Window] = []
        self.nodes = 0
        sections = instance.sections
        seen: set[object] = set()
        for width in _WIDTHS:
            spans = [sections[at : at + width] for at in range(len(sections) - width + 1)]
            # The fullest windows first; of equally full ones the earlier.
            spans.sort(key=lambda span: -sum(sum(s.weights) for s in span))
            for span in spans[:_WINDOWS_PER_WIDTH]:
                members = sorted({m for section in span for m in section.members})
                shape = _shape(instance, members)
                if shape in seen or len(members) == len(instance):
                    continue
                seen.add(shape)
                part = make_instance([instance.buffers[m] for m in members], overlaps)
                if part.is_exact:
                    (strategy,) = plain_strategies(part, 1)
                    self.windows.append(_Window(part, Search(part), strategy))

    def excludes(
        self, capacity_bytes: int, node_limit: int, deadline_s: float, most_nodes: float = math.inf
    ) -> bool:
        """Return whether some window was proven not to fit; False if none was.

        Each window is searched by `node_limit` placements, until `nodes` is `most_nodes`.
        """
        for window in self.windows:
            if window.fits_in_bytes is not None and window.fits_in_bytes <= capacity_bytes:
                continue
            if time.process_time() > deadline_s or self.nodes >= most_nodes:
                return False
            result = window.search.run(capacity_bytes, window.strategy, node_limit, deadline_s)
            self.nodes += result.nodes
            if result.verdict is Verdict.NONE:
                return True
            if result.offsets is not None:
                window.fits_in_bytes = window.instance.peak_bytes(result.offsets)
        return False


def _shape(instance: Instance, members: Sequence[int]) -> object:
    """Return a key that is equal for windows with equal searches, such as equal layers'."""
    buffers = [instance.buffers[m] for m in members]
    begin = min(b.start for b in buffers)
    gaps = [[instance.gaps[a].get(b) for b in members] for a in members]
    return repr(
        [
            (b.size_bytes, b.align_bytes, b.start - begin, b.stop - begin, b.fixed_offset, of)
            for b, of in zip(buffers, gaps, strict=True)
        ]
    )
