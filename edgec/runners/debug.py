"""Debugging: a GDB server in front of a board or its emulation, and GDB's command line.

QEMU waits at reset until GDB continues; its UART is a local socket, so that the link's
commands work meanwhile. OpenOCD reaches a real board by the script that flashes it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgec.boards.board import Board
from edgec.errors import BoardError, RunFailed, ToolMissing
from edgec.runners.qemu import qemu_command

GDBS = ("gdb-multiarch", "arm-none-eabi-gdb", "riscv64-unknown-elf-gdb")
_START_TIMEOUT_S = 15.0
_SHOWN_LINES = 5


@dataclass(frozen=True)
class Server:
    """A GDB server: its command line, GDB's first commands, and the link's port ("" for none)."""

    name: str
    command: tuple[str, ...]
    first: tuple[str, ...]
    link: str = ""


def free_port() -> int:
    """Return a free TCP port of this computer."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def qemu_server(board: Board, elf: Path, gdb_port: int, link_port: int) -> Server:
    """Emulate a board that waits for GDB. Raises the errors of `qemu_command`."""
    chardev = f"socket,host=127.0.0.1,port={link_port},server=on,wait=off"
    command = (*qemu_command(board, elf, chardev), "-S", "-gdb", f"tcp:127.0.0.1:{gdb_port}")
    return Server(
        "qemu",
        command,
        (f"target extended-remote 127.0.0.1:{gdb_port}",),
        f"socket://127.0.0.1:{link_port}",
    )


def openocd_server(board: Board, settings: Mapping[str, str], gdb_port: int) -> Server:
    """Reach a real board, write the program, halt at reset.

    Raises BoardError for a board that OpenOCD does not know, ToolMissing without OpenOCD.
    """
    scripts = settings.get("config", "").split()
    if not scripts:
        raise BoardError(
            f"{board.name} is not debugged with openocd",
            hint='add a [[runner]] with name = "openocd" and config to the board\'s file',
        )
    program = shutil.which("openocd")
    if program is None:
        raise ToolMissing(
            "openocd is not installed", hint="install OpenOCD (Debian: apt install openocd)"
        )
    files = [word for script in scripts for word in ("-f", script)]
    # Other servers of OpenOCD would take ports that may be in use.
    ports = ("-c", f"gdb_port {gdb_port}", "-c", "telnet_port disabled; tcl_port disabled")
    first = (f"target extended-remote 127.0.0.1:{gdb_port}", "monitor reset halt", "load",
             "monitor reset halt")  # fmt: skip
    return Server("openocd", (program, *files, *ports), first)


def gdb_command(
    server: Server, elf: Path, script: Path, commands: Sequence[str], *, gdb: str | None = None
) -> list[str]:
    """Return GDB's command line; with `commands` it runs these and ends. Raises ToolMissing."""
    program = gdb or next((path for name in GDBS if (path := shutil.which(name))), None)
    if program is None:
        raise ToolMissing(
            "no GDB for microcontrollers is installed",
            details=(f"looked for {', '.join(GDBS)}",),
            hint="Debian: apt install gdb-multiarch; or start the server alone with --server-only",
        )
    line = [program, "-q", "-nx", "-x", str(script)]
    for command in (*server.first, *commands):
        line += ["-ex", command]
    return [*line, *(["-batch"] if commands else []), str(elf)]


class RunningServer:
    """A server in the background; a context manager that ends it."""

    def __init__(self, server: Server, log: Path, gdb_port: int) -> None:
        """Start it, and wait until GDB can connect. Raises RunFailed if it ends before."""
        self._log = log
        self._name = server.name
        with log.open("wb") as messages:
            # Its own session: Ctrl-C is for GDB, which stops the program with it.
            self._process = subprocess.Popen(
                server.command,
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                start_new_session=True,
            )
        try:
            self._wait(gdb_port)
        except BaseException:
            self.close()
            raise

    def _wait(self, gdb_port: int) -> None:
        end = time.monotonic() + _START_TIMEOUT_S
        while not _listens(gdb_port):
            if self._process.poll() is not None or time.monotonic() > end:
                said = self._log.read_text("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
                raise RunFailed(
                    f"{self._name} did not start a GDB server",
                    details=tuple(said),
                    hint="is the board connected?" if self._name == "openocd" else "",
                )
            time.sleep(0.05)

    def wait(self) -> None:
        """Wait until the server ends."""
        self._process.wait()

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _listens(port: int) -> bool:
    """Whether someone listens, without connecting: a GDB server serves the first who does."""
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
