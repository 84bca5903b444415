"""The solver of the `plan` extra: the same plans as our own search, and loaded when asked for."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys

import pytest

from edgec.errors import PlanError
from edgec.memory.check import check_plan
from edgec.memory.problem import Buffer, Overlap, Problem, Region
from edgec.memory.solve import plan_memory


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
    pytest.importorskip("ortools", reason="the plan extra is not installed (edgec[plan])")
    problem = drawn(seed)
    theirs = plan_memory(problem, solver="cp_sat")
    check_plan(problem, theirs.offsets, theirs.region_of)
    own = plan_memory(problem)
    assert theirs.certificate.is_optimal and own.certificate.is_optimal
    assert theirs.peak_bytes == own.peak_bytes


def test_cp_sat_proves_that_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where our own search gets no time at all, CP-SAT has to find the plan and to exclude it."""
    pytest.importorskip("ortools", reason="the plan extra is not installed (edgec[plan])")
    import edgec.memory.solve as solve

    problem = drawn(3)
    peak = plan_memory(problem).peak_bytes["arena"]
    monkeypatch.setattr(solve, "_efforts", lambda instance: iter(()))
    found = plan_memory(problem, solver="cp_sat")
    assert found.peak_bytes["arena"] == peak
    with pytest.raises(PlanError, match="region arena has"):
        tight = Problem(problem.buffers, problem.overlaps, (Region("arena", peak - 4),))
        plan_memory(tight, solver="cp_sat")


def test_ortools_is_loaded_only_when_asked_for() -> None:
    code = "import sys, edgec.memory.solve, edgec.cli.build; sys.exit('ortools' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
