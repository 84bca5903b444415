"""A memory problem that contradicts itself is refused, with every fault named at once."""

from __future__ import annotations

import pytest

from edgec.errors import PlanError
from edgec.memory.problem import Buffer, Overlap, Problem, Region

GOOD = Buffer("x", 10, 0, 2)


@pytest.mark.parametrize(
    ("buffers", "overlaps", "words"),
    [
        ((GOOD, GOOD), (), "two buffers are called x"),
        ((Buffer("x", 10, 2, 2),), (), "x is never live"),
        ((Buffer("x", -1, 0, 2),), (), "x has a size of -1"),
        ((Buffer("x", 1, 0, 2, align_bytes=12),), (), "alignment 12 is not a power of two"),
        ((Buffer("x", 1, 0, 2, fixed_offset=8),), (), "fixed offset 8 is not a multiple of 16"),
        ((Buffer("x", 1, 0, 2, regions=()),), (), "x may live in no region"),
        ((Buffer("x", 1, 0, 2, regions=("moon",)),), (), "x names an unknown region moon"),
        ((GOOD,), (Overlap("x", "y", 0),), "overlap of x and y: no such pair"),
        ((GOOD,), (Overlap("x", "x", 0),), "no such pair"),
        (
            (GOOD, Buffer("y", 10, 0, 2)),
            (Overlap("x", "y", 0),),
            "x does not die in the step 0 that writes y",
        ),
        (
            (GOOD, Buffer("y", 10, 1, 3)),
            (Overlap("y", "x", 0),),
            "y does not die in the step 0 that writes x",
        ),
    ],
)
def test_faults_are_named(
    buffers: tuple[Buffer, ...], overlaps: tuple[Overlap, ...], words: str
) -> None:
    with pytest.raises(PlanError) as caught:
        Problem(buffers, overlaps)
    assert words in caught.value.render()


def test_all_faults_come_at_once() -> None:
    with pytest.raises(PlanError) as caught:
        Problem((Buffer("a", -1, 0, 1), Buffer("b", 1, 1, 0)), (), (Region("arena", -5),))
    assert len(caught.value.details) == 3


def test_names_are_looked_up() -> None:
    problem = Problem((GOOD,))
    assert problem.buffer("x") is GOOD
    assert problem.region("arena").capacity_bytes is None
    with pytest.raises(PlanError, match="no buffer is called y"):
        problem.buffer("y")
    with pytest.raises(PlanError, match="no region is called y"):
        problem.region("y")


def test_nothing_has_to_take_bytes() -> None:
    empty = Buffer("x", 0, 0, 2, fixed_offset=0)
    problem = Problem((empty, Buffer("y", 1, 0, 2, fixed_offset=32)), (), (Region("arena", 0),))
    assert problem.buffer("x") is empty and problem.region("arena").capacity_bytes == 0
    with pytest.raises(PlanError) as caught:
        Problem((Buffer("y", 1, 0, 2, fixed_offset=-16),))
    assert "fixed offset -16" in caught.value.render()


def test_a_region_costs_what_it_says_or_by_its_place() -> None:
    buffer = Buffer("x", 10, 0, 2, regions=("a", "b", "c"))
    assert [buffer.cost_in(name) for name in "abc"] == [0.0, 10.0, 20.0]
    dear = Buffer("x", 10, 0, 2, regions=("a", "b"), costs=(3.0, 1.5))
    assert [dear.cost_in(name) for name in "ab"] == [3.0, 1.5] and dear.cheapest == "b"
