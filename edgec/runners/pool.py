"""Several boards and emulators at once: one project, its cases spread over all of them.

A pool is a TOML file:

    executor = "my_farm:make_executor"     # optional

    [[device]]
    engine = "qemu"                        # host, core, qemu or serial
    count  = 4

    [[device]]
    port = "/dev/ttyACM0"                  # engine serial
    name = "left"                          # for messages; optional

Work goes through a `concurrent.futures.Executor`: threads of this process unless the file names a
function that makes another one, such as a Dask client's `get_executor()`. Only a project's
description, arrays and results are sent; a board needs no file of the project, an emulator needs
its ELF at the same path.
"""

from __future__ import annotations

import importlib
import traceback
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from edgec.boards.table import Table
from edgec.errors import BoardError, EdgecError, RunFailed
from edgec.resources import parse_toml, plain_file
from edgec.runners.engine import ENGINES, Array, Project, RunResult, open_session

T = TypeVar("T")
R = TypeVar("R")

#: Abandoned pools of this process, whose work is not awaited, by their tokens.
_stopped: set[str] = set()

#: Devices that one entry can stand for; more is a slip of the finger.
_MOST_ALIKE = 1000


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


@dataclass(frozen=True)
class _Bug:
    """Any other error, as a value: raised by the work itself, not by its executor."""

    error: Exception

    @staticmethod
    def of(error: Exception) -> _Bug:
        error.add_note("".join(traceback.format_tb(error.__traceback__)))
        return _Bug(error)


def load_devices(path: Path) -> tuple[tuple[Device, ...], str]:
    """Return a pool's devices and the name of its executor's factory ("" for threads).

    Raises BoardError for a file that is not a pool.
    """
    try:
        table = Table(str(path), parse_toml(plain_file(path).read_text("utf-8")), "docs/pools.md")
    except (OSError, ValueError) as error:
        raise BoardError(f"cannot read the pool {path}: {error}") from error
    executor = table.text("executor", "")
    devices: list[Device] = []
    for entry in table.tables("device"):
        port = entry.text("port", "") or None
        engine = entry.text("engine", "serial" if port else "")
        if engine not in ENGINES:
            raise BoardError(
                f"{entry.where}: engine '{engine}' is not one of {', '.join(ENGINES)}",
                hint="give each device a port or an engine",
            )
        if port is not None and engine != "serial":
            raise BoardError(f"{entry.where}: a port is for the engine serial, not {engine}")
        count = entry.integer("count", 1)
        most = 1 if port is not None else _MOST_ALIKE
        if not 1 <= count <= most:
            raise BoardError(
                f"{entry.where}: count is {count}, not from 1 to {most}",
                hint="a port has one device" if port is not None else "",
            )
        name = entry.text("name", port or engine)
        numbers = [""] if count == 1 else [f" {i}" for i in range(1, count + 1)]
        devices += [Device(name + number, engine, port) for number in numbers]
        entry.finish()
    table.finish()
    if not devices:
        raise BoardError(f"the pool {path} has no [[device]]")
    for what, words in (
        ("are called", [device.name for device in devices]),
        ("are at", [device.port for device in devices if device.port is not None]),
    ):
        twice = [word for word, times in Counter(words).items() if times > 1]
        if twice:
            raise BoardError(
                f"the pool {path}: several devices {what} '{twice[0]}'",
                hint="give each device its own name and port, or give one entry a count",
            )
    return tuple(devices), executor


def make_executor(text: str) -> Executor:
    """Call "module:function". Raises BoardError unless the result has `submit`."""
    module, _, function = text.partition(":")
    try:
        made: Executor = getattr(importlib.import_module(module), function)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise BoardError(
            f"the executor '{text}' cannot be made: {error}",
            hint='write "module:function", a function without arguments',
        ) from error
    if not callable(getattr(made, "submit", None)):
        raise BoardError(f"'{text}' returns a {type(made).__name__}, not an executor")
    return made


class InlineExecutor(Executor):
    def submit(self, function: Callable[..., R], /, *args: Any, **words: Any) -> Future[R]:
        """Return a future that is done."""
        future: Future[R] = Future()
        try:
            future.set_result(function(*args, **words))
        except Exception as error:
            future.set_exception(error)
        return future


