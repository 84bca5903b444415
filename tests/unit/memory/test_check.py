"""The checker refuses every kind of broken plan, and names the buffers."""

from __future__ import annotations

import pytest

from edgec.errors import PlanError
from edgec.memory.check import check_plan
from edgec.memory.problem import Buffer, Overlap, Problem, Region

X = Buffer("x", 100, 0, 2)
Y = Buffer("y", 50, 1, 3)
HERE = {"x": "arena", "y": "arena"}


def problem(*overlaps: Overlap, capacity: int | None = 400, y: Buffer = Y) -> Problem:
    return Problem((X, y), overlaps, (Region("arena", capacity), Region("other", None)))


def test_legal_plans_pass() -> None:
    check_plan(problem(), {"x": 0, "y": 112}, HERE)
    check_plan(problem(), {"x": 64, "y": 0}, HERE)
    check_plan(problem(y=Buffer("y", 50, 2, 3)), {"x": 0, "y": 0}, HERE)


@pytest.mark.parametrize(
    ("offsets", "region_of", "words"),
    [
        ({"x": 0, "y": 96}, HERE, r"x and y are live together and share bytes \[96, 100\)"),
        ({"x": 0, "y": 120}, HERE, "y at 120 is not aligned to 16"),
        ({"x": -16, "y": 112}, HERE, "x at -16"),
        ({"x": 0, "y": 352}, HERE, "y ends at 402, arena at 400"),
        ({"x": 0}, HERE, "exactly the problem's buffers"),
        ({"x": 0, "y": 112, "z": 0}, HERE, "exactly the problem's buffers"),
        ({"x": 0, "y": 112}, {"x": "arena", "y": "other"}, "y is placed in region other"),
        ({"x": 0, "y": 112}, {"x": "arena"}, "y is placed in region None"),
    ],
)
def test_broken_plans_are_refused(
    offsets: dict[str, int], region_of: dict[str, str], words: str
) -> None:
    with pytest.raises(PlanError, match=words):
        check_plan(problem(), offsets, region_of)


def test_pin_must_hold() -> None:
    pinned = problem(y=Buffer("y", 50, 1, 3, fixed_offset=112))
    check_plan(pinned, {"x": 0, "y": 112}, HERE)
    with pytest.raises(PlanError, match="y is at 128 but fixed at 112"):
        check_plan(pinned, {"x": 0, "y": 128}, HERE)


def test_overlap_needs_its_distance() -> None:
    allowed = problem(Overlap("x", "y", 16))
    check_plan(allowed, {"x": 16, "y": 0}, HERE)
    check_plan(allowed, {"x": 32, "y": 0}, HERE)
    with pytest.raises(PlanError, match="x and y"):
        check_plan(allowed, {"x": 0, "y": 0}, HERE)
    with pytest.raises(PlanError, match="x and y"):  # the other way round is not allowed
        check_plan(allowed, {"x": 0, "y": 16}, HERE)


def test_negative_distance_has_a_limit() -> None:
    allowed = problem(Overlap("x", "y", -32))
    check_plan(allowed, {"x": 0, "y": 32}, HERE)
    with pytest.raises(PlanError, match="x and y"):
        check_plan(allowed, {"x": 0, "y": 48}, HERE)


def test_different_regions_do_not_meet() -> None:
    free = Problem(
        (X, Buffer("y", 50, 1, 3, regions=("other",))),
        (),
        (Region("arena", 400), Region("other", None)),
    )
    check_plan(free, {"x": 0, "y": 0}, {"x": "arena", "y": "other"})


def test_empty_buffer_takes_no_room() -> None:
    check_plan(problem(y=Buffer("y", 0, 1, 3)), {"x": 0, "y": 16}, HERE)
    check_plan(problem(y=Buffer("y", 0, 1, 3)), {"x": 0, "y": 4096}, HERE)
