"""The cheapest cut of a directed graph between a source and a sink (Edmonds and Karp, 1972)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable

SOURCE, SINK = "source", "sink"
#: The capacity of an edge that is never cut.
NEVER = 1 << 60


def cheapest_cut(edges: Iterable[tuple[Hashable, Hashable, int]]) -> frozenset[Hashable]:
    """The nodes on SOURCE's side of a minimum cut.

    edges: (from, to, cost); costs of parallel edges are added. Of several minimum cuts, SOURCE's
    side is the smallest.
    """
    room: dict[Hashable, dict[Hashable, int]] = defaultdict(dict)
    for start, stop, cost in edges:
        room[start][stop] = room[start].get(stop, 0) + cost
        room[stop].setdefault(start, 0)
    while True:
        before = _reached(room)
        if SINK not in before:
            return frozenset(before)
        path: list[Hashable] = [SINK]
        while path[-1] != SOURCE:
            path.append(before[path[-1]])
        pairs = list(zip(path[1:], path, strict=False))
        flow = min(room[start][stop] for start, stop in pairs)
        for start, stop in pairs:
            room[start][stop] -= flow
            room[stop][start] += flow


def _reached(room: dict[Hashable, dict[Hashable, int]]) -> dict[Hashable, Hashable]:
    """The nodes that the source reaches where there is room, each with the one before."""
    before: dict[Hashable, Hashable] = {SOURCE: SOURCE}
    waiting: deque[Hashable] = deque([SOURCE])
    while waiting and SINK not in before:
        start = waiting.popleft()
        for stop, left in room[start].items():
            if left and stop not in before:
                before[stop] = start
                waiting.append(stop)
    return before
