"""The client's end of the worker process: start it, ask, and never wait for ever."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import edgec
from edgec.errors import RunFailed, ToolMissing
from edgec.sim.protocol import ProtocolError, read_frame, write_frame

_STDERR_TAIL_BYTES = 4000
_CLOSE_SECONDS = 2.0
_Frame = tuple[dict[str, Any], bytes]


class Channel:
    def __init__(self, command: list[str] | None = None) -> None:
        """Start `command`, the worker by default. Raises ToolMissing if it cannot start."""
        environment = dict(os.environ)
        package_root = str(Path(edgec.__file__).resolve().parent.parent)
        old_path = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = package_root + (os.pathsep + old_path if old_path else "")
        command = command or [sys.executable, "-m", "edgec.sim.worker"]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
            )
        except OSError as error:
            raise ToolMissing(f"cannot start the simulator: {error}") from error
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._requests: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self._replies: queue.Queue[_Frame | Exception | None] = queue.Queue()
        self._stderr = b""
        self._threads = [
            threading.Thread(target=self._read_replies, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._process.stderr,), daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        self._open = True

    def request(
        self, header: dict[str, Any], payload: bytes = b"", *, timeout_s: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send one request and return its reply.

        Raises ToolMissing for an absent simulator package, RunFailed for a worker that died,
        sent garbage, stayed silent for `timeout_s` seconds, or reports an error.
        """
        if not self._open:
            raise RunFailed("the simulator is closed")
        try:
            write_frame(self._requests, header, payload)
        except OSError:
            self._fail("the simulator process died")
        try:
            reply = self._replies.get(timeout=timeout_s)
        except queue.Empty:
            self._fail(f"the simulator did not answer `{header['command']}` within {timeout_s:g} s")
        if reply is None:
            self._fail("the simulator process died")
        if isinstance(reply, Exception):
            self._fail(f"the simulator's answer is garbage: {reply}")
        answer, data = reply
        if "missing" in answer:
            self.close()
            raise ToolMissing(
                f"the core simulator needs the Python package {answer['missing']}",
                details=(answer["reason"],),
                hint='pip install "edgec[sim]"',
            )
        if "error" in answer:
            raise RunFailed(
                f"the simulator refused `{header['command']}`: {answer['error']}",
                details=tuple(answer.get("traceback", "").splitlines()[-6:]),
            )
        return answer, data

    def close(self) -> None:
        if not self._open:
            return
        self._open = False
        with contextlib.suppress(OSError):
            self._requests.close()  # the worker ends with its input
        try:
            self._process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _fail(self, message: str) -> NoReturn:
        self._process.kill()
        self.close()
        tail = self._stderr.decode(errors="replace").strip().splitlines()[-8:]
        raise RunFailed(message, details=(f"exit status {self._process.returncode}", *tail))

    def _read_replies(self, stream: BinaryIO) -> None:
        try:
            while (frame := read_frame(stream)) is not None:
                self._replies.put(frame)
            self._replies.put(None)
        except (ProtocolError, OSError, ValueError) as error:
            self._replies.put(error)

    def _read_stderr(self, stream: BinaryIO) -> None:
        while part := stream.read1(4096):  # type: ignore[attr-defined]
            self._stderr = (self._stderr + part)[-_STDERR_TAIL_BYTES:]
