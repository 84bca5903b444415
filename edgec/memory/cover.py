"""Choose variants of single groups and streaming segments, over the network.

A cover is a path of spans from the first group to the last. A span needs its bytes only at its own
step, so under a limit in bytes the fastest cover is a shortest path over the spans within the
limit, found exactly. Lowering the limit to just below what a cover needs, again and again, gives
the Pareto front of memory against instructions.

A span's bytes are a lower bound at first; chosen spans are planned, and the search is repeated if
they need more. So there are at most as many searches as spans, whose number is limited, and no
clock decides anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgec.memory.spans import Span, Spans


@dataclass(frozen=True)
class Cover:
    """Consecutive spans: the largest need of a span, and the sum of all instructions."""

    spans: tuple[Span, ...]
    need_bytes: int
    instructions: int


def pareto_front(spans: Spans) -> tuple[Cover, ...]:
    """Covers that no other beats in both memory and instructions, the fastest first."""
    front: list[Cover] = []
    limit: int | None = None
    while (cover := fastest_cover(spans, limit)) is not None:
        front.append(cover)
        if not cover.need_bytes:
            break  # nothing runs, or nothing of it lies in the arena
        limit = cover.need_bytes - 1
    return tuple(front)


def fastest_cover(spans: Spans, limit_bytes: int | None) -> Cover | None:
    """The fastest cover whose spans all stay within the limit; None if there is none."""
    while True:
        path = _shortest_path(spans, limit_bytes)
        if path is None:
            return None
        need = max((span.plan_alone() for span in path), default=0)
        if limit_bytes is None or need <= limit_bytes:
            return Cover(path, need, sum(span.instructions for span in path))


def _shortest_path(spans: Spans, limit_bytes: int | None) -> tuple[Span, ...] | None:
    count = len(spans.starting)
    # From each group to the end: (instructions and the price of code, need, first span).
    best: list[tuple[int, int, Span | None] | None] = [None] * count + [(0, 0, None)]
    for position in reversed(range(count)):
        for span in spans.starting[position]:
            rest = best[span.last + 1]
            if rest is None or (limit_bytes is not None and span.need_bytes > limit_bytes):
                continue
            found = (span.instructions + span.code + rest[0], max(span.need_bytes, rest[1]), span)
            known = best[position]
            if known is None or found[:2] < known[:2]:
                best[position] = found
    path: list[Span] = []
    position = 0
    while position < count:
        entry = best[position]
        if entry is None or entry[2] is None:
            return None
        path.append(entry[2])
        position = entry[2].last + 1
    return tuple(path)
