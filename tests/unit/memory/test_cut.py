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


def test_flow_is_sent_back_where_that_is_cheaper() -> None:
    """The first path takes the middle edge; the cheapest cut needs part of it back."""
    edges = [
        (SOURCE, "a", 1), (SOURCE, "b", 1), ("a", "c", 1), ("b", "c", 1), ("a", "d", 1),
        ("c", SINK, 1), ("d", SINK, 1),
    ]  # fmt: skip
    assert cheapest_cut(edges) == {SOURCE}
    assert cheapest_cut([(SOURCE, "a", 2), ("a", SINK, 1), ("a", SINK, 2)]) == {SOURCE}
    assert cheapest_cut([(SOURCE, "a", 4), ("a", SINK, 1), ("a", SINK, 2)]) == {SOURCE, "a"}
    # Where several cost the same, the side of the source is the smallest.
    assert cheapest_cut([(SOURCE, "a", 3), ("a", SINK, 3)]) == {SOURCE}


@pytest.mark.parametrize("seed", range(200))
def test_no_cut_of_many_nodes_is_cheaper(seed: int) -> None:
    """Layers with edges across and back, where paths must be undone."""
    rng = random.Random(1000 + seed)
    inner = list(range(8))
    pairs = [(a, b) for a in (SOURCE, *inner) for b in (*inner, SINK) if a != b]
    edges = [(a, b, rng.randint(1, 4)) for a, b in rng.sample(pairs, 22)]
    every = (
        cost(edges, frozenset([SOURCE, *some]))
        for count in range(len(inner) + 1)
        for some in itertools.combinations(inner, count)
    )
    assert cost(edges, cheapest_cut(edges)) == min(every)
