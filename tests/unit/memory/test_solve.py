"""The exact planner against brute force, and what it says when nothing fits."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import PlanError
from edgec.memory import solve
from edgec.memory.bound import live_bytes, lower_bound_bytes
from edgec.memory.check import check_plan
from edgec.memory.greedy import greedy_peak_bytes
from edgec.memory.instance import make_instance
from edgec.memory.problem import Buffer, Overlap, Plan, Problem, Region
from edgec.memory.search import Search, SearchResult, Verdict
from edgec.memory.solve import plan_memory
from edgec.memory.window import WindowProver


@st.composite
def small_problems(draw: st.DrawFn) -> Problem:
    count = draw(st.integers(1, 5))
    buffers = []
    for i in range(count):
        start = draw(st.integers(0, 4))
        align = draw(st.sampled_from([1, 1, 2]))
        pin = draw(st.sampled_from([None] * 9 + [0, 2])) if i == 0 else None
        buffers.append(
            Buffer(
                f"b{i}",
                draw(st.integers(0, 6)),
                start,
                start + draw(st.integers(1, 4)),
                align_bytes=align,
                fixed_offset=pin,
            )
        )
    overlaps = []
    for a, b in itertools.permutations(buffers, 2):
        if a.start <= b.start and a.stop == b.start + 1 and draw(st.booleans()):
            overlaps.append(Overlap(a.name, b.name, draw(st.integers(-4, 6))))
    return Problem(tuple(buffers), tuple(overlaps))


def is_legal(problem: Problem, offsets: dict[str, int]) -> bool:
    try:
        check_plan(problem, offsets, {b.name: "arena" for b in problem.buffers})
    except PlanError:
        return False
    return True


def brute_force_peak(problem: Problem, highest: int) -> int:
    """The smallest peak, by depth-first trial of every offset up to `highest`."""
    best = highest
    buffers = problem.buffers

    def place(i: int, offsets: dict[str, int], peak: int) -> None:
        nonlocal best
        if peak >= best:
            return
        if i == len(buffers):
            best = peak
            return
        b = buffers[i]
        places = [b.fixed_offset] if b.fixed_offset is not None else range(0, best, b.align_bytes)
        for offset in places:
            partial = Problem(
                buffers[: i + 1],
                tuple(o for o in problem.overlaps if {o.first, o.second} <= {*offsets, b.name}),
            )
            here = {**offsets, b.name: offset}
            end = offset + b.size_bytes if b.size_bytes else 0
            if is_legal(partial, here):
                place(i + 1, here, max(peak, end))

    place(0, {}, 0)
    return best


@settings(max_examples=80, deadline=None)
@given(small_problems())
def test_peak_equals_brute_force(problem: Problem) -> None:
    plan = plan_memory(problem, time_limit_s=20)
    certificate = plan.certificate.regions[0]
    assert certificate.is_optimal
    assert plan.peak_bytes["arena"] == brute_force_peak(problem, plan.peak_bytes["arena"] + 1)
    assert lower_bound_bytes(problem.buffers, problem.overlaps) <= plan.peak_bytes["arena"]


@settings(max_examples=60, deadline=None)
@given(small_problems(), st.integers(0, 12))
def test_capacity_is_met_or_refused_rightly(problem: Problem, capacity: int) -> None:
    smallest = plan_memory(problem, time_limit_s=20).peak_bytes["arena"]
    bounded = Problem(problem.buffers, problem.overlaps, (Region("arena", capacity),))
    if smallest <= capacity:
        assert plan_memory(bounded, time_limit_s=20).peak_bytes["arena"] == smallest
    else:
        with pytest.raises(PlanError, match="arena has"):
            plan_memory(bounded, time_limit_s=20)


def chain(count: int, size: int = 1000) -> tuple[Buffer, ...]:
    sizes = [size * (1 + (i * 7) % 5) for i in range(count)]
    return tuple(Buffer(f"v{i}", s, max(0, i - 1), i + 1) for i, s in enumerate(sizes))


def test_chain_of_60_is_optimal_and_fast() -> None:
    problem = Problem(chain(60))
    started = time.perf_counter()
    plan = plan_memory(problem)
    assert time.perf_counter() - started < 1.0
    assert plan.certificate.is_optimal
    assert plan.peak_bytes["arena"] == lower_bound_bytes(problem.buffers)


def test_same_problem_gives_same_plan() -> None:
    assert plan_memory(Problem(chain(30))) == plan_memory(Problem(chain(30)))


def test_in_place_chain_needs_one_buffer() -> None:
    buffers = tuple(Buffer(f"v{i}", 1000, max(0, i - 1), i + 1) for i in range(8))
    overlaps = tuple(Overlap(f"v{i}", f"v{i + 1}", 0) for i in range(7))
    assert plan_memory(Problem(buffers, overlaps)).peak_bytes["arena"] == 1000


def test_row_overlap_lets_output_run_below_input() -> None:
    buffers = (Buffer("x", 1600, 0, 1), Buffer("y", 1600, 0, 2))
    plan = plan_memory(Problem(buffers, (Overlap("x", "y", 100),)))
    # 100 bytes are rounded up to the alignment of 16.
    assert plan.offsets["x"] - plan.offsets["y"] == 112
    assert plan.peak_bytes["arena"] == 1712


def test_negative_distance_lets_output_start_above_input() -> None:
    buffers = (
        Buffer("below", 64, 0, 2, fixed_offset=0),
        Buffer("x", 512, 0, 1, fixed_offset=64),
        Buffer("y", 128, 0, 2),
        Buffer("z", 64, 0, 2, fixed_offset=576),
    )
    plan = plan_memory(Problem(buffers, (Overlap("x", "y", -256),)))
    assert 64 <= plan.offsets["y"] <= 320
    assert plan.peak_bytes["arena"] == 640


def test_residual_input_is_not_shared_twice() -> None:
    """add(a, b) may take the place of a or of b, never less than both."""
    buffers = (Buffer("a", 1024, 0, 2), Buffer("b", 1024, 1, 2), Buffer("y", 1024, 1, 3))
    overlaps = (Overlap("a", "y", 0), Overlap("b", "y", 0))
    plan = plan_memory(Problem(buffers, overlaps))
    assert plan.peak_bytes["arena"] == 2048
    assert plan.certificate.regions[0].proof == "live bytes"


def test_zero_size_buffers_cost_nothing() -> None:
    buffers = (Buffer("none", 0, 0, 9), Buffer("x", 10, 0, 9))
    assert plan_memory(Problem(buffers)).peak_bytes == {"arena": 10}
    assert plan_memory(Problem((Buffer("none", 0, 0, 1),))).peak_bytes == {"arena": 0}
    assert plan_memory(Problem(())).peak_bytes == {"arena": 0}


def test_capacity_error_names_the_smallest_conflict() -> None:
    buffers = (
        Buffer("input", 600, 0, 2),
        Buffer("output", 500, 1, 3),
        Buffer("tiny", 16, 1, 2),
        Buffer("later", 700, 3, 4),
    )
    with pytest.raises(PlanError) as caught:
        plan_memory(Problem(buffers, (), (Region("arena", 1000),)))
    text = caught.value.render()
    assert "input: 600 bytes, live in steps 0 to 1" in text
    assert "output: 500 bytes, live in steps 1 to 2" in text
    assert "tiny" not in text and "later" not in text
    assert "1,000 bytes" in text and caught.value.hint


#: No more than 6 bytes are live at once, but no arrangement fits 6.
TIGHT = tuple(
    Buffer(name, size, start, stop, align_bytes=1)
    for name, size, start, stop in (
        ("a", 3, 0, 3), ("b", 2, 0, 2), ("c", 1, 1, 4), ("d", 1, 2, 4), ("e", 1, 2, 6),
        ("f", 2, 3, 6), ("g", 3, 4, 7), ("h", 3, 6, 8),
    )
)  # fmt: skip


def test_conflict_that_only_search_can_prove() -> None:
    plan = plan_memory(Problem(TIGHT))
    assert plan.peak_bytes["arena"] == brute_force_peak(Problem(TIGHT), 8) == 7
    assert live_bytes(TIGHT) == 6
    assert plan.certificate.regions[0].proof == "search"
    with pytest.raises(PlanError, match="arena has"):
        plan_memory(Problem(TIGHT, (), (Region("arena", live_bytes(TIGHT)),)))


# Searches that give up ----------------------------------------------------------------------------


@pytest.fixture
def gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """No search finds a plan or a proof; each takes 1,000 placements. Nothing is known before."""
    monkeypatch.setattr(solve, "_SOLVED", {})
    monkeypatch.setattr(
        Search, "run", lambda *_: SearchResult(Verdict.GAVE_UP, None, 1000, len(TIGHT))
    )


@pytest.mark.usefixtures("gives_up")
def test_nothing_is_proven_by_giving_up() -> None:
    plan = plan_memory(Problem(TIGHT), node_limit=20_000)
    (certificate,) = plan.certificate.regions
    assert certificate.lower_bound_bytes == live_bytes(TIGHT) < certificate.peak_bytes
    assert 0 < plan.certificate.nodes <= 20_000


@pytest.mark.usefixtures("gives_up")
def test_what_a_window_excludes_is_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    smallest = 7
    monkeypatch.setattr(
        WindowProver, "excludes", lambda _, capacity_bytes, *__: capacity_bytes < smallest
    )
    (certificate,) = plan_memory(Problem(TIGHT), node_limit=20_000).certificate.regions
    assert certificate.lower_bound_bytes == smallest


@pytest.mark.usefixtures("gives_up")
def test_no_plan_within_the_limit_is_an_error() -> None:
    tight = Problem(TIGHT, (), (Region("arena", live_bytes(TIGHT)),))
    with pytest.raises(PlanError, match="no plan for region arena was found"):
        plan_memory(tight, node_limit=20_000)


def test_where_separations_were_raised_the_search_ends_without_a_proof() -> None:
    """Distances below one another in a circle: what is searched leaves plans out."""
    buffers = tuple(
        Buffer(name, size, start, stop, align_bytes=1)
        for name, size, start, stop in (
            ("a", 5, 3, 5), ("b", 7, 2, 4), ("c", 3, 0, 2), ("d", 8, 3, 4), ("e", 1, 3, 6),
        )
    )  # fmt: skip
    overlaps = (
        Overlap("b", "a", -7), Overlap("b", "d", -5), Overlap("b", "e", -2), Overlap("d", "a", -7),
        Overlap("d", "e", -3),
    )  # fmt: skip
    assert not make_instance(buffers, overlaps).is_exact
    plan = plan_memory(Problem(buffers, overlaps), node_limit=100_000)
    assert not plan.certificate.is_optimal and plan.certificate.nodes < 1000


@pytest.fixture
def solved(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The limits of nodes of the problems that were solved, of which none is known."""
    limits: list[float] = []
    real: Callable[..., Any] = solve._solve

    def counted(*arguments: Any) -> Any:
        limits.append(arguments[-1])
        return real(*arguments)

    monkeypatch.setattr(solve, "_SOLVED", {})
    monkeypatch.setattr(solve, "_solve", counted)
    return limits


