"""Workers that die are survived, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgec.errors import EdgecError, RunFailed, ToolMissing
from edgec.loop.tuned import Figures
from edgec.tune.measure import Job, Outcome
from edgec.tune.workers import Workers, open_workers


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


def test_a_farm_measures_as_local_processes_do() -> None:
    """The farm's own processes are threads here; what is sent is the same."""
    pytest.importorskip("distributed", reason="distributed is not installed (edgec[farm])")
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None,
        protocol="tcp", host="127.0.0.1",
    ) as cluster, open_workers(cluster.scheduler_address) as farm:  # fmt: skip
        assert farm.count == 2
        farm._run = counted
        done = farm.measure(jobs("", "", ""))
    assert [each[0].figures for each in done] == [Figures(i, 0, 0, 0) for i in range(3)]


def counted(job: Job) -> tuple[Outcome, ...]:
    return (Outcome(Figures(job.budget, 0, 0, 0)),)


def test_nobody_at_a_farm_is_one_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed (edgec[farm])")
    monkeypatch.setattr("edgec.tune.workers.FARM_SECONDS", 0.3)
    with (
        pytest.raises(EdgecError, match="no Dask scheduler answers"),
        open_workers("tcp://127.0.0.1:9"),
    ):
        pass
