"""The order search against all permutations, and its short cuts."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgec.errors import PlanError
from edgec.memory.order import Step, _Graph, smallest_order


def live_peak(
    steps: list[Step], sizes: dict[str, int], order: tuple[int, ...], results: set[str]
) -> int:
    """The plain meaning: every value from its step to its last use."""
    last = {v: len(order) for v in results}
    for at, i in enumerate(order):
        for v in steps[i].reads:
            last[v] = max(last.get(v, 0), at)
    live, peak = {"x"}, sizes["x"]
    for at, i in enumerate(order):
        live |= set(steps[i].writes)
        saved = sum(b for a, _, b in steps[i].savings if last.get(a, at) == at)
        written = sum(sizes[v] for v in steps[i].writes)
        need = sum(sizes[v] for v in live) + steps[i].scratch_bytes
        peak = max(peak, need - min(saved, written))
        live = {v for v in live if last.get(v, at) > at}
    return peak


def is_legal(steps: list[Step], order: tuple[int, ...]) -> bool:
    known = {"x"}
    for i in order:
        if not known.issuperset(steps[i].reads):
            return False
        known |= set(steps[i].writes)
    return True


@st.composite
def dags(draw: st.DrawFn) -> tuple[list[Step], dict[str, int], set[str]]:
    count = draw(st.integers(1, 6))
    sizes = {"x": draw(st.integers(1, 9))}
    steps = []
    for i in range(count):
        names = sorted(sizes)
        reads = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)))
        out = f"v{i}"
        sizes[out] = draw(st.integers(0, 9))
        savings = ()
        if draw(st.booleans()):
            savings = ((reads[0], out, draw(st.integers(0, min(sizes[reads[0]], sizes[out])))),)
        steps.append(Step(f"s{i}", reads, (out,), draw(st.integers(0, 3)), savings))
    used = {v for s in steps for v in s.reads}
    return steps, sizes, {f"v{i}" for i in range(count)} - used


@settings(max_examples=200, deadline=None)
@given(dags())
def test_order_equals_all_permutations(dag: tuple[list[Step], dict[str, int], set[str]]) -> None:
    steps, sizes, results = dag
    legal = [p for p in itertools.permutations(range(len(steps))) if is_legal(steps, p)]
    best = min(live_peak(steps, sizes, p, results) for p in legal)
    order = smallest_order(steps, sizes, inputs={"x"}, results=results)
    assert order.is_exact
    assert order.peak_bytes == best
    assert order.positions in legal
    assert live_peak(steps, sizes, order.positions, results) == best


def test_chain_keeps_its_order_at_once() -> None:
    names = [f"v{i}" for i in range(200)]
    steps = [Step(b, (a,), (b,)) for a, b in itertools.pairwise(names)]
    sizes = {name: 10 + i % 7 for i, name in enumerate(names)}
    order = smallest_order(steps, sizes, inputs={"v0"}, results={"v199"}, state_limit=1)
    assert order.positions == tuple(range(199)) and order.is_exact


def test_small_branch_goes_first() -> None:
    """Run depth first, the two wide values never meet."""
    steps = [
        Step("wide1", ("x",), ("w1",)),
        Step("wide2", ("x",), ("w2",)),
        Step("narrow1", ("w1",), ("n1",)),
        Step("narrow2", ("w2",), ("n2",)),
        Step("add", ("n1", "n2"), ("y",)),
    ]
    sizes = {"x": 10, "w1": 100, "w2": 100, "n1": 5, "n2": 5, "y": 5}
    order = smallest_order(steps, sizes, inputs={"x"}, results={"y"})
    assert order.peak_bytes == 115
    assert order.positions == (0, 2, 1, 3, 4)


def test_state_limit_keeps_the_given_order_and_says_so() -> None:
    steps, sizes = [], {"x": 1}
    for i in range(8):
        steps += [Step(f"a{i}", ("x",), (f"w{i}",))]
        sizes |= {f"w{i}": 50 + i, f"n{i}": 3}
    steps += [Step(f"b{i}", (f"w{i}",), (f"n{i}",)) for i in range(8)]
    results = {f"n{i}" for i in range(8)}
    short = smallest_order(steps, sizes, inputs={"x"}, results=results, state_limit=2)
    assert not short.is_exact and short.positions == tuple(range(16))
    full = smallest_order(steps, sizes, inputs={"x"}, results=results)
    assert full.is_exact and full.peak_bytes < 120


def test_reading_what_was_not_written_is_refused() -> None:
    with pytest.raises(PlanError, match="s reads y"):
        smallest_order([Step("s", ("y",), ("z",))], {"y": 1, "z": 1}, inputs=set())
    with pytest.raises(PlanError, match="t writes z"):
        smallest_order([Step("s", (), ("z",)), Step("t", (), ("z",))], {"z": 1}, inputs=set())


def test_steps_that_are_alike_are_one_choice() -> None:
    """40 of them have 2**40 sets; in the given order 41 do."""
    names = [f"v{i}" for i in range(40)]
    alike = [Step(f"s{i}", ("x",), (name,)) for i, name in enumerate(names)]
    last = Step("last", tuple(names), ("y",))
    sizes = {"x": 100, "y": 1, **dict.fromkeys(names, 3)}
    order = smallest_order([*alike, last], sizes, inputs=["x"], results=["y"], state_limit=100)
    assert order.is_exact and order.positions == tuple(range(41))
    # One whose scratch is another is another step, and runs first.
    other = Step("other", ("x",), ("o",), scratch_bytes=200)
    steps = [*alike, other, Step("last", (*names, "o"), ("y",))]
    order = smallest_order(steps, {**sizes, "o": 3}, inputs=["x"], results=["y"], state_limit=100)
    assert order.is_exact and order.positions == (40, *range(40), 41)
    assert order.peak_bytes == 100 + 3 + 200


def test_wide_graphs_end_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """60 chains of ten steps, of whose states each has 60 successors; they took minutes."""
    sizes, steps, ends = {"x": 1}, list[Step](), list[str]()
    for chain in range(60):
        before = "x"
        for depth in range(10):
            value = f"v{chain}_{depth}"
            sizes[value] = 3 + (7 * chain + 5 * depth) % 11
            steps.append(Step(value, (before,), (value,)))
            before = value
        ends.append(before)
    tries = 0
    measured = _Graph.run

    def counted(graph: _Graph, done: int, live: int, i: int) -> tuple[int, int]:
        nonlocal tries
        tries += 1
        return measured(graph, done, live, i)

    monkeypatch.setattr(_Graph, "run", counted)
    order = smallest_order(steps, sizes, inputs=["x"], results=ends, state_limit=1000)
    assert not order.is_exact and order.positions == tuple(range(600))
    assert tries < 60 * 1000