def test_with_a_limit_of_nodes_the_clock_decides_nothing(solved: list[float]) -> None:
    hurried = plan_memory(Problem(TIGHT), time_limit_s=-1.0, node_limit=20_000)
    assert hurried.certificate.is_optimal
    solve._SOLVED.clear()
    assert hurried == plan_memory(Problem(TIGHT), node_limit=20_000)
    solve._SOLVED.clear()
    assert not plan_memory(Problem(TIGHT), time_limit_s=-1.0).certificate.is_optimal


def test_what_was_solved_without_a_clock_is_not_solved_again(solved: list[float]) -> None:
    problem = Problem(TIGHT)
    plans = [plan_memory(problem, node_limit=limit) for limit in (20_000, 20_000, 30_000)]
    assert solved == [20_000] and plans[0] == plans[1] == plans[2]
    plan_memory(problem, node_limit=10_000)  # what fewer nodes would have given is not known
    assert solved == [20_000, 10_000]
    plan_memory(problem)  # a plan without a gap is the best one whoever asks
    assert solved == [20_000, 10_000]


def test_what_was_solved_by_the_clock_is_solved_again(solved: list[float]) -> None:
    assert plan_memory(Problem(TIGHT)) == plan_memory(Problem(TIGHT))
    plan_memory(Problem(TIGHT), node_limit=20_000)
    assert solved == [np.inf, np.inf, 20_000]


