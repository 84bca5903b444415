"""The cheapest cut of a graph, against every cut there is."""

from __future__ import annotations

import itertools
import random

import pytest

from edgec.memory.cut import NEVER, SINK, SOURCE, cheapest_cut


def cost(edges: list[tuple[object, object, int]], side: frozenset[object]) -> int:
    return sum(c for start, stop, c in edges if start in side and stop not in side)


@pytest.mark.parametrize("seed", range(20))
def test_no_cut_is_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    inner = list(range(6))
    nodes: list[object] = [SOURCE, SINK, *inner]
    edges: list[tuple[object, object, int]] = [
        (*rng.sample(nodes, 2), rng.choice([1, 2, 5, 9, 30])) for _ in range(25)
    ]
    found = cheapest_cut(edges)
    assert SOURCE in found and SINK not in found
    every = (
        cost(edges, frozenset([SOURCE, *some]))
        for count in range(len(inner) + 1)
        for some in itertools.combinations(inner, count)
    )
    assert cost(edges, found) == min(every)


def test_what_is_never_cut_stays_together() -> None:
    edges = [(SOURCE, "a", 5), ("a", "b", NEVER), ("b", SINK, 3), ("b", "c", 1), ("c", SINK, 9)]
    assert cheapest_cut(edges) == {SOURCE, "a", "b"}
