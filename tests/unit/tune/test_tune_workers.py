"""Workers that die are survived, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgec.errors import EdgecError, RunFailed, ToolMissing
from edgec.tune.measure import Job, Outcome
from edgec.tune.workers import Workers, open_workers
from edgec.tuned import Figures


def once_dead(job: Job) -> tuple[Outcome, ...]:
    """Dies the first time that it gets a job of this core's name, a path."""
    path = Path(job.core)
    if path.name and not path.exists():
        path.touch()
        os._exit(1)
    return (Outcome(Figures(job.budget, 0, 0, 0)),)


def always_dead(job: Job) -> tuple[Outcome, ...]:
    os._exit(1)


def jobs(*cores: str) -> list[Job]:
    return [Job(core, None, "", (), budget) for budget, core in enumerate(cores)]


def local(run: object) -> Workers:
    with open_workers("2") as workers:
        return Workers(workers._open, workers.count, run)  # type: ignore[arg-type]


def test_a_worker_that_dies_loses_its_job_to_another(tmp_path: Path) -> None:
    workers = local(once_dead)
    done = workers.measure(jobs("", str(tmp_path / "mark"), "", ""))
    assert [each[0].figures and each[0].figures.instructions for each in done] == [0, 1, 2, 3]
    assert workers.lost >= 1
    workers.close(wait=True)


def test_what_always_kills_its_worker_is_given_up() -> None:
    workers = local(always_dead)
    with pytest.raises(RunFailed, match="died 3 times"):
        workers.measure(jobs(""))
    workers.close(wait=True)


def test_a_farm_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ToolMissing, match="distributed") as missing, open_workers("tcp://x:1"):
        pass
    assert "edgec[farm]" in missing.value.hint
    assert isinstance(missing.value, EdgecError)
