"""The search finds plans exactly where they exist, with every strategy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.memory.instance import NEVER, Instance, make_instance
from edgec.memory.problem import Buffer, Overlap, Problem
from edgec.memory.search import Search, Verdict
from edgec.memory.solve import is_legal, plan_memory
from edgec.memory.strategy import Breeder, plain_strategies


@st.composite
def dense_problems(draw: st.DrawFn) -> list[Buffer]:
    """Few steps and sizes, so that equal buffers, full sections and dead ends are common."""
    count = draw(st.integers(4, 9))
    buffers = []
    for i in range(count):
        start = draw(st.integers(0, 5))
        stop = start + draw(st.integers(1, 3))
        buffers.append(Buffer(f"b{i}", draw(st.integers(1, 4)), start, stop, align_bytes=1))
    return buffers


@settings(max_examples=40, deadline=None)
@given(dense_problems())
def test_all_strategies_agree(buffers: list[Buffer]) -> None:
    peak = plan_memory(Problem(tuple(buffers)), time_limit_s=30).peak_bytes["arena"]
    instance = make_instance(buffers, ())
    search = Search(instance)
    plain = plain_strategies(instance)
    breeder = Breeder(plain)
    for strategy in [*plain, *(breeder.make() for _ in range(4))]:
        found = search.run(peak, strategy, 100_000)
        assert found.verdict is Verdict.FOUND
        assert found.offsets is not None and is_legal(instance, found.offsets)
        assert search.run(peak - 1, strategy, 100_000).verdict is Verdict.NONE


def test_node_limit_is_an_answer() -> None:
    buffers = [Buffer(f"b{i}", 3 + i % 3, i % 4, i % 4 + 2, align_bytes=1) for i in range(12)]
    instance = make_instance(buffers, ())
    strategy = plain_strategies(instance)[0]
    result = Search(instance).run(1_000, strategy, node_limit=3)
    assert result.verdict is Verdict.GAVE_UP and result.offsets is None


def test_strategies_are_the_same_every_time() -> None:
    plain = plain_strategies(nine_buffers())
    breeders = Breeder(plain), Breeder(plain)
    for waiting in range(80, 0, -1):
        one, other = (breeder.make() for breeder in breeders)
        assert one.name == other.name and (one.rank == other.rank).all()
        for breeder in breeders:
            breeder.learn(one if breeder is breeders[0] else other, waiting)


def test_what_came_furthest_is_changed_further() -> None:
    plain = plain_strategies(nine_buffers())
    breeder = Breeder(plain)
    for strategy in plain:
        breeder.learn(strategy, 9)
    made = breeder.make()
    assert any((made.rank != strategy.rank).any() for strategy in plain)
    breeder.learn(made, 2)
    best = np.log(made.keys[0])
    # Half of the changes are small ones, and the best one is taken for a sixth of them.
    near = [np.abs(np.log(breeder.make().keys[0]) - best).max() < 0.3 for _ in range(200)]
    assert 5 < sum(near) < 100


def nine_buffers() -> Instance:
    return make_instance([Buffer(f"b{i}", i + 1, i, i + 3) for i in range(9)], ())


def test_search_says_how_near_it_came() -> None:
    buffers = [Buffer(f"b{i}", 4, 0, 1, align_bytes=4) for i in range(5)]
    instance = make_instance(buffers, ())
    search = Search(instance)
    strategy = plain_strategies(instance)[0]
    assert search.run(20, strategy, 100).waiting == 0
    # Three were placed.
    assert search.run(20, strategy, 3).waiting == 2
    assert search.run(8, strategy, 100).waiting == 5


def test_separations_of_an_overlap() -> None:
    buffers = [Buffer("x", 64, 0, 1), Buffer("y", 48, 0, 2), Buffer("z", 32, 1, 2)]
    instance = make_instance(buffers, [Overlap("x", "y", 20)])
    x, y, z = 0, 1, 2
    assert instance.granule == 16
    assert instance.sep[y, x] == 2  # 20 bytes, rounded up
    assert instance.sep[x, y] == 4 and instance.sep[y, z] == 3
    assert instance.sep[x, z] == NEVER


@pytest.mark.parametrize("distance", [0, -16, -32])
def test_coordinate_makes_all_separations_positive(distance: int) -> None:
    buffers = [Buffer(f"v{i}", 64, max(0, i - 1), i + 1) for i in range(6)]
    overlaps = [Overlap(f"v{i}", f"v{i + 1}", distance) for i in range(5)]
    instance = make_instance(buffers, overlaps)
    assert instance.is_exact
    shift = instance.shift
    scaled = instance.sep * instance.scale + shift[None, :] - shift[:, None]
    assert (scaled[instance.sep > NEVER] >= 1).all()


def test_impossible_coordinate_is_said() -> None:
    """Overlaps both ways within one step, so generous that "below" would go in circles."""
    names = "abc"
    buffers = [Buffer(n, 16, 0, 1, align_bytes=1) for n in names]
    overlaps = [Overlap("a", "b", 0), Overlap("b", "c", 0), Overlap("c", "a", 0)]
    instance = make_instance(buffers, overlaps)
    assert not instance.is_exact
    assert (instance.sep[instance.sep > NEVER] >= 1).all()
    plan = plan_memory(Problem(tuple(buffers), tuple(overlaps)), time_limit_s=1)
    assert np.all([plan.peak_bytes["arena"] <= 48])
