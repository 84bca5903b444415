"""The published static-allocation instances: all solvable within 1,048,576 bytes, none easily.

The quick ones run always; all are the regression suite of the exact solver. Work is limited by
placements, not by time.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from minimalloc_csv import read_csv

from edgec.errors import PlanError
from edgec.memory.check import check_plan
from edgec.memory.problem import Problem
from edgec.memory.solve import plan_memory

REPO = Path(__file__).resolve().parents[3]
FOLDER = Path(os.environ.get("EDGEC_SHARED", REPO.parent / "shared")) / "data" / "minimalloc"
CAPACITY = 1_048_576
#: Placements, of which a core tries 10,000 a second: what our search needs, and a quarter more.
NODES = {
    "A": 250, "B": 300, "C": 1_200, "D": 40_000, "E": 360_000, "F": 40_000, "G": 42_000,
    "H": 18_000, "I": 620_000, "J": 600, "K": 60_000,
}  # fmt: skip
QUICK = "ABCHJ"


def instance(letter: str) -> Problem:
    path = FOLDER / f"{letter}.{CAPACITY}.csv"
    if not path.exists():
        pytest.skip(f"no sample data: {path} is absent")
    return read_csv(path, CAPACITY)


def solve(letter: str) -> None:
    problem = instance(letter)
    plan = plan_memory(problem, node_limit=NODES[letter])
    check_plan(problem, plan.offsets, plan.region_of)
    assert plan.peak_bytes["arena"] <= CAPACITY


@pytest.mark.parametrize("letter", QUICK)
def test_quick_instances(letter: str) -> None:
    solve(letter)


@pytest.mark.full
@pytest.mark.parametrize("letter", sorted(set(NODES) - set(QUICK)))
def test_slow_instances(letter: str) -> None:
    solve(letter)


def test_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,lower,upper,size,alignment\nx,0,3,10,4\ny,2,5,20,\n", encoding="utf-8")
    problem = read_csv(path, 64)
    assert [(b.name, b.start, b.stop, b.size_bytes, b.align_bytes) for b in problem.buffers] == [
        ("x", 0, 3, 10, 4),
        ("y", 2, 5, 20, 1),
    ]
    assert problem.region("arena").capacity_bytes == 64


@pytest.mark.parametrize("text", ["id,lower,upper\nx,0,1\n", "id,lower,upper,size\nx,0,1,many\n"])
def test_broken_files_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match="cannot read the placement problem"):
        read_csv(path, 64)
    with pytest.raises(PlanError, match="cannot read"):
        read_csv(tmp_path / "absent.csv", 64)
