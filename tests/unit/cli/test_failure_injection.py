"""Each write, rename, process start and serial call of a command fails once, in turn; commands die
at any time.

Whatever fails: what was there stays as it was or is replaced whole, nothing else is left behind,
and there is one error without a traceback.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_builder import float_network

sys.path.insert(0, str(Path(__file__).parents[2] / "runners" / "flash"))
from simulated_stm32 import DirectLine, FailingPort, SimulatedStm32

#: What a disk and a system say: full, an error of the medium, no permission, a read-only one.
PROBLEMS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS)
#: Not a command's own: where Python and the C library keep what they keep.
FOREIGN = ("/dev/", "/proc/", "__pycache__", ".pyc")
#: Neither: what the compiler writes, or `kept_objects.py` in its place.
OBJECTS = (".o", ".su")
#: Commands that build many times, or start many programs.
SLOW = [pytest.param(name, marks=pytest.mark.full) for name in ("tune", "explore", "pack", "wheel")]
NAMES = ("build", "cuda", "quantize", "flash", "export", "tosa", "run", "report")
#: Commands that write one file, besides what they build.
ONE_FILE = ("tosa", "explore", "run", "report")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Faults:
    """Counts operations under some folders, and fails the one that `at` names."""

    def __init__(self) -> None:
        self.roots: tuple[str, ...] = ()
        self.at: int | None = None
        self.problem = errno.ENOSPC
        self.seen: list[str] = []
        self.always = False

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        if not self.roots:
            return
        what = self.operation(event, args)
        if what is None:
            return
        self.seen.append(what)
        if self.always or len(self.seen) - 1 == self.at:
            raise OSError(self.problem, os.strerror(self.problem), what)

    def operation(self, event: str, args: tuple[Any, ...]) -> str | None:
        """What is done to a file under the roots, or the program that starts; None for others."""
        if event == "subprocess.Popen":
            return f"start {args[0]}"
        paths = [os.fspath(a) for a in args[:2] if isinstance(a, (str, os.PathLike))]
        if event == "open":
            mode, flags = args[1], args[2]
            writes = any(c in mode for c in "wax+") if isinstance(mode, str) else flags & WRITES
            paths = paths[:1] if writes else []
        elif event not in ("os.rename", "os.mkdir", "os.link", "os.symlink", "os.truncate"):
            return None
        own = [p for p in paths if p.startswith(self.roots) and not p.endswith(OBJECTS)]
        own = [p for p in own if not any(foreign in p for foreign in FOREIGN)]
        return f"{event} {own[0]}" if own else None

    @contextmanager
    def failing(self, roots: tuple[Path, ...], at: int | None, problem: int) -> Iterator[None]:
        self.roots, self.at, self.problem = tuple(map(str, roots)), at, problem
        self.seen = []
        try:
            yield
        finally:
            self.roots, self.always = (), False


@pytest.fixture(scope="session")
def faults() -> Faults:
    """One for the process: an audit hook stays for good, and does nothing while it has no roots."""
    found = Faults()
    sys.addaudithook(found)
    return found


def tree(folder: Path) -> dict[str, str]:
    """Every file of a folder with its content's hash, hidden ones too."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*")) if path.is_file()
    }  # fmt: skip


#: A flashing tool whose chip is the file `flash` beside it.
ST_FLASH = """#!/bin/sh
chip="${0%/*}/flash"
case "$1" in
    write) cp "$2" "$chip" ;;
    read) head -c "$(($4))" "$chip" > "$2" ;;
esac
"""


@pytest.fixture
def flash_words(
    dense_model: Path, work: Path, edgec: Callable, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[object]]:
    """Builds a project and puts a flashing tool beside it; the words that run it."""

    def words() -> list[object]:
        folder = work.parent / "bin"
        folder.mkdir()
        (folder / "st-flash").write_text(ST_FLASH)
        (folder / "st-flash").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        assert edgec("build", dense_model, "--board", "nucleo_g0b1re", "-o", "out").status == 0
        return ["flash", "out", "--runner", "st-flash"]

    return words


