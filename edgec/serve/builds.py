"""One model at a time, built for many boards in processes of their own, while others look on."""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Literal

from edgec.deploy.explore import Job, Point, explore
from edgec.errors import EdgecError
from edgec.report.explore import report_of

State = Literal["idle", "building", "done", "stopped", "failed"]
#: The builds of a model file, and the signal-to-noise ratio of its forms in dB.
Plan = Callable[[Path], tuple[Sequence[Job], Mapping[str, float | None]]]


class Busy(EdgecError):
    """Another model is being built."""


class Builds:
    """The builds that the page shows. All methods may be called from any thread.

    plan: reads a model file; raises EdgecError if it cannot. samples: the words of a command line
    that name the samples. folder: for what the builds write.
    """

    def __init__(self, plan: Plan, samples: Sequence[str], workers: int, folder: Path) -> None:
        self.folder = folder
        self._plan, self._samples, self._workers = plan, samples, workers
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()
        self._began = self._ended = 0.0
        #: Counts changes of `snapshot`'s result.
        self.version = 0
        self._now: dict[str, Any] = {
            "state": "idle", "model": "", "done": 0, "total": 0, "problem": "", "points": None,
        }  # fmt: skip

    def start(self, name: str, path: Path, *, keep: bool = False) -> None:
        """Build the file at `path`, shown as `name`; it is removed after it is read, unless
        `keep`. Raises Busy while another one is built."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                raise Busy("another model is being built", hint="stop it first")
            self._stopping.clear()
            self._began, self._ended = time.monotonic(), 0.0
            self._set(state="building", model=name, done=0, total=0, problem="", points=[])
            self._thread = threading.Thread(target=self._run, args=(name, path, keep))
            self._thread.start()

    def stop(self) -> None:
        """Stop the current build, and wait for its end."""
        self._stopping.set()
        thread = self._thread
        while thread is not None and thread.is_alive():
            _end_children()
            thread.join(0.2)

    def snapshot(self) -> dict[str, Any]:
        """Return state, figures and seconds; `points` as in `edgec explore --json`."""
        with self._lock:
            seconds = (self._ended or time.monotonic()) - self._began if self._began else 0.0
            return {**self._now, "seconds": seconds, "version": self.version}

    def _set(self, **changes: Any) -> None:
        self._now |= changes
        self.version += 1

    def _change(self, **changes: Any) -> None:
        with self._lock:
            self._set(**changes)

    def _run(self, name: str, path: Path, keep: bool) -> None:
        state: State = "failed"
        problem = ""
        try:
            state = self._build(name, path)
        except EdgecError as error:
            problem = str(error).replace(str(path), name)
        except BrokenProcessPool:
            problem = "a build process stopped unexpectedly; memory may be short"
        except Exception as error:  # a bug; the page's user must know of it and continue
            problem = f"edgec failed on this model: {type(error).__name__}: {error}"
            print(problem, file=sys.stderr)
        finally:
            if not keep:
                path.unlink(missing_ok=True)
        if self._stopping.is_set():
            state, problem = "stopped", ""
        self._ended = time.monotonic()
        self._change(state=state, problem=problem)

    def _build(self, name: str, path: Path) -> State:
        jobs, sqnr_db = self._plan(path)
        self._change(total=len(jobs))
        found: dict[int, Point] = {}
        pool = ProcessPoolExecutor(
            min(self._workers, len(jobs)), multiprocessing.get_context("spawn"),
            initializer=_write_into, initargs=(str(self.folder),),
        )  # fmt: skip
        with pool:
            for job, point in explore(jobs, pool, lambda: None):
                if self._stopping.is_set():
                    return "stopped"
                found[id(job)] = point
                ready = [found[id(job)] for job in jobs if id(job) in found]
                report = report_of(Path(name), self._samples, ready, sqnr_db)
                self._change(done=len(ready), points=report["points"])
        return "done"


def _write_into(folder: str) -> None:
    """Let a process keep its temporary files where they are removed if it is killed."""
    tempfile.tempdir = folder


def _end_children() -> None:
    for child in multiprocessing.active_children():
        child.terminate()
