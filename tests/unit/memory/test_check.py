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


def test_one_shared_byte_is_one_too_many() -> None:
    longer = Problem((Buffer("x", 97, 0, 2), Y), (), (Region("arena", 400),))
    check_plan(longer, {"x": 0, "y": 112}, HERE)
    with pytest.raises(PlanError, match=r"share bytes \[96, 97\)"):
        check_plan(longer, {"x": 0, "y": 96}, HERE)
    exact = Problem((Buffer("x", 96, 0, 2), Y), (), (Region("arena", 146),))
    check_plan(exact, {"x": 0, "y": 96}, HERE)  # to the last byte of the region, too
    small = Problem(exact.buffers, (), (Region("arena", 145),))
    with pytest.raises(PlanError, match="y ends at 146, arena at 145"):
        check_plan(small, {"x": 0, "y": 96}, HERE)


def test_of_two_permissions_the_wider_one_holds() -> None:
    for overlaps in ((16, 32), (32, 16)):
        twice = problem(*(Overlap("x", "y", distance) for distance in overlaps))
        check_plan(twice, {"x": 16, "y": 0}, HERE)
        with pytest.raises(PlanError, match="share bytes"):
            check_plan(twice, {"x": 0, "y": 0}, HERE)


def test_every_pair_is_compared() -> None:
    """Buffers in any order of their starts; those between do not hide a later one."""
    buffers = (Buffer("c", 16, 2, 4), Buffer("a", 16, 0, 3), Buffer("b", 16, 1, 2))
    region = (Region("arena", 64),)
    where = {"a": "arena", "b": "arena", "c": "arena"}
    check_plan(Problem(buffers, (), region), {"a": 0, "b": 16, "c": 16}, where)
    with pytest.raises(PlanError, match="a and c are live together"):
        check_plan(Problem(buffers, (), region), {"a": 0, "b": 16, "c": 0}, where)
    with pytest.raises(PlanError, match="a and b are live together"):
        check_plan(Problem(buffers, (), region), {"a": 16, "b": 16, "c": 32}, where)


def test_names_do_not_order_them() -> None:
    buffers = (Buffer("a", 16, 2, 4), Buffer("b", 16, 1, 2), Buffer("z", 16, 0, 3))
    where = {"a": "arena", "b": "arena", "z": "arena"}
    check_plan(Problem(buffers, (), (Region("arena"),)), {"a": 0, "b": 0, "z": 16}, where)


def test_the_permission_holds_for_whichever_starts_first() -> None:
    together = (Buffer("y", 50, 1, 3), Buffer("x", 100, 1, 2))
    both = Problem(together, (Overlap("x", "y", 16),), (Region("arena", 400),))
    check_plan(both, {"x": 16, "y": 0}, HERE)


def test_regions_are_apart() -> None:
    both = Problem(
        (X, Buffer("y", 50, 1, 3, regions=("arena", "other"))), (),
        (Region("arena", 400), Region("other", 0)),
    )  # fmt: skip
    with pytest.raises(PlanError, match="y ends at 50, other at 0"):
        check_plan(both, {"x": 0, "y": 0}, {"x": "arena", "y": "other"})
    roomy = Problem(both.buffers, (), (Region("arena", 400), Region("other", 50)))
    check_plan(roomy, {"x": 0, "y": 0}, {"x": "arena", "y": "other"})


def test_a_buffer_without_bytes_fits_everywhere() -> None:
    empty = Problem((X, Buffer("y", 0, 1, 3)), (), (Region("arena", 100),))
    check_plan(empty, {"x": 0, "y": 112}, HERE)
    check_plan(empty, {"x": 0, "y": 48}, HERE)


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
