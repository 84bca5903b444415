"""Several boards and emulators at once: one project, its cases spread over all of them.

A pool is a TOML file:

    executor = "my_farm:make_executor"     # optional

    [[device]]
    engine = "qemu"                        # host, core, qemu or serial
    count  = 4

    [[device]]
    port = "/dev/ttyACM0"                  # engine serial
    name = "left"                          # for messages; optional

Work goes through a `concurrent.futures.Executor`: threads of this process unless the file names
a function that makes another, such as one that returns a Dask client's `get_executor()`. All that
travels are a project's description, arrays and results; a board needs no file of the project,
an emulator needs its ELF at the same path.
"""

from __future__ import annotations

import importlib
import tomllib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from edgec.errors import BoardError, EdgecError, RunFailed
from edgec.runners.engine import ENGINES, Array, Project, RunResult, open_session
from edgec.target.table import Table

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Device:
    """Something that runs projects, one at a time."""

    name: str
    engine: str
    port: str | None = None


@dataclass(frozen=True)
class _Failure:
    """An EdgecError as a value: not every error survives the way between processes."""

    message: str
    details: tuple[str, ...]
    hint: str


def load_devices(path: Path) -> tuple[tuple[Device, ...], str]:
    """Return a pool's devices and the name of what makes its executor ("" for threads).

    Raises BoardError for a file that is no pool.
    """
    try:
        table = Table(str(path), tomllib.loads(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BoardError(f"cannot read the pool {path}: {error}") from error
    executor = table.text("executor", "")
    devices: list[Device] = []
    for entry in table.tables("device"):
        port = entry.text("port", "") or None
        engine = entry.text("engine", "serial" if port else "")
        if engine not in ENGINES:
            raise BoardError(
                f"{entry.where}: engine is '{engine}', none of {', '.join(ENGINES)}",
                hint="give each device a port or an engine",
            )
        count = entry.integer("count", 1)
        if count < 1 or (port is not None and count > 1):
            raise BoardError(f"{entry.where}: count is {count}; a port has one device")
        name = entry.text("name", port or engine)
        numbers = [""] if count == 1 else [f" {i}" for i in range(1, count + 1)]
        devices += [Device(name + number, engine, port) for number in numbers]
        entry.finish()
    table.finish()
    if not devices:
        raise BoardError(f"the pool {path} has no [[device]]")
    return tuple(devices), executor


def make_executor(text: str) -> Executor:
    """Call "module:function". Raises BoardError unless that gives something with `submit`."""
    module, _, function = text.partition(":")
    try:
        made: Executor = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BoardError(
            f"the executor '{text}' cannot be made: {error}",
            hint='write "module:function", a function without arguments',
        ) from error
    if not callable(getattr(made, "submit", None)):
        raise BoardError(f"'{text}' gives no executor, but a {type(made).__name__}")
    return made


class Pool:
    """Devices and an executor. A context manager, which ends the executor if it made it."""

    def __init__(self, devices: Sequence[Device], executor: Executor | None = None) -> None:
        self.devices = tuple(devices)
        self._own = executor is None
        self._executor = executor or ThreadPoolExecutor(len(self.devices))
        #: Devices that failed, with what they said.
        self.lost: dict[str, str] = {}

    @staticmethod
    def load(path: Path) -> Pool:
        """Return the pool of a TOML file. Raises BoardError."""
        devices, executor = load_devices(path)
        return Pool(devices, make_executor(executor) if executor else None)

    @property
    def name(self) -> str:
        """The engines, for reports: "qemu x 4"."""
        engines = [device.engine for device in self.devices]
        counts = {engine: engines.count(engine) for engine in dict.fromkeys(engines)}
        return ", ".join(f"{engine} x {count}" for engine, count in counts.items())

    def run_all(
        self, built: Project, cases: Sequence[Sequence[Array]], *, trace: bool = False
    ) -> list[RunResult]:
        """Run every case, in any order on any device; the results are in order of the cases.

        The cases of a model with state are steps of one sequence: all run on one device. A
        device that fails is left out and its cases go to the others; RunFailed when none is left.
        """
        results: list[RunResult | None] = [None] * len(cases)
        pending = list(range(len(cases)))
        alive = list(self.devices)
        while pending:
            if not alive:
                raise RunFailed(
                    "no device of the pool is left",
                    details=tuple(f"{name}: {said}" for name, said in self.lost.items()),
                )
            if built.manifest.state_bytes:
                shares = {alive[0]: pending}
            else:
                shares = {d: pending[i :: len(alive)] for i, d in enumerate(alive)}
            futures: dict[Device, Future[list[RunResult] | _Failure]] = {
                device: self._executor.submit(
                    run_share, built, device, [list(cases[i]) for i in share], trace
                )
                for device, share in shares.items()
                if share
            }
            for device, future in futures.items():
                found = future.result()
                if isinstance(found, _Failure):
                    alive.remove(device)
                    self.lost[device.name] = found.message
                    continue
                for index, result in zip(shares[device], found, strict=True):
                    results[index] = result
            pending = [index for index, result in enumerate(results) if result is None]
        return [result for result in results if result is not None]

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Call `function`, which must be picklable, for every item; results in order."""
        futures = [self._executor.submit(function, item) for item in items]
        return [future.result() for future in futures]

    def close(self) -> None:
        """End the executor, if it is this pool's own."""
        if self._own:
            self._executor.shutdown(cancel_futures=True)

    def __enter__(self) -> Pool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def run_share(
    built: Project, device: Device, cases: Sequence[Sequence[Array]], trace: bool
) -> list[RunResult] | Any:
    """Run cases on one device, where it is; an EdgecError is returned as a value."""
    try:
        with open_session(device.engine, built, port=device.port) as session:
            if built.manifest.state_bytes:
                session.reset()
            return [session.run(case, trace=trace) for case in cases]
    except EdgecError as error:
        return _Failure(error.message, error.details, error.hint)
