"""What streams is chosen exactly: against all covers, and against the plans that are made."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.graph.ir import Module
from edgec.memory.bound import apart_bytes, lower_bound_bytes, stacked_bytes
from edgec.memory.choose import LEAST_SAVED_BYTES, choose, choose_alone
from edgec.memory.cover import pareto_front
from edgec.memory.layout import ARENA, placement_problem
from edgec.memory.problem import Buffer, Overlap, Problem
from edgec.memory.solve import plan_memory
from edgec.memory.spans import Span, Spans
from edgec.options import LEVELS, Options
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.passes.row_functions import RowGroup, row_members
from edgec.passes.stream_groups import Member, stream_segment
from edgec.pipeline import compile_module
from edgec.targets.core import find_core
from edgec.targets.target import target_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "passes"))
from test_stream_groups import SAME, Network, mobile, pooled, residual


def span(first: int, last: int, need: int, instructions: int) -> Span:
    return Span(first, last, instructions, (Buffer("b", need, 0, 1, 4),), ())


def brute_force(starting: list[list[Span]]) -> list[tuple[int, int]]:
    """(need, instructions) of every cover that no other beats."""
    count = len(starting)

    def covers(position: int) -> Any:
        if position == count:
            yield ()
        for p in starting[position] if position < count else ():
            for rest in covers(p.last + 1):
                yield (p, *rest)

    points = {
        (max(p.need_bytes for p in path), sum(p.instructions for p in path)) for path in covers(0)
    }
    return sorted(
        a for a in points if not any(b != a and b[0] <= a[0] and b[1] <= a[1] for b in points)
    )


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 1 << 20), st.integers(1, 5))
def test_the_front_is_that_of_all_covers(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    starting = []
    for first in range(count):
        own = [span(first, first, *(4 * int(n) for n in rng.integers(1, 20, 2)))]
        for last in range(first, count):
            if rng.random() < 0.6:
                own.append(span(first, last, *(4 * int(n) for n in rng.integers(1, 40, 2))))
        starting.append(own)
    front = pareto_front(SimpleNamespace(starting=starting))  # type: ignore[arg-type]
    assert sorted((c.need_bytes, c.instructions) for c in front) == brute_force(starting)


def test_the_front_of_a_model_in_which_nothing_runs() -> None:
    nothing = SimpleNamespace(starting=[])
    assert [(c.need_bytes, c.spans) for c in pareto_front(nothing)] == [(0, ())]  # type: ignore[arg-type]
    n = Network()
    function = n.b.finish([n.input(4, 4, 2)])
    module = Module({"main": function}, source="net.onnx")
    assert compile_module(module, find_core("cortex-m4"), Options()).program.steps == ()


def test_too_many_segments_leave_the_longest_out(monkeypatch: pytest.MonkeyPatch) -> None:
    function = mobile()
    policy = target_for(find_core("cortex-m4"), Options())
    groups = tuple(lower_group(group, policy) for group in fuse_groups(function))

    def lengths(most: int) -> tuple[bool, int, int]:
        monkeypatch.setattr("edgec.memory.spans.MOST_MEMBERS", most)
        spans = Spans(function, groups, row_members([g.group for g in groups], policy))
        _, found = choose(function, groups, policy, Options(optimize="ram"))
        assert found.is_complete == spans.is_complete and found.front
        known = [1 + p.last - p.first for own in spans.starting for p in own]
        return spans.is_complete, max(known), sum(1 for n in known if n > 1)

    whole, few = lengths(10**6), lengths(12)
    assert whole[0] and not few[0]
    assert 1 < few[1] < whole[1] and few[2] < whole[2]


@settings(max_examples=80, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 1 << 20), st.integers(1, 4), st.integers(0, 2))
def test_stacks_are_as_small_as_plans(seed: int, seconds: int, others: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [4 * int(n) for n in rng.integers(1, 12, 1 + seconds + others)]
    buffers = [Buffer(f"b{i}", size, 0, 1, 4) for i, size in enumerate(sizes)]
    overlaps = [
        Overlap("b0", f"b{i}", int(rng.integers(-sizes[0], sizes[i])))
        for i in range(1, 1 + seconds)
    ]
    plan = plan_memory(Problem(tuple(buffers), tuple(overlaps)))
    assert plan.certificate.is_optimal
    assert stacked_bytes(buffers, overlaps) == plan.peak_bytes[ARENA]
    assert lower_bound_bytes(buffers, overlaps) == plan.peak_bytes[ARENA]


def test_what_lies_apart_is_as_small_as_a_plan() -> None:
    for sizes in ((8,), (5, 8, 3), (7, 7), (0, 4, 9, 1)):
        buffers = [Buffer(f"b{i}", size, 0, 1, 4) for i, size in enumerate(sizes)]
        plan = plan_memory(Problem(tuple(buffers), ()))
        assert apart_bytes(buffers) == plan.peak_bytes[ARENA] == lower_bound_bytes(buffers)
    mixed = [Buffer("a", 5, 0, 1, 4), Buffer("b", 5, 0, 1, 8)]
    assert apart_bytes(mixed) is None
    assert apart_bytes([]) is None


@pytest.mark.parametrize("make", [mobile, residual, pooled])
@pytest.mark.parametrize("core", ["cortex-m4", "cortex-m0"])
def test_what_is_counted_is_what_is_built(make: Any, core: str) -> None:
    """Rows, scratch and distances of every segment, by numbers and from the loops."""
    function = make()
    policy = target_for(find_core(core), Options())
    groups = [lower_group(group, policy) for group in fuse_groups(function)]
    members = row_members([g.group for g in groups], policy)
    spans = Spans(function, groups, members)
    streams = [p for own in spans.starting for p in own if p.variant is None]
    assert streams
    for p in streams[:: max(1, len(streams) // 6)]:
        rows = [members[i] for i in range(p.first, p.last + 1)]
        chosen = [
            {k: min(r.lowered(k).variants, key=lambda v: v.scratch_bytes) for k in r.kinds}
            if isinstance(r, RowGroup) else {}
            for r in rows
        ]  # fmt: skip
        built = stream_segment([Member(r, c) for r, c in zip(rows, chosen, strict=True)])
        (variant,) = built.variants
        sizes = sorted(place.size_bytes for place in variant.scratch if place.name != "work")
        counted = sorted(
            b.size_bytes for b in p.buffers if b.name.startswith("rows.") or b.name == "sum"
        )
        assert sizes == counted
        by_place = {name: distance for name, _, distance in variant.scratch_overlaps}
        for overlap in p.overlaps:
            if overlap.second.startswith("rows."):
                place = f"v{int(overlap.second[5:]) - p.first}"
                # By numbers a step later at most: the loops' way is the stricter one.
                assert by_place[place] <= overlap.distance_bytes


def test_each_preference_takes_its_point() -> None:
    function = mobile()
    core = find_core("cortex-m4")
    groups = [lower_group(g, target_for(core, Options())) for g in fuse_groups(function)]
    found = {}
    for name in LEVELS:
        options = Options(optimize=name)  # type: ignore[arg-type]
        found[name] = choose(function, groups, target_for(core, options), options)[1]
    front = found["ram"].front
    assert all(a.need_bytes > b.need_bytes for a, b in itertools.pairwise(front))
    assert all(a.instructions < b.instructions for a, b in itertools.pairwise(front))
    instructions = {
        name: sum(v.instructions for v in choice.variants) for name, choice in found.items()
    }
    assert instructions["time"] == front[0].instructions == min(instructions.values())
    assert instructions["ram"] <= LEVELS["ram"].slowdown * front[0].instructions
    assert all(len(g.group.nodes) <= 2 for g in found["size"].groups)

    def peak(choice: Any) -> int:
        problem = placement_problem(function, choice.groups, choice.variants)
        return plan_memory(problem).peak_bytes[ARENA]

    limit = peak(found["ram"])
    policy, options = target_for(core, Options()), Options(optimize="balanced")
    _, least = choose(function, groups, policy, options, limit_bytes=limit)
    assert peak(least) <= limit < peak(found["time"])


def wide() -> Any:
    """Layers of much work for each row, so that streaming costs little."""
    n = Network()
    a = n.window(n.input(24, 12, 8), "a", 32, 3, 1, SAME)
    return n.b.finish([n.window(n.window(a, "b", 32, 3, 1, SAME), "c", 8, 3, 2, ((0, 1), (0, 1)))])


def test_the_default_streams_where_it_may_and_saves() -> None:
    function = wide()
    policy = target_for(find_core("cortex-m4"), Options())
    groups = tuple(lower_group(group, policy) for group in fuse_groups(function))
    alone = choose_alone(function, groups, policy, Options())
    _, found = choose(function, groups, policy, Options())
    assert found.taken is not None
    point = found.front[found.taken]
    assert point.segments
    assert point.instructions <= LEVELS["balanced"].slowdown * found.front[0].instructions

    def peak(running: Any, variants: Any) -> int:
        return plan_memory(placement_problem(function, running, variants)).peak_bytes[ARENA]

    before, after = peak(groups, alone), peak(found.groups, found.variants)
    least = max(LEAST_SAVED_BYTES, LEVELS["balanced"].least_streamed * before)
    assert before - after >= least
    # Nothing is fused, nothing streams.
    _, again = choose(function, groups, policy, Options(unfused=True))
    assert (again.groups, again.variants) == (groups, alone)


def test_unfused_builds_stream_nothing() -> None:
    function = mobile()
    policy = target_for(find_core("cortex-m4"), Options())
    groups = [lower_group(group, policy) for group in fuse_groups(function, fuse=False)]
    _, choice = choose(function, groups, policy, Options(optimize="ram", unfused=True))
    assert len(choice.groups) == len(groups)