@pytest.fixture
def command_of(
    dense_model: Path, work: Path, edgec: Callable, flash_words: Callable[[], list[object]]
) -> Callable[[str], list[object]]:
    """The words of a command that writes `out`."""

    def words(name: str) -> list[object]:
        if name == "quantize":
            model = float_network(1, work.parent / "f.onnx")
            samples = np.random.default_rng(1).normal(size=(4, 1, 3, 12, 12)).astype(np.float32)
            shape = _input_shape(model)
            np.savez(work.parent / "s.npz", x=np.resize(samples, (4, *shape)))
            return ["quantize", model, "--calibration", work.parent / "s.npz", "-o", "out.onnx",
                    "--html", "out.html", "--no-blame", "--observer", "minmax", "--nearest",
                    "--keep-biases", "--equalize", "never"]  # fmt: skip
        if name == "flash":
            return flash_words()
        if name == "export":
            return ["export", dense_model, "--format", "cmake", "-o", "out"]
        if name == "tosa":
            return ["export", dense_model, "--format", "tosa", "-o", "out.mlir"]
        if name == "tune":
            return ["tune", dense_model, "--board", "stm32", "--trials", 2, "-o", "out.tune.json",
                    "--html", "out.html"]  # fmt: skip
        if name == "new":
            return ["new", "out", "--model", dense_model, "--board", "stm32"]
        if name == "explore":
            return ["explore", dense_model, "--board", "stm32", "--workers", 1,
                    "--html", "out.html"]  # fmt: skip
        if name == "report":
            assert edgec("build", dense_model, "--board", "host", "-o", "out").status == 0
            return ["report", "out", "--html", "out.html"]
        more: dict[str, list[object]] = {
            "pack": ["export", dense_model, "--format", "cmsis-pack", "-o", "out"],
            "wheel": ["export", dense_model, "--format", "python-wheel", "-o", "out"],
            "run": ["run", dense_model, "--output", "out.npz"],
            "cuda": ["build", dense_model, "--target", "cuda-sm_87", "-o", "out"],
            "build": ["build", dense_model, "--board", "host", "-o", "out"],
        }  # fmt: skip
        return more[name]

    return words


def _input_shape(model: Path) -> tuple[int, ...]:
    import onnx

    (entry,) = onnx.load(model).graph.input
    return tuple(d.dim_value for d in entry.type.tensor_type.shape.dim[1:])


