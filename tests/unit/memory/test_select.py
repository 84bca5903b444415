"""Variants are chosen for the whole memory problem, not group by group."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import PlanError
from edgec.memory.problem import Buffer, Overlap, Problem, Region
from edgec.memory.select import BALANCED_SLOWDOWN, Choice, Menu, select_variants
from edgec.memory.solve import plan_memory

BUFFERS = (
    Buffer("x", 1000, 0, 1),
    Buffer("a", 1000, 0, 2),
    Buffer("y", 200, 1, 3),
)
SLOW, FAST = Choice(0, 100), Choice(512, 50)
MENUS = (Menu(0, "scratch.0", (FAST, SLOW)), Menu(1, "scratch.1", (FAST, SLOW)))


def test_time_takes_the_fastest() -> None:
    selection = select_variants(MENUS, BUFFERS, "time")
    assert selection.indices == (0, 0) and selection.instructions == 100


def test_ram_takes_fast_where_it_is_free() -> None:
    """At step 1 there is room for the scratch below the peak of step 0."""
    selection = select_variants(MENUS, BUFFERS, "ram")
    assert selection.indices == (1, 0)
    assert selection.plan.peak_bytes["arena"] == selection.lower_bound_bytes == 2008


def test_balanced_gives_no_more_time_than_allowed() -> None:
    menus = (
        Menu(0, "scratch.0", (Choice(512, 1000), Choice(0, 1020))),
        Menu(1, "scratch.1", (Choice(4096, 1000), Choice(0, 2000))),
    )
    selection = select_variants(menus, BUFFERS, "balanced")
    assert selection.indices[1] == 0  # twice the time of a step is too much
    assert selection.instructions <= BALANCED_SLOWDOWN * 2000


def test_size_takes_the_least_code() -> None:
    menus = (Menu(0, "scratch.0", (Choice(0, 1, 90), Choice(64, 2, 40))),)
    assert select_variants(menus, BUFFERS, "size").indices == (1,)


def test_overlap_of_a_variant_counts() -> None:
    in_place = Choice(0, 80, overlaps=(Overlap("x", "a", 0),))
    menus = (Menu(0, "scratch.0", (FAST, in_place)),)
    selection = select_variants(menus, BUFFERS, "ram")
    assert selection.indices == (1,)
    assert selection.plan.peak_bytes["arena"] == 1208


def test_capacity_comes_before_speed() -> None:
    tight = (Region("arena", 2100),)
    assert select_variants(MENUS, BUFFERS, "time", regions=tight).indices == (1, 0)
    assert select_variants(MENUS, BUFFERS, "balanced", regions=tight).indices == (1, 0)
    with pytest.raises(PlanError, match="arena has 1,000"):
        select_variants(MENUS, BUFFERS, "time", regions=(Region("arena", 1000),))


@st.composite
def menus_and_buffers(draw: st.DrawFn) -> tuple[list[Menu], list[Buffer]]:
    steps = draw(st.integers(1, 4))
    buffers = [Buffer("v0", 16 * draw(st.integers(1, 6)), 0, 1)]
    menus = []
    for t in range(steps):
        stop = min(steps, t + 1 + draw(st.integers(1, 2)))
        name = f"v{t + 1}"
        buffers.append(Buffer(name, 16 * draw(st.integers(1, 6)), t, max(stop, t + 1)))
        dying = [b.name for b in buffers if b.stop == t + 1 and b.start < t]
        choices = []
        for _ in range(draw(st.integers(1, 3))):
            overlaps = tuple(
                Overlap(d, name, 16 * draw(st.integers(0, 4))) for d in dying if draw(st.booleans())
            )
            choices.append(
                Choice(16 * draw(st.integers(0, 4)), draw(st.integers(1, 50)), 0, overlaps)
            )
        menus.append(Menu(t, f"scratch.{t}", tuple(choices)))
    return menus, buffers


@settings(max_examples=60, deadline=None)
@given(menus_and_buffers())
def test_ram_equals_enumeration(case: tuple[list[Menu], list[Buffer]]) -> None:
    menus, buffers = case
    peaks = []
    for choice in itertools.product(*(m.choices for m in menus)):
        all_buffers = [*buffers]
        overlaps: list[Overlap] = []
        for menu, c in zip(menus, choice, strict=True):
            all_buffers += menu.buffers(c)
            overlaps += c.overlaps
        plan = plan_memory(Problem(tuple(all_buffers), tuple(overlaps)))
        peaks.append((plan.peak_bytes["arena"], sum(c.instructions for c in choice)))
    selection = select_variants(menus, buffers, "ram")
    assert (selection.plan.peak_bytes["arena"], selection.instructions) == min(peaks)


def test_a_slower_variant_can_lie_better() -> None:
    """By live bytes the scratch of the first costs nothing; where it lies, it does."""
    buffers = [
        Buffer("v0", 48, 0, 1), Buffer("v1", 16, 0, 3), Buffer("v2", 80, 1, 3),
        Buffer("v3", 48, 2, 3),
    ]  # fmt: skip
    menus = [
        Menu(0, "scratch.0", (Choice(64, 1), Choice(0, 2))),
        Menu(1, "scratch.1", (Choice(0, 1),)),
        Menu(
            2, "scratch.2", (Choice(16, 1, 0, (Overlap("v1", "v3", 16), Overlap("v2", "v3", 32))),)
        ),
    ]
    test_ram_equals_enumeration.hypothesis.inner_test((menus, buffers))  # type: ignore[attr-defined]
