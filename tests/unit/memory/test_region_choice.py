"""Which region each buffer lives in: the cheapest that fits, by brute force and by hand."""

from __future__ import annotations

import itertools
import random

import pytest

from edgec.errors import PlanError
from edgec.memory import regions as regions_module
from edgec.memory.bound import lower_bound_bytes
from edgec.memory.problem import Buffer, Overlap, Problem, Region
from edgec.memory.regions import assign_regions
from edgec.memory.solve import plan_memory

NAMES = ("fast", "slow")


def cheapest_by_hand(problem: Problem) -> float | None:
    """The least cost of all assignments whose live bytes fit."""
    best = None
    for choice in itertools.product(*(b.regions for b in problem.buffers)):
        for region in problem.regions:
            inside = [b for b, r in zip(problem.buffers, choice, strict=True) if r == region.name]
            need = lower_bound_bytes(inside, problem.overlaps)
            if region.capacity_bytes is not None and need > region.capacity_bytes:
                break
        else:
            cost = sum(b.cost_in(r) for b, r in zip(problem.buffers, choice, strict=True))
            best = cost if best is None else min(best, cost)
    return best


@pytest.mark.parametrize("seed", range(60))
def test_no_assignment_is_cheaper(seed: int) -> None:
    draw = random.Random(seed)
    buffers, overlaps = [], []
    for step in range(9):
        size = 16 * draw.randrange(1, 12)
        cost = float(draw.randrange(0, 1000))
        stop = step + draw.randrange(1, 4)
        buffers.append(Buffer(f"b{step}", size, step, stop, regions=NAMES, costs=(0.0, cost)))
    for first, second in itertools.pairwise(buffers):
        if first.stop == second.start + 1 and draw.random() < 0.7:
            overlaps.append(Overlap(first.name, second.name, draw.randrange(-32, 64)))
    capacity = 16 * draw.randrange(4, 25)
    regions = (Region("fast", capacity), Region("slow", draw.choice([None, capacity])))
    problem = Problem(tuple(buffers), tuple(overlaps), regions)
    found, least = assign_regions(problem), cheapest_by_hand(problem)
    if least is None:
        assert not found.is_exact
        return
    assert found.is_exact
    assert found.cost == least
    plan = plan_memory(problem)
    assert plan.certificate.cost >= least
    if plan.region_of == found.region_of:
        assert plan.certificate.is_cheapest


def test_the_limit_of_the_search_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(1)
    buffers = tuple(
        Buffer(f"b{i}", 16 * draw.randrange(1, 60), 0, 1, regions=NAMES,
               costs=(0.0, float(draw.randrange(1, 1000))))
        for i in range(40)
    )  # fmt: skip
    monkeypatch.setattr(regions_module, "NODE_LIMIT", 200)
    problem = Problem(buffers, (), (Region("fast", 4000), Region("slow", None)))
    found = assign_regions(problem)
    assert not found.is_exact
    assert sum(b.size_bytes for b in buffers if found.region_of[b.name] == "fast") <= 4000
    assert "the least that was found" in plan_memory(problem).certificate.text()


def test_a_pinned_buffer_that_does_not_fit_names_the_region() -> None:
    buffers = (
        Buffer("a", 600, 0, 2, regions=("slow",)),
        Buffer("b", 600, 1, 2, regions=NAMES, costs=(0.0, 9.0)),
    )
    with pytest.raises(PlanError, match="region slow has 500 bytes") as caught:
        plan_memory(Problem(buffers, (), (Region("fast", 1000), Region("slow", 500))))
    assert "a" in "\n".join(caught.value.details)


def test_costs_need_regions() -> None:
    with pytest.raises(PlanError) as caught:
        Problem((Buffer("a", 1, 0, 1, regions=NAMES, costs=(1.0,)),), (),
                (Region("fast"), Region("slow")))  # fmt: skip
    assert caught.value.details == ("buffer a has 1 costs, 2 regions",)