@pytest.mark.usefixtures("gives_up")
def test_more_nodes_are_tried_where_there_is_a_gap(solved: list[float]) -> None:
    for limit in (5000, 5000, 9000):
        assert not plan_memory(Problem(TIGHT), node_limit=limit).certificate.is_optimal
    assert solved == [5000, 9000]


def test_a_plan_that_is_not_legal_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The solver's own idea of what is legal decides nothing."""
    real = solve.solve_region

    def broken(*arguments: Any) -> Any:
        found = real(*arguments)
        return replace(found, offsets=dict.fromkeys(found.offsets, 0))

    monkeypatch.setattr(solve, "solve_region", broken)
    with pytest.raises(PlanError, match="live together and share bytes"):
        plan_memory(Problem(TIGHT))


@settings(max_examples=200, deadline=None)
@given(small_problems(), st.lists(st.integers(0, 12), min_size=5, max_size=5))
def test_the_solver_and_the_checker_mean_the_same(problem: Problem, at: list[int]) -> None:
    offsets = {b.name: place for b, place in zip(problem.buffers, at, strict=False)}
    instance = make_instance(problem.buffers, problem.overlaps)
    if any(b.size_bytes == 0 for b in problem.buffers):
        return
    granules = np.array([offsets[b.name] // instance.granule for b in instance.buffers])
    whole = {
        b.name: int(o) * instance.granule for b, o in zip(instance.buffers, granules, strict=True)
    }
    assert solve.is_legal(instance, granules) == is_legal(problem, whole)


@pytest.mark.parametrize("first", [0, 32])
def test_pins_that_collide_are_named(first: int) -> None:
    def pinned(second: int) -> Plan:
        return plan_memory(Problem((
            Buffer("a", 32, 0, 2, fixed_offset=first), Buffer("b", 32, 1, 2, fixed_offset=second),
        )))  # fmt: skip

    for second in (first + 16, first - 16):
        with pytest.raises(PlanError, match="a and b are live together at one fixed"):
            pinned(max(second, 0))
    assert pinned(first + 32).offsets == {"a": first, "b": first + 32}


def test_overflow_spills_to_the_next_region() -> None:
    both = ("tcm", "sram")
    buffers = (
        Buffer("x", 600, 0, 2, regions=both),
        Buffer("y", 500, 1, 3, regions=both),
        Buffer("s", 300, 1, 2, regions=("tcm",)),
    )
    plan = plan_memory(Problem(buffers, (), (Region("tcm", 1000), Region("sram", None))))
    assert plan.region_of == {"x": "tcm", "y": "sram", "s": "tcm"}
    assert plan.peak_bytes["tcm"] <= 1000 and plan.peak_bytes["sram"] == 500


def test_a_region_that_buffers_spill_to_is_solved_again() -> None:
    # Live bytes fit, so that nothing is spilled before the regions are solved.
    first = Buffer("first", 64, 0, 9, regions=("sram",))
    tight = tuple(replace(b, regions=("tcm", "sram")) for b in TIGHT)
    regions = Region("sram"), Region("tcm", live_bytes(TIGHT))
    plan = plan_memory(Problem((first, *tight), (), regions))
    assert plan.peak_bytes["tcm"] <= live_bytes(TIGHT)
    assert plan.peak_bytes["sram"] > 64


def test_greedy_solver_is_never_better() -> None:
    problem = Problem(chain(20))
    greedy = plan_memory(problem, solver="greedy").peak_bytes["arena"]
    assert greedy == greedy_peak_bytes(problem.buffers)
    assert greedy >= plan_memory(problem).peak_bytes["arena"] >= live_bytes(problem.buffers)


def test_unknown_solver_is_refused() -> None:
    with pytest.raises(PlanError, match="magic"):
        plan_memory(Problem(()), solver="magic")


def test_chain_with_row_overlap_meets_its_bound() -> None:
    """Outputs must slide below their inputs although every value has two neighbours."""
    sizes = [1000 + 640 * ((i * 5) % 7) for i in range(40)]
    buffers = tuple(Buffer(f"v{i}", s, max(0, i - 1), i + 1, 4) for i, s in enumerate(sizes))
    overlaps = tuple(Overlap(f"v{i}", f"v{i + 1}", 64 - 32 * (i % 4)) for i in range(39))
    started = time.perf_counter()
    plan = plan_memory(Problem(buffers, overlaps))
    assert plan.certificate.is_optimal
    assert plan.peak_bytes["arena"] < 0.7 * live_bytes(buffers)
    assert time.perf_counter() - started < 3.0
