"""What flashing tools do wrong gives one error each; one that is stopped leaves no process."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from test_flash_tools import job

from edgec.runners import tool_process
from edgec.runners.flash.runner import FlashFailed
from edgec.runners.flash.tools import load_tool
from edgec.runners.tool_process import run_tool

#: A program in the place of st-flash, and what is said of it.
FAULTS = {
    "#!/bin/sh\nexit 0\n": "missing: No such file or directory",
    "#!/bin/sh\n[ $1 != read ] || : > $2\n": "only 0 of 200 bytes were read back",
    "#!/bin/sh\n[ $1 != read ] || mkdir $2\n": "missing: Is a directory",
    "#!/bin/sh\n[ $1 != read ] || ln -s /dev/zero $2\n": "missing: it is a pipe or a device",
    "#!/bin/sh\n[ $1 != read ] || mkfifo $2\n": "missing: it is a pipe or a device",
    "#!/bin/sh\nrm -rf ${2%/*}\n": "missing: No such file or directory",
    "#!/bin/sh\nkill -9 $$\n": "st-flash failed with status -9",
    "#!/bin/sh\nhead -c 3000000 /dev/zero | tr '\\0' x; exit 1\n": "st-flash failed with status 1",
    "#!/no/such/interpreter\n": "cannot start .*st-flash: No such file or directory",
    "\0no program": "cannot start .*st-flash: Exec format error",
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder; temporary ones are made in `tmp` beside it."""
    for name in ("work", "tmp"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "work"


@pytest.mark.parametrize("number", range(len(FAULTS)))
def test_each_fault_is_one_error(number: int, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, said = list(FAULTS.items())[number]
    (work / "st-flash").write_text(text)
    (work / "st-flash").chmod(0o755)
    monkeypatch.setenv("PATH", f"{work}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(FlashFailed, match=said) as failed:
        load_tool("st-flash").flash(job())
    assert len(failed.value.render()) < 3000
    assert not list((work.parent / "tmp").iterdir())


def is_there(file: Path) -> bool:
    """Whether the process whose number a file holds is still there, and no zombie."""
    found = subprocess.run(
        ["ps", "-o", "stat=", "-p", file.read_text().strip()], capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return found.stdout.strip()[:1] not in ("", "Z")


def goes(file: Path) -> bool:
    """Whether that process ends soon: one that was killed takes a moment on a busy computer."""
    end = time.monotonic() + 10
    while is_there(file) and time.monotonic() < end:
        time.sleep(0.05)
    return not is_there(file)


@pytest.mark.parametrize("first", ["", "trap '' TERM;"])
def test_a_tool_that_does_not_end_is_ended_with_what_it_started(
    first: str, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_process, "_STOP_S", 0.3)
    script = f"{first} sleep 60 & echo $! > {work}/its; wait; sleep 60"
    with pytest.raises(subprocess.TimeoutExpired):
        run_tool(["sh", "-c", script], 2.0)
    assert goes(work / "its")


def test_a_server_that_a_tool_leaves_is_not_waited_for(work: Path) -> None:
    start = time.monotonic()
    script = f"sleep 30 & echo $! > {work}/its; echo done"
    assert run_tool(["sh", "-c", script], 60) == (0, "done\n")
    assert time.monotonic() - start < 20 and is_there(work / "its")
    subprocess.run(["kill", (work / "its").read_text().strip()], check=True)
