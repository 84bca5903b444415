"""A command that is stopped in the middle leaves nothing behind and says `stopped`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

SIGNALS = [
    pytest.param(getattr(signal, name), id=name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if hasattr(signal, name)
]

#: A command in whose middle this process says "here" and waits to be stopped.
SCRIPT = """
import signal, sys, time
import {module} as module

# Who runs these tests may ignore signals (nohup, a job in the background): commands start afresh.
signal.signal(signal.SIGINT, signal.default_int_handler)
for name in ("SIGTERM", "SIGHUP"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)

def wait(*_, **__):
    print("here", flush=True)
    time.sleep(60)

module.{function} = wait
from edgec.cli.main import main
main(sys.argv[1:])
"""


def stop_in(place: str, number: int, arguments: list[str], work: Path) -> tuple[int, str, set[str]]:
    """Stop a command where it calls `place`; its status, standard error, and what is left."""
    module, _, function = place.rpartition(".")
    temporary = work.parent / "tmp"
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(module=module, function=function), *arguments],
        cwd=work, env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        assert list(temporary.iterdir()) or list(work.iterdir()), "it should have begun"
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    left = {path.name for path in (*work.iterdir(), *temporary.iterdir())}
    return process.returncode, errors.strip(), left


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_stopped_build_leaves_nothing(number: int, dense_model: Path, work: Path) -> None:
    arguments = ["build", str(dense_model), "--board", "host", "-o", "out"]
    found = stop_in("edgec.deploy.project.build_host_library", number, arguments, work)
    assert found == (128 + number, "stopped", set())


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_stopped_run_leaves_nothing(dense_model: Path, work: Path) -> None:
    arguments = ["run", str(dense_model), "--board", "host", "--output", "y.npz"]
    found = stop_in("edgec.runners.engine.open_session", signal.SIGTERM, arguments, work)
    assert found == (128 + signal.SIGTERM, "stopped", set())


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_stopped_build_keeps_the_project_before(
    dense_model: Path, edgec: Callable, work: Path
) -> None:
    assert edgec("build", dense_model, "--board", "host", "-o", "out").status == 0
    before = {p: p.read_bytes() for p in sorted((work / "out").rglob("*")) if p.is_file()}
    arguments = ["build", str(dense_model), "--board", "host", "-o", "out", "--unfused"]
    status, errors, left = stop_in(
        "edgec.deploy.project.check_budgets", signal.SIGTERM, arguments, work
    )
    assert (status, errors, left) == (128 + signal.SIGTERM, "stopped", {"out"})
    assert {p: p.read_bytes() for p in sorted((work / "out").rglob("*")) if p.is_file()} == before


def test_stopped_between_the_two_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from edgec.build.staging import staged_folder

    target = tmp_path / "out"
    with staged_folder(target) as folder:
        (folder / "manifest.json").write_text("first")
    real, count = Path.rename, iter(range(9))

    def rename(path: Path, to: Path) -> Path:
        if next(count) == 1:
            raise KeyboardInterrupt
        return real(path, to)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt), staged_folder(target) as folder:
        (folder / "manifest.json").write_text("second")
    assert (target / "manifest.json").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_signals_are_as_before_after_a_command(edgec: Callable) -> None:
    before = signal.getsignal(signal.SIGTERM)
    edgec("--version")
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of POSIX")
def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "edgec", "ops", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    errors = process.stderr.read()
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    process.stderr.close()
    assert process.returncode == 1 and b"Traceback" not in errors