class Pool:
    """Devices and an executor. A context manager, which ends the executor if it made it."""

    def __init__(self, devices: Sequence[Device], executor: Executor | None = None) -> None:
        self.devices = tuple(devices)
        self._own = executor is None
        count = len(self.devices)
        self._executor = executor or (ThreadPoolExecutor(count) if count > 1 else InlineExecutor())
        self._token = uuid.uuid4().hex
        #: Devices that failed, with their errors.
        self.lost: dict[str, str] = {}

    @staticmethod
    def load(path: Path) -> Pool:
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

        The cases of a model with state are steps of one sequence: all run on one device.
        """
        return self.spread(
            partial(run_share, built, trace),
            [list(case) for case in cases],
            together=bool(built.manifest.state_bytes),
        )

    def spread(
        self,
        function: Callable[[Device, Iterable[T]], list[R]],
        items: Sequence[T],
        *,
        devices: Sequence[Device] | None = None,
        together: bool = False,
    ) -> list[R]:
        """Call `function`, which must be picklable, with devices and a share of the items each.

        Returns a result for each item, in order. devices: allowed ones, by default all; together:
        one device does all. A device that fails with an EdgecError is dropped and its share goes to
        the others; RunFailed when none is left, with the device's error if there was only one.
        """
        results: dict[int, R] = {}
        pending = list(range(len(items)))
        alive = [d for d in devices or self.devices if d.name not in self.lost]
        while pending:
            if not alive:
                raise RunFailed(
                    "no device of the pool is left",
                    details=tuple(f"{name}: {said}" for name, said in self.lost.items()),
                )
            if together:
                shares = {alive[0]: pending}
            else:
                shares = {d: pending[i :: len(alive)] for i, d in enumerate(alive)}
            futures = {
                device: self._submit(
                    _guarded, function, device, self._token, [items[i] for i in share]
                )
                for device, share in shares.items()
                if share
            }
            for device, future in futures.items():
                found = _result_of(future)
                if isinstance(found, _Bug):
                    raise found.error
                if isinstance(found, _Failure):
                    if len(devices or self.devices) == 1:
                        raise RunFailed(found.message, details=found.details, hint=found.hint)
                    alive.remove(device)
                    self.lost[device.name] = found.message
                    continue
                results.update(zip(shares[device], found, strict=True))
            pending = [index for index in range(len(items)) if index not in results]
        return [results[index] for index in range(len(items))]

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Call `function`, which must be picklable, for every item; results in order."""
        futures = [self._submit(_watched, function, item) for item in items]
        results = []
        for future in futures:
            found = _result_of(future)
            if isinstance(found, _Bug):
                raise found.error
            if isinstance(found, _Failure):
                raise RunFailed(found.message, details=found.details, hint=found.hint)
            results.append(found)
        return results

    def _submit(self, function: Callable[..., R], *args: Any) -> Future[R]:
        """Submit work to the executor; a broken executor results in a failed future."""
        try:
            return self._executor.submit(function, *args)
        except Exception as error:
            refused: Future[R] = Future()
            refused.set_exception(error)
            return refused

    def close(self) -> None:
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
        if kind is not None:
            _stopped.add(self._token)  # or its threads would be waited for to their end
        self.close()


def _guarded(
    function: Callable[[Device, Iterable[T]], list[R]], device: Device, pool: str, share: list[T]
) -> list[R] | _Failure | _Bug:
    """Do a share where the device is; errors are returned as values."""
    try:
        return function(device, _each(pool, share))
    except EdgecError as error:
        return _Failure(error.message, error.details, error.hint)
    except Exception as error:
        return _Bug.of(error)


def _watched(function: Callable[[T], R], item: T) -> R | _Failure | _Bug:
    """Call a function; errors are returned as values."""
    try:
        return function(item)
    except EdgecError as error:
        return _Failure(error.message, error.details, error.hint)
    except Exception as error:
        return _Bug.of(error)


def _result_of(future: Future[R]) -> R | _Failure:
    """The result of work. Work returns its own errors, so an exception comes from the executor."""
    try:
        return future.result()
    except Exception as error:
        text = str(error).split("\n", 1)[0]
        return _Failure(
            f"the executor lost its worker ({type(error).__name__}: {text})",
            (),
            "check that its computer is reachable and has enough memory",
        )


def _each(pool: str, share: list[T]) -> Iterator[T]:
    """The items of a share, until the pool is stopped."""
    for item in share:
        if pool in _stopped:
            raise RunFailed("the pool was stopped")
        yield item


def run_share(
    built: Project, trace: bool, device: Device, cases: Iterable[list[Array]]
) -> list[RunResult]:
    """Run cases on one device, from the initial state."""
    with open_session(device.engine, built, port=device.port) as session:
        if built.manifest.state_bytes:
            session.reset()
        return [session.run(case, trace=trace) for case in cases]
