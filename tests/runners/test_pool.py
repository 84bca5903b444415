"""Pools: their file, spreading, devices that fail, executors of other people."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from edgec.errors import BoardError, LinkError, RunFailed
from edgec.runners import pool as pool_module
from edgec.runners.pool import Device, Pool, load_devices, make_executor

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"


def write(folder: Path, text: str) -> Path:
    path = folder / "pool.toml"
    path.write_text(text)
    return path


def test_file(tmp_path: Path) -> None:
    devices, executor = load_devices(
        write(
            tmp_path,
            'executor = "a:b"\n[[device]]\nengine = "qemu"\ncount = 2\n'
            '[[device]]\nport = "/dev/ttyX"\n[[device]]\nport = "COM3"\nname = "left"\n',
        )
    )
    assert executor == "a:b"
    assert devices == (
        Device("qemu 1", "qemu"),
        Device("qemu 2", "qemu"),
        Device("/dev/ttyX", "serial", "/dev/ttyX"),
        Device("left", "serial", "COM3"),
    )
    with Pool(devices) as pool:
        assert pool.name == "qemu x 2, serial x 2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no"),
        ("device = 3", "not a list of tables"),
        ("[[device]]\ncount = 2", "engine ''"),
        ('[[device]]\nengine = "moon"', "engine 'moon'"),
        ('[[device]]\nport = "x"\nengine = "qemu"', "a port is for the engine serial"),
        ('[[device]]\nport = "x"\ncount = 2', "count is 2, not from 1 to 1"),
        ('[[device]]\nengine = "host"\ncount = 1000000000', "not from 1 to 1000"),
        ('[[device]]\nengine = "qemu"\ncount = 0', "count is 0"),
        ('[[device]]\nengine = "qemu"\ncolour = 1', "unknown key 'colour'"),
        ("[[device", "cannot read the pool"),
        ('[[device]]\nengine = "qemu"\n' * 2, "several devices are called 'qemu'"),
        (
            '[[device]]\nport = "a"\n[[device]]\nname = "b"\nport = "a"',
            "several devices are at 'a'",
        ),
    ],
)
def test_wrong_files_are_named(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(BoardError, match=words):
        load_devices(write(tmp_path, text))


def test_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_farm.py").write_text(
        "from concurrent.futures import ThreadPoolExecutor\n"
        "def make(): return ThreadPoolExecutor(1)\n"
        "def wrong(): return 3\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with make_executor("my_farm:make") as executor:
        assert isinstance(executor, ThreadPoolExecutor)
    for text, words in (("my_farm:wrong", "returns a int, not an executor"),
                        ("my_farm:none", "cannot be made"), ("nothing", "cannot be made"),
                        ("no_such:make", "cannot be made")):  # fmt: skip
        with pytest.raises(BoardError, match=words):
            make_executor(text)
    sys.modules.pop("my_farm", None)


class FakeSession:
    """Doubles its input; the device called bad fails at once, the tired one at its third case."""

    used: dict[str, int]

    def __init__(self, device: str) -> None:
        self._device = device
        if device == "bad":
            raise LinkError("it is silent")

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def reset(self) -> None:
        pass

    def run(self, case, trace: bool = False):
        self.used[self._device] = self.used.get(self._device, 0) + 1
        if self._device == "tired" and self.used["tired"] > 2:
            raise RunFailed("it is tired")
        return case[0] * 2


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch):
    FakeSession.used = {}
    monkeypatch.setattr(
        pool_module, "open_session", lambda engine, built, port=None: FakeSession(port)
    )
    return SimpleNamespace(manifest=SimpleNamespace(state_bytes=0))


def devices(*names: str) -> list[Device]:
    return [Device(name, "serial", name) for name in names]


def test_cases_are_spread_and_stay_in_order(built) -> None:
    with Pool(devices("a", "b", "c")) as pool:
        assert pool.run_all(built, [[i] for i in range(10)]) == [2 * i for i in range(10)]
        assert FakeSession.used == {"a": 4, "b": 3, "c": 3}
        assert pool.run_all(built, []) == []


def test_devices_that_fail_are_left_out(built) -> None:
    with Pool(devices("tired", "a", "bad")) as pool:
        assert pool.run_all(built, [[i] for i in range(12)]) == [2 * i for i in range(12)]
        assert pool.lost == {"tired": "it is tired", "bad": "it is silent"}
        assert FakeSession.used["a"] == 12  # all that the others did not finish
    with (
        Pool([Device(name, "serial", "bad") for name in ("one", "two")]) as pool,
        pytest.raises(RunFailed, match="no device of the pool is left") as caught,
    ):
        pool.run_all(built, [[1]])
    assert caught.value.details == ("one: it is silent", "two: it is silent")
    with Pool(devices("bad")) as pool, pytest.raises(RunFailed, match="it is silent"):
        pool.run_all(built, [[1]])


def end_process(device: Device, share: Iterable[int]) -> list[int]:
    items = list(share)
    if 3 in items:
        os._exit(1)
    return items


def divide(device: Device, share: Iterable[int]) -> list[float]:
    return [1 / item for item in share]


def test_workers_that_die_are_named() -> None:
    """A worker's end is no bug of the work, and a bug of the work no worker's end."""
    with ProcessPoolExecutor(2) as executor:
        pool = Pool(devices("a", "b"), executor)
        with pytest.raises(ZeroDivisionError):
            pool.spread(divide, [2, 0])
        with pytest.raises(RunFailed, match="no device of the pool is left") as caught:
            pool.spread(end_process, [1, 2, 3, 4])
        assert "lost its worker (BrokenProcessPool" in caught.value.details[0]
        with pytest.raises(RunFailed, match="lost its worker"):
            pool.map(abs, [1, 2])


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="signals to threads are POSIX's")
def test_stopping_does_not_wait_for_all_the_work() -> None:
    """Ctrl-C lets a device finish its case, not its share."""
    begun: list[int] = []

    def slow(device: Device, share) -> list[int]:
        for item in share:
            begun.append(item)
            if len(begun) == 2:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.02)
        return begun

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), Pool(devices("a", "b")) as pool:
            pool.spread(slow, range(1000))
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(begun) < 500


def test_a_sequence_stays_on_one_device(built) -> None:
    built.manifest.state_bytes = 4
    with Pool(devices("a", "b")) as pool:
        assert pool.run_all(built, [[1], [2], [3]]) == [2, 4, 6]
    assert FakeSession.used == {"a": 3}


@pytest.mark.skipif(sys.platform == "win32", reason="a library in use cannot be removed there")
def test_any_executor_will_do(tmp_path: Path) -> None:
    """Processes get everything by pickling, as a farm of machines would."""
    from edgec.boards.board import load_board
    from edgec.deploy.project import deploy
    from edgec.options import Options
    from edgec.pipeline import compile_model
    from edgec.runners.engine import open_session

    board = load_board("host")
    compiled = compile_model(
        DIGITS / "digits_int8.onnx", board.core, Options(), board_name=board.name
    )
    built = deploy(compiled, board, tmp_path / "project")
    data = np.load(DIGITS / "digits_test.npz")
    stored = data[next(name for name in data.files if data[name].ndim > 1)][:6]
    cases = [[image[np.newaxis].astype(np.float32)] for image in stored]
    with open_session("host", built) as session:
        expected = [session.run(case).outputs[0] for case in cases]
    two = [Device("left", "host"), Device("right", "host")]
    with ProcessPoolExecutor(2) as executor:
        results = Pool(two, executor).run_all(built, cases)
        lost = Pool([Device("none", "serial", str(tmp_path / "none"))], executor)
        with pytest.raises(RunFailed, match="the serial engine cannot run a project built for"):
            lost.run_all(built, cases[:1])
        assert Pool(two, executor).map(abs, [-1, 2, -3]) == [1, 2, 3]
    for found, want in zip(results, expected, strict=True):
        assert np.array_equal(found.outputs[0], want)
