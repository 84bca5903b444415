"""The search: deterministic, resumable, and no figure is measured twice."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from small_groups import module

from edgec.errors import RunFailed
from edgec.loop.tuned import Figures, Tuned, brief
from edgec.options import Options
from edgec.passes.tuned_variants import is_leaner
from edgec.targets.core import find_core
from edgec.tune.measure import Job, Outcome
from edgec.tune.model import Plan, tune
from edgec.tune.workers import Workers

PLAN = Plan(find_core("cortex-m3"), Options(), trials=24, seed=3)


def body_of(text: str) -> str:
    """A C file without the number of its function."""
    return re.sub(r"candidate_\d+", "f", text)


def pretended(job: Job) -> tuple[Outcome, ...]:
    """Figures that follow from the C text alone, but for the names of the functions."""

    def figures(text: str, scratch: int) -> Figures:
        body = body_of(text)
        size = len(body)
        return Figures(size + zlib.crc32(body.encode()) % 500, 1, size, scratch, size // 9)

    return tuple(Outcome(figures(c.text, c.scratch_bytes)) for c in job.candidates)


class Counting:
    """`pretended`, which notes every text that is measured."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, job: Job) -> tuple[Outcome, ...]:
        self.texts += [body_of(c.text) for c in job.candidates]
        return pretended(job)


def searched(
    run: Callable[[Job], Any], known: Tuned | None = None, count: int = 1, plan: Plan = PLAN,
    **save: Any,
) -> Tuned:  # fmt: skip
    with ThreadPoolExecutor(count) as executor:
        workers = Workers(lambda: executor, count, run)
        keep = save.get("save", lambda tuned: None)
        return tune(module("padded"), plan, workers, known or Tuned(), lambda _: None, keep)[0]


@pytest.fixture(scope="module")
def whole() -> Tuned:
    return searched(pretended)


def test_what_ships_is_not_searched_again(whole: Tuned, monkeypatch: pytest.MonkeyPatch) -> None:
    ((key, group),) = whole.groups.items()
    ours = Tuned({key: brief(group, 24, group.tried[:4])})
    monkeypatch.setattr("edgec.tune.model.shipped", lambda core: ours)
    run = Counting()
    found = searched(run)
    assert not run.texts and found.groups[key].winners == group.winners
    assert searched(run, found) == found and not run.texts
    afresh = searched(run, plan=replace(PLAN, takes_shipped=False))
    assert run.texts and afresh == whole


def test_lean_winners_take_no_more_of_anything(whole: Tuned) -> None:
    lean = searched(pretended, plan=replace(PLAN, lean=True))
    (group,) = lean.groups.values()
    base = group.figures[group.default]
    made = [group.figures[winner.made] for winner in group.winners]
    assert base is not None
    assert any(f and is_leaner(f, base) and f.instructions < base.instructions for f in made)


def test_trials_are_done_and_nothing_is_measured_twice() -> None:
    run = Counting()
    (group,) = searched(run).groups.values()
    assert len(run.texts) == len(set(run.texts)) == len(group.tried)
    assert 24 < len(group.tried) <= 28  # and what the rules offer
    figures = group.figures
    base = figures[group.default]
    assert base is not None and group.winners
    for winner in group.winners:
        found = figures[winner.made]
        assert found is not None and found.instructions < base.instructions
    least = min(f.instructions for f in figures.values() if f is not None)
    best = figures[group.winners[0].made]
    assert best is not None and best.instructions <= 1.01 * least


def test_how_many_measure_changes_nothing(whole: Tuned) -> None:
    assert searched(pretended, count=3) == whole


def test_a_second_run_measures_nothing(whole: Tuned) -> None:
    run = Counting()
    assert searched(run, whole) == whole
    assert run.texts == []


def test_an_interrupted_run_goes_on_where_it_was(whole: Tuned) -> None:
    saved: list[Tuned] = []

    def save(tuned: Tuned) -> None:
        saved.append(tuned)
        if len(saved) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        searched(pretended, save=save)
    run = Counting()
    assert searched(run, saved[-1]) == whole
    (before,), (after,) = saved[-1].groups.values(), whole.groups.values()
    assert len(run.texts) == len(after.figures) - len(before.figures) > 0


def test_candidates_without_figures_never_win() -> None:
    """Whatever is measured worse than the default stays out, too."""

    def all_but_defaults(job: Job) -> tuple[Outcome, ...]:
        return tuple(
            Outcome(None, "wrong") if i % 2 else Outcome(Figures(10**7, 1, 1, 0))
            for i, _ in enumerate(job.candidates)
        )

    seen: list[int] = []

    def first_is_good(job: Job) -> tuple[Outcome, ...]:
        seen.append(1)
        return pretended(job) if len(seen) == 1 else all_but_defaults(job)

    (group,) = searched(first_is_good).groups.values()
    assert group.winners == () and group.default


class _Broken(Executor):
    """Takes jobs and never does them."""

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


def test_workers_that_never_answer_are_given_up() -> None:
    with pytest.raises(RunFailed, match="died 3 times"):
        tune(module("dense"), PLAN, Workers(_Broken, 1), Tuned(), lambda _: None, lambda _: None)
