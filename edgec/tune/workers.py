"""The workers that measure: local processes, or a farm of dask.distributed.

Jobs are self-contained, and their results do not depend on the worker. If a worker dies, another
one repeats its job, three times at most.
"""

from __future__ import annotations

import importlib
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import Any

from edgec.errors import EdgecError, RunFailed, ToolMissing
from edgec.tune.measure import Job, Outcome, measure

#: How often a job is started before it is given up.
MOST_STARTS = 3
#: How long a farm has to answer at first.
FARM_SECONDS = 10.0
#: Candidates of a job at most: each job links an image and starts a simulator.
MOST_CANDIDATES = 8

Measure = Callable[[Job], tuple[Outcome, ...]]


class Workers:
    """Does jobs on an executor. open_executor: makes one, and one more after one is broken.

    count: jobs that should be there at once.
    """

    def __init__(
        self, open_executor: Callable[[], Executor], count: int, run: Measure = measure
    ) -> None:
        self._open = open_executor
        self._executor: Executor | None = None
        self._run = run
        self.count = count
        self.lost = 0

    def measure(self, jobs: Sequence[Job]) -> list[tuple[Outcome, ...]]:
        """The results of the jobs, in order. Raises RunFailed for a job whose workers all died."""
        done: dict[int, tuple[Outcome, ...]] = {}
        for _ in range(MOST_STARTS):
            waiting = [i for i in range(len(jobs)) if i not in done]
            if not waiting:
                break
            self._start(jobs, waiting, done)
        if len(done) < len(jobs):
            raise RunFailed(
                f"workers died {MOST_STARTS} times over the same candidates",
                hint="measurements are kept: run the same command again",
            )
        return [done[i] for i in range(len(jobs))]

    def _start(
        self, jobs: Sequence[Job], waiting: Sequence[int], done: dict[int, tuple[Outcome, ...]]
    ) -> None:
        if self._executor is None:
            self._executor = self._open()
        try:
            futures = {i: self._executor.submit(self._run, jobs[i]) for i in waiting}
        except (BrokenProcessPool, RuntimeError):
            self._give_up()
            return
        for number, future in futures.items():
            try:
                done[number] = self._result(future)
            except (BrokenProcessPool, CancelledError, _WorkerDied):
                self.lost += 1
        if len(done) < len(jobs) and isinstance(self._executor, ProcessPoolExecutor):
            self._give_up()

    @staticmethod
    def _result(future: Future[tuple[Outcome, ...]]) -> tuple[Outcome, ...]:
        try:
            return future.result()
        except (EdgecError, BrokenProcessPool, CancelledError):
            raise
        except Exception as error:
            if type(error).__name__ == "KilledWorker":  # dask's, which need not be installed
                raise _WorkerDied from error
            raise

    def _give_up(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = None

    def close(self, *, wait: bool) -> None:
        """End the workers; without `wait`, jobs that nobody began are dropped."""
        if self._executor is not None:
            self._executor.shutdown(wait=wait, cancel_futures=True)
        self._executor = None


class _WorkerDied(Exception):
    """A farm's worker went away with its job."""


@contextmanager
def open_workers(text: str) -> Iterator[Workers]:
    """Workers by the words of `--workers`: a count of local processes, or a farm's address.

    Raises ToolMissing where a farm's package is missing, EdgecError where nobody answers there.
    """
    workers = _farm(text) if "://" in text else _local(int(text))
    try:
        yield workers
    except BaseException:
        workers.close(wait=False)
        raise
    workers.close(wait=True)


def _local(count: int) -> Workers:
    context = multiprocessing.get_context("spawn")
    return Workers(
        lambda: ProcessPoolExecutor(count, mp_context=context, initializer=_ignore_ctrl_c), count
    )


def _ignore_ctrl_c() -> None:
    """Ctrl-C reaches all processes of a terminal: the waiting one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _farm(address: str) -> Workers:
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise ToolMissing(
            f"--workers {address} needs the Python package distributed",
            hint='pip install "edgec[farm]"',
        ) from None
    try:
        client: Any = distributed.Client(address, timeout=FARM_SECONDS)
    except (OSError, TimeoutError, ValueError) as problem:
        raise EdgecError(
            f"no Dask scheduler answers at {address}: {problem}",
            hint="start one with `dask scheduler`",
        ) from None
    return _Farm(client)


class _Farm(Workers):
    """Workers of a farm; its scheduler restarts the jobs of dead workers."""

    def __init__(self, client: Any) -> None:
        counts = client.nthreads().values()
        super().__init__(lambda: client.get_executor(pure=False), max(sum(counts), 1))
        self._client = client

    def close(self, *, wait: bool) -> None:
        with suppress(Exception):
            super().close(wait=wait)
        self._client.close()
