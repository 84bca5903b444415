"""The qemu engine: a board's whole firmware on an emulated board, spoken to over its UART.

With `-icount shift=0` one instruction takes one nanosecond of emulated time, so the board's tick
counter counts instructions, the same on every machine and every day.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from edgec.boards.board import Board
from edgec.build.staging import work_folder
from edgec.errors import LinkError, RunFailed
from edgec.link.client import LinkClient
from edgec.link.commands import Identity, Stops
from edgec.link.errors import PortUnavailable
from edgec.link.seal import project_key
from edgec.link.transport import SerialTransport, SocketTransport, Transport
from edgec.runners.emulator import find_emulator
from edgec.runners.engine import Array, Project, RunCost, RunResult
from edgec.runners.on_link import LinkModel, LinkSession

# Emulated nanoseconds: shift=0 makes an instruction last 2**0 of them.
_INSTRUCTIONS_PER_SECOND = 1_000_000_000
_START_TIMEOUT_S = 20.0
_HELLO_PATIENCE_S = 20.0
_STOP_TIMEOUT_S = 5.0
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def qemu_command(board: Board, elf: Path, chardev: str) -> list[str]:
    """Return the command line that runs `elf`; `chardev` is QEMU's text for a character device.

    Raises RunFailed for a board that QEMU does not emulate, ToolMissing without QEMU.
    """
    program = find_emulator(board)
    assert board.qemu is not None
    return [
        program,
        *("-M", board.qemu.machine, *board.qemu.args),
        *("-icount", "shift=0"),
        *("-display", "none", "-monitor", "none"),
        *("-chardev", f"{chardev},id=link"),
        # The board's UARTs come in order: UARTs before the link's are not connected.
        *(["-serial", "null"] * board.qemu.serial_index),
        *("-serial", "chardev:link"),
        *("-kernel", str(elf)),
    ]


class QemuProcess:
    """A running emulator and the stream of its board's UART; a context manager.

    uart: "socket" (a local socket, on every system), or "pty" (a pseudo-terminal opened by
    pyserial like a real board's port, on POSIX).
    """

    def __init__(self, board: Board, elf: Path, *, uart: str = "socket") -> None:
        self.transport: Transport | None = None
        self._process: subprocess.Popen[bytes] | None = None
        # QEMU's messages go to a file: an unread pipe could fill and stop it.
        self._stack = contextlib.ExitStack()
        self._folder = self._stack.enter_context(work_folder("qemu"))
        self._messages = self._folder / "messages"
        self._name = f"the emulated {board.name}"
        try:
            if uart == "pty":
                self._start(qemu_command(board, elf, "pty"))
                self.transport = SerialTransport(self._find_pty(), 115200)
            else:
                self._open_socket(board, elf)
        except BaseException:
            self.close()
            raise

    def _open_socket(self, board: Board, elf: Path) -> None:
        """Listen, let QEMU connect, accept: so it cannot run before it is connected."""
        with contextlib.ExitStack() as stack:
            if hasattr(socket, "AF_UNIX"):
                path = str(self._folder / "uart")
                listener = stack.enter_context(socket.socket(socket.AF_UNIX))
                listener.bind(path)
                chardev = f"socket,path={path},server=off"
            else:
                listener = stack.enter_context(socket.socket())
                listener.bind(("127.0.0.1", 0))
                chardev = f"socket,host=127.0.0.1,port={listener.getsockname()[1]},server=off"
            listener.listen(1)
            listener.settimeout(0.1)
            self._start(qemu_command(board, elf, chardev))
            end = time.monotonic() + _START_TIMEOUT_S
            while True:
                try:
                    connection, _ = listener.accept()
                    break
                except TimeoutError:
                    self.check()
                    if time.monotonic() > end:
                        raise RunFailed(f"QEMU did not start in {_START_TIMEOUT_S:g} s") from None
            self.transport = SocketTransport(connection, self._name)

    def _start(self, command: list[str]) -> None:
        with self._messages.open("wb") as messages:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=messages,
                preexec_fn=_die_with_parent(),
            )

    def _find_pty(self) -> str:
        """Return the path of the pseudo-terminal that QEMU says it made."""
        end = time.monotonic() + _START_TIMEOUT_S
        while time.monotonic() < end:
            for word in self.messages().split():
                if word.startswith("/dev/"):
                    return word
            self.check()
            time.sleep(0.01)
        raise RunFailed("QEMU did not name a pseudo-terminal", details=(self.messages(),))

    def messages(self) -> str:
        with contextlib.suppress(OSError):
            return self._messages.read_text(encoding="utf-8", errors="replace").strip()
        return ""

    def check(self, *, is_ending: bool = False) -> None:
        """Raise RunFailed if QEMU has ended; wait a moment for that if it seems to be ending."""
        if self._process is None:
            return
        if is_ending:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_TIMEOUT_S)
        if self._process.poll() is not None:
            said = self.messages().splitlines()
            # After a fatal error the emulated core's registers are printed.
            fatal = [line for line in said if ": fatal: " in line]
            raise RunFailed(
                f"QEMU ended with status {self._process.returncode}",
                details=tuple(fatal or said[-5:]),
            )

    def close(self) -> None:
        """End QEMU and everything opened for it; harmless when called twice."""
        if self.transport is not None:
            self.transport.close()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._stack.close()

    def __enter__(self) -> QemuProcess:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _die_with_parent() -> Callable[[], None] | None:
    """Return a function that makes the child end if this process is killed; None off Linux."""
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl  # found here: a forked child should do as little as it can

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)

    return ask


class QemuSession(LinkSession):
    """A session on an emulated board; the traced program runs on a second one."""

    engine = "qemu"

    def __init__(self, project: Project, *, uart: str = "socket") -> None:
        super().__init__(project)
        assert project.board is not None  # `open_session` has checked
        self._board = project.board
        self._uart = uart
        self._key = project_key(project.project)
        self._processes: list[QemuProcess] = []
        try:
            self._model(False)
        except BaseException:
            self.close()
            raise

    def _open(self, trace: bool) -> LinkModel:
        process = QemuProcess(self._board, self.artefact(trace), uart=self._uart)
        self._processes.append(process)
        assert process.transport is not None
        client = LinkClient(process.transport, patience_s=60.0)
        try:
            return LinkModel(
                client, self.manifest, hello_patience_s=_HELLO_PATIENCE_S, key=self._key
            )
        except LinkError as error:
            # A QEMU that ended says why, which is better than a connection that is gone.
            process.check(is_ending=isinstance(error, PortUnavailable))
            raise

    def _run(self, inputs: list[Array], stops: Stops) -> RunResult:
        try:
            return super()._run(inputs, stops)
        except PortUnavailable:
            for process in self._processes:
                process.check(is_ending=True)
            raise

    def _cost(self, ticks: int, identity: Identity) -> RunCost:
        return RunCost(round(ticks * _INSTRUCTIONS_PER_SECOND / identity.ticks_hz), None)

    def close(self) -> None:
        for process in self._processes:
            process.close()
        self._processes.clear()