@pytest.mark.parametrize("name", [*NAMES, *SLOW])
def test_each_operation_fails_once(
    name: str, command_of: Callable, edgec: Callable, work: Path, faults: Faults
) -> None:
    words = command_of(name)
    temporary = work.parent / "tmp"
    roots = (work, temporary)
    assert edgec(*words).status == 0
    before = tree(work)
    with faults.failing(roots, None, 0):
        assert edgec(*words).status == 0
    points = list(faults.seen)
    assert len(points) > (0 if name in ONE_FILE else 3), points
    after = tree(work)
    for at, what in enumerate(points):
        problem = PROBLEMS[at % len(PROBLEMS)]
        with faults.failing(roots, at, problem):
            ran = edgec(*words)
        assert "Traceback" not in ran.err, (what, ran.err)
        if ran.status:
            assert ran.status == 1 and ran.err.count("error: ") == 1, (what, ran)
            assert ran.out == "" or name == "quantize", (what, ran)
        found = tree(work)
        assert found in (before, after), (what, sorted(set(found) ^ set(before)))
        assert not tree(temporary), (what, tree(temporary))
    assert edgec(*words).status == 0 and tree(work) == after


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.6, 0.9, 1.0])
def test_a_serial_call_of_flash_fails(
    share: float, dense_model: Path, work: Path, edgec: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a whole command; each of all calls: `tests/runners/flash/test_stm32_boot_loader.py`."""
    import serial

    assert edgec("build", dense_model, "--board", "stm32", "-o", "out").status == 0
    before = tree(work)
    chip = SimulatedStm32([16384] * 4 + [65536] + [131072] * 7)
    line, ports = DirectLine(chip), list[FailingPort]()
    monkeypatch.setattr("edgec.runners.flash.stm32_protocol.time", line)
    gone = OSError(errno.EIO, os.strerror(errno.EIO))

    def flash(fail_at: int | None) -> Any:
        chip.started = None
        chip.flash[:] = bytes(4096) + b"\xff" * (len(chip.flash) - 4096)  # another program
        chip.press_reset()
        ports.append(FailingPort(chip, line, fail_at, gone))
        monkeypatch.setattr(serial, "serial_for_url", lambda *_, **__: ports[-1])
        return edgec("flash", "out", "--port", "line", "--runner", "stm32-uart")

    assert flash(None).status == 0 and chip.started
    whole = bytes(chip.flash)
    calls = len(ports[-1].calls)
    ran = flash(round(share * (calls - 1)))
    assert ran.status == 1 and ran.out == "" and ran.err.count("error: ") == 1, ran
    assert "Traceback" not in ran.err and "line" in ran.err, ran
    assert not ports[-1].is_open and tree(work) == before and not tree(work.parent / "tmp")
    assert chip.started is None or chip.flash == whole
    assert flash(None).status == 0 and chip.flash == whole


def test_new_makes_a_folder_whole_or_not_at_all(
    command_of: Callable, edgec: Callable, work: Path, faults: Faults
) -> None:
    words = command_of("new")
    with faults.failing((work,), None, 0):
        assert edgec(*words).status == 0
    points, whole = list(faults.seen), tree(work)
    assert len(points) > 3 and "out/main.c" in whole
    for at, what in enumerate(points):
        shutil.rmtree(work / "out")
        with faults.failing((work,), at, PROBLEMS[at % len(PROBLEMS)]):
            ran = edgec(*words)
        assert "Traceback" not in ran.err, (what, ran)
        if ran.status:
            assert ran.status == 1 and ran.err.count("error: ") == 1, (what, ran)
            assert not list(work.iterdir()), (what, ran)
            assert "cannot write out: " in ran.err, (what, ran)
            assert edgec(*words).status == 0, what
        assert tree(work) == whole, (what, ran)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.full)])
def test_watch_goes_on_when_an_operation_fails(
    step: int, command_of: Callable, edgec: Callable, work: Path, faults: Faults,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """A disk that is full for a moment ended it, though the next change would have been built."""
    words = ["watch", *command_of("build")[1:]]
    waits: list[int] = []

    def sleep(_: float) -> None:
        faults.at = None  # only the first build fails
        waits.append(1)
        if len(waits) % 2 == 0:
            raise KeyboardInterrupt
        os.utime(words[1], ns=(len(waits), len(waits)))

    monkeypatch.setattr("edgec.cli.watch.sleep", sleep)
    roots = (work, work.parent / "tmp")
    assert edgec(*words).status == 130
    with faults.failing(roots, None, 0):
        assert edgec(*words).status == 130
    points, after = faults.seen[: len(faults.seen) // 2], tree(work)
    assert len(points) > 3
    for at, what in [*enumerate(points)][::step]:
        with faults.failing(roots, at, PROBLEMS[at % len(PROBLEMS)]):
            ran = edgec(*words)
        assert ran.status == 130 and ran.out.count("watching") == 2, (what, ran)
        assert ran.err.count("error: ") <= 1 and "Traceback" not in ran.err, (what, ran)
        assert tree(work) == after and not tree(roots[1]), what


@pytest.mark.parametrize("name", ["build", "quantize", "export", "tosa", "new"])
def test_a_folder_that_cannot_be_written(
    name: str, command_of: Callable, edgec: Callable, work: Path, faults: Faults
) -> None:
    """Every write there fails, as on a read-only file system, where root may write nothing too."""
    words = command_of(name)
    with faults.failing((work,), None, errno.EROFS):
        faults.always = True
        ran = edgec(*words)
    assert ran.status == 1 and ran.err.count("error: ") == 1 and "Traceback" not in ran.err, ran
    assert not tree(work) and not tree(work.parent / "tmp")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is POSIX")
@pytest.mark.parametrize("name", ["build", "export"])
def test_killed_at_random_moments(name: str, command_of: Callable, work: Path) -> None:
    words = [sys.executable, "-m", "edgec", *map(str, command_of(name))]
    env = {**os.environ, "TMPDIR": str(work.parent / "tmp")}
    start = time.monotonic()
    subprocess.run(words, check=True, capture_output=True, env=env)
    whole_s = time.monotonic() - start
    before = tree(work)
    rng = random.Random(name)
    for _ in range(3):
        process = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env,
            start_new_session=True,
        )  # fmt: skip
        # Files are written towards the end.
        time.sleep(whole_s * rng.uniform(0.4, 1.1))
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        out = work / "out"
        if out.exists():
            assert {f"out/{path}" for path in tree(out)} == set(before)
    subprocess.run(words, check=True, capture_output=True, env=env)
    assert tree(work) == before and not tree(work.parent / "tmp")
