"""GDB servers and GDB: command lines, and a real session on QEMU."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from edgec.boards.board import load_board
from edgec.deploy.project import Built
from edgec.errors import BoardError, RunFailed, ToolMissing
from edgec.runners import debug
from edgec.runners.debug import (
    RunningServer,
    Server,
    free_port,
    gdb_command,
    openocd_server,
    qemu_server,
)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: f"/opt/{name}")


@pytest.mark.usefixtures("installed")
def test_command_lines() -> None:
    server = qemu_server(load_board("mps2_an386"), Path("/p/a.elf"), 3333, 4444)
    assert list(server.command) == [
        "/opt/qemu-system-arm", "-M", "mps2-an386", "-icount", "shift=0",
        "-display", "none", "-monitor", "none",
        "-chardev", "socket,host=127.0.0.1,port=4444,server=on,wait=off,id=link",
        "-serial", "chardev:link", "-kernel", "/p/a.elf", "-S", "-gdb", "tcp:127.0.0.1:3333",
    ]  # fmt: skip
    assert server.link == "socket://127.0.0.1:4444"
    server = openocd_server(load_board("stm32"), {"config": "interface/a.cfg target/b.cfg"}, 3333)
    assert list(server.command) == [
        "/opt/openocd", "-f", "interface/a.cfg", "-f", "target/b.cfg",
        "-c", "gdb_port 3333", "-c", "telnet_port disabled; tcl_port disabled",
    ]  # fmt: skip
    assert gdb_command(server, Path("/p/a.elf"), Path("/p/debug.gdb"), ["bt"]) == [
        "/opt/gdb-multiarch", "-q", "-nx", "-x", "/p/debug.gdb",
        "-ex", "target extended-remote 127.0.0.1:3333", "-ex", "monitor reset halt",
        "-ex", "load", "-ex", "monitor reset halt", "-ex", "bt", "-batch", "/p/a.elf",
    ]  # fmt: skip
    assert "-batch" not in gdb_command(server, Path("a"), Path("b"), [], gdb="/my/gdb")
    with pytest.raises(BoardError, match="is not debugged with openocd"):
        openocd_server(load_board("mps2_an386"), {}, 3333)


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(ToolMissing, match="no GDB for microcontrollers"):
        gdb_command(Server("qemu", (), ()), Path("a"), Path("b"), [])
    with pytest.raises(ToolMissing, match="openocd is not installed"):
        openocd_server(load_board("stm32"), {"config": "a.cfg"}, 1)
    monkeypatch.setattr(debug, "_START_TIMEOUT_S", 5.0)
    broken = Server("openocd", (sys.executable, "-c", "print('Error: open failed')"), ())
    with pytest.raises(RunFailed, match="openocd did not start a GDB server") as caught:
        RunningServer(broken, tmp_path / "log", free_port())
    assert "open failed" in caught.value.details[-1]


@pytest.mark.usefixtures("qemu")
def test_session_on_an_emulated_board(digits: Callable[..., Built]) -> None:
    """GDB stops at main and in the first layer; the host's run goes on in between."""
    if shutil.which("gdb-multiarch") is None:
        pytest.skip("gdb-multiarch is not installed (Debian package gdb-multiarch)")
    project = digits("mps2_an386").project
    commands = ["ec-start", "info symbol $pc", "ec-arena 2", "tbreak digits_int8_init",
                "continue", "info symbol $pc"]  # fmt: skip
    line = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(
        [sys.executable, "-m", "edgec", "debug", str(project), *line],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"^main( \+ \d+)? in section .text", done.stdout, re.M)
    assert "digits_int8_init in section .text" in done.stdout
    assert "arena at 0x" in done.stdout and "<ec_main_arena>" in done.stdout
    assert "socket://127.0.0.1:" in done.stderr
    done = subprocess.run(
        [sys.executable, "-m", "edgec", "debug", str(project), "-c", "ec-start",
         "-c", "info symbol $pc", "--json"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    said = json.loads(done.stdout)
    assert done.stderr == "" and said["server"] == "qemu" and said["status"] == 0
    assert said["link"].startswith("socket://") and said["connect"][0].startswith("target ")
    assert any(line.startswith("main") for line in said["output"])
