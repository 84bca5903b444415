"""OR-Tools' CP-SAT finds no smaller plan than our own search."""

from __future__ import annotations

import itertools
import random

import pytest
from cp_sat import solve_with_cp_sat

from edgec.errors import PlanError
from edgec.memory.instance import make_instance
from edgec.memory.problem import Buffer, Overlap, Problem, Region
from edgec.memory.solve import is_legal, plan_memory


def drawn(seed: int) -> Problem:
    """Buffers of a network with branches, some of which may overlap."""
    draw = random.Random(seed)
    buffers = [
        Buffer(f"b{step}", 4 * draw.randrange(1, 400), step, step + draw.randrange(1, 5), 4)
        for step in range(14)
    ]
    overlaps = [
        Overlap(a.name, b.name, 4 * draw.randrange(-20, 60))
        for a, b in itertools.pairwise(buffers)
        if a.stop == b.start + 1 and draw.random() < 0.6
    ]
    return Problem(tuple(buffers), tuple(overlaps))


@pytest.mark.parametrize("seed", range(6))
def test_cp_sat_agrees_with_our_own_search(seed: int) -> None:
    problem = drawn(seed)
    instance = make_instance(problem.buffers, problem.overlaps)
    found, proven = solve_with_cp_sat(instance, 0)
    assert found is not None and is_legal(instance, found)
    own = plan_memory(problem)
    assert own.certificate.is_optimal
    assert own.peak_bytes["arena"] == instance.peak_bytes(found) == proven


def test_cp_sat_proves_that_nothing_fits() -> None:
    problem = drawn(3)
    peak = plan_memory(problem).peak_bytes["arena"]
    instance = make_instance(problem.buffers, problem.overlaps)
    found, proven = solve_with_cp_sat(instance, 0, peak - 4)
    assert found is None and proven > peak - 4
    with pytest.raises(PlanError, match="region arena has"):
        plan_memory(Problem(problem.buffers, problem.overlaps, (Region("arena", peak - 4),)))
