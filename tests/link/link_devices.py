"""Devices for the tests of the link: the C side as a process or in memory, and bad lines."""

from __future__ import annotations

import ctypes
import os
import random
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from edgec.boards.toolchain import find_toolchain
from edgec.build.host import build_host_library, build_host_program
from edgec.codegen.project import render
from edgec.link.errors import PortUnavailable
from edgec.link.frame import Frame
from edgec.targets.core import find_core

HERE = Path(__file__).parent
RUNTIME = HERE.parents[1] / "runtime_c"
LINK_SOURCES = [RUNTIME / "link" / name for name in ("ec_link.c", "ec_link_frame.c")]
SOURCES = [*LINK_SOURCES, HERE / "fake_model.c"]
INCLUDES = [HERE, RUNTIME / "link", RUNTIME / "ports"]

LARGE_BYTES = 5000
SMALL_BYTES = 5
MODEL_HASH = 0x12345678

BAUD = 115200
BYTE_S = 10.0 / BAUD


KEY = bytes(range(16))


def keyed_sources(folder: Path, key: bytes = KEY) -> list[Path]:
    """The link's files with a key, as a project has them, in a new `folder`; returns the C ones."""
    folder.mkdir()
    for path in (RUNTIME / "link").glob("*.[ch]"):
        shutil.copy(path, folder)
    values = [f"0x{byte:02x}" for byte in key]
    header = render("ec_link_key.h.j2", key_bytes=values)
    (folder / "ec_link_key.h").write_text(header, encoding="utf-8")
    return sorted(folder.glob("*.c"))


def build_process_device(folder: Path, *, traced: bool = True, keyed: bool = False) -> Path:
    """The device as a program that speaks on standard input and output."""
    sources = keyed_sources(folder / "link") if keyed else LINK_SOURCES
    return build_host_program(
        [*sources, *(HERE / name for name in ("fake_model.c", "port_stdio.c", "link_main.c"))],
        folder / f"device{traced:d}",
        toolchain=find_toolchain(find_core("host")),
        include_dirs=[HERE, sources[0].parent, RUNTIME / "ports"],
        # The port reads and writes file descriptors, which C99 alone does not know.
        defines=["_POSIX_C_SOURCE=200809L", *(["EC_TRACE_HOOK"] if traced else [])],
    )


def build_memory_device(folder: Path) -> Path:
    """The device as a shared library."""
    return build_host_library(
        [*SOURCES, HERE / "port_memory.c"],
        folder / "device.so",
        toolchain=find_toolchain(find_core("host")),
        include_dirs=INCLUDES,
        defines=["EC_TRACE_HOOK"],
    )


class MemoryDevice:
    """The C side in this process: bytes in, bytes out. It is one device however often opened."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        rescue = Frame(1, 0x7777).pack()
        self._library.device_set_rescue(rescue, len(rescue))

    def feed(self, data: bytes) -> bytes:
        answer = ctypes.create_string_buffer(1 << 16)
        count = self._library.device_feed(data, len(data), answer, len(answer))
        return answer.raw[:count]

    @property
    def restarts(self) -> int:
        return self._library.device_restarts()


class ProcessTransport:
    """The C side in a process of its own."""

    name = "the test device"
    baud = None

    def __init__(self, program: Path) -> None:
        self._process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def write(self, data: bytes) -> None:
        try:
            self._process.stdin.write(data)
        except OSError as error:
            raise PortUnavailable(str(error)) from error

    def read(self, timeout_s: float) -> bytes:
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not ready:
            return b""
        data = os.read(self._process.stdout.fileno(), 4096)
        if not data:
            raise PortUnavailable("the device has ended")
        return data

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=10)
        self._process.stdout.close()


class ScriptedTransport:
    """A device that answers by a Python function from bytes to bytes."""

    name = "the scripted device"
    baud = None

    def __init__(self, answer) -> None:
        self._answer = answer
        self._waiting = b""

    def write(self, data: bytes) -> None:
        self._waiting += self._answer(data)

    def read(self, timeout_s: float) -> bytes:
        data, self._waiting = self._waiting, b""
        if not data:
            select.select([], [], [], min(timeout_s, 0.05))
        return data

    def close(self) -> None:
        pass


class BadLine:
    """Passes bytes on, of which a share is changed, dropped or doubled, in both directions."""

    def __init__(self, inner, share: float, seed: int) -> None:
        self._inner = inner
        self._share = share
        self._random = random.Random(seed)
        self.name = inner.name
        self.baud = inner.baud
        self.faults = 0

    def write(self, data: bytes) -> None:
        self._inner.write(self._spoil(data))

    def read(self, timeout_s: float) -> bytes:
        return self._spoil(self._inner.read(timeout_s))

    def close(self) -> None:
        self._inner.close()

    def _spoil(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            if self._random.random() >= self._share:
                out.append(byte)
                continue
            self.faults += 1
            fault = self._random.randrange(3)
            if fault == 0:
                out.append(byte ^ self._random.randrange(1, 256))
            elif fault == 1:
                out += bytes((byte, byte))
        return bytes(out)


class Clock:
    """Stands in for the module `time`: goes on only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class PacedLine:
    """A device behind a UART of `BAUD`, both directions at once, late by `delay` seconds each way.

    The device answers a request when its last byte has arrived, and not before its own
    transmitter is free. What is read has come in packets, as USB adapters deliver it.
    """

    name = "a paced line"
    baud = BAUD

    def __init__(self, device: MemoryDevice, clock: Clock, delay: Callable[[], float]) -> None:
        self._device = device
        self._clock = clock
        self._delay = delay
        self._sender_free = self._answer_free = 0.0
        self._arriving: list[tuple[float, bytes]] = []

    def write(self, data: bytes) -> None:
        start = max(self._clock.now + self._delay(), self._sender_free)
        self._sender_free = start + len(data) * BYTE_S
        answer = self._device.feed(data)
        begin = max(self._sender_free, self._answer_free)
        self._answer_free = begin + len(answer) * BYTE_S
        last = self._arriving[-1][0] if self._arriving else 0.0  # order is kept
        self._arriving.append((max(self._answer_free + self._delay(), last), answer))

    def read(self, timeout_s: float) -> bytes:
        end = self._clock.now + timeout_s
        if not self._arriving or self._arriving[0][0] > end:
            self._clock.now = end
            return b""
        arrives, data = self._arriving.pop(0)
        self._clock.now = max(self._clock.now, arrives)
        return data

    def close(self) -> None:
        pass
