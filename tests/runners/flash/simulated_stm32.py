"""An STM32's system boot loader, byte by byte as AN3155 describes it, on a pseudo-terminal.

Written from the document, not from the client, and checked against Debian's `stm32flash`. Flash
behaves like flash: writing clears bits and cannot set them, or is refused where something was
written (`has_ecc`), until the sector is erased. Faults are drawn from a seed.
"""

from __future__ import annotations

import os
import random
import select
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from operator import xor

from edgec.link.transport import Transport

ACK, NACK = b"\x79", b"\x1f"
FLASH = 0x0800_0000
RAM = 0x2000_0000
COMMANDS = (0x00, 0x01, 0x02, 0x11, 0x21, 0x31, 0x44, 0x63, 0x73, 0x82, 0x92)
ALLOWED_WHEN_PROTECTED = (0x00, 0x01, 0x02, 0x92)


@dataclass(frozen=True)
class Faults:
    """Shares of what goes wrong: of answers (refused, silent, preceded by garbage, changed) and
    of single bytes that the host sends (lost, changed)."""

    refuse: float = 0.0
    silence: float = 0.0
    garbage: float = 0.0
    change: float = 0.0
    lose_byte: float = 0.0
    change_byte: float = 0.0


class SimulatedStm32:
    """The chip: `flash` and `ram` as bytes, `started` the address that Go went to."""

    def __init__(
        self,
        sectors: list[int],
        *,
        seed: int = 0,
        faults: Faults | None = None,
        protected: bool = False,
        has_ecc: bool = False,
        product_id: int = 0x413,
        is_old: bool = False,
    ) -> None:
        """is_old: a boot loader before 3.0, whose erase has one byte for each page."""
        self.flash = bytearray(b"\xff" * sum(sectors))
        self.ram = bytearray(0x3000)
        self.started: int | None = None
        self.heard_bytes = self.said_bytes = 0
        self.erased: list[int] = []
        self.faults_done = 0
        self.dead = False
        self.die_after_writes: int | None = None
        self.unplug_after_writes: int | None = None
        self.unplugged = False
        self._sectors = sectors
        self._random = random.Random(seed)
        self._faults = faults or Faults()
        self._protected = protected
        self._has_ecc = has_ecc
        self._product_id = product_id
        self._commands = tuple(0x43 if c == 0x44 and is_old else c for c in COMMANDS)
        self.press_reset()

    def press_reset(self) -> None:
        """Start again, with BOOT0 high."""
        self._machine = self._run()
        next(self._machine)

    def feed(self, data: bytes) -> bytes:
        """What the chip answers to these bytes."""
        said = self._answer(data)
        # In this order: who finds that all was heard also finds all that it made the chip say.
        self.said_bytes += len(said)
        self.heard_bytes += len(data)
        return said

    def _answer(self, data: bytes) -> bytes:
        out = bytearray()
        for byte in data:
            if self.dead or self.started is not None:
                break
            if self._random.random() < self._faults.lose_byte:
                self.faults_done += 1
                continue
            if self._random.random() < self._faults.change_byte:
                self.faults_done += 1
                byte ^= self._random.randrange(1, 256)
            answer = self._machine.send(byte)
            while answer is not None:
                out += self._spoil(answer)
                answer = next(self._machine)
        return bytes(out)

    def _spoil(self, answer: bytes) -> bytes:
        draw = self._random.random()
        for name in ("silence", "garbage", "change"):
            share = getattr(self._faults, name)
            if draw < share:
                self.faults_done += 1
                noise = bytes(self._random.randrange(256) for _ in range(3))
                if name == "silence":
                    return b""
                if name == "garbage":
                    return noise[: self._random.randrange(1, 4)] + answer
                at = self._random.randrange(len(answer))
                return answer[:at] + noise[:1] + answer[at + 1 :]
            draw -= share
        return answer

    def _refuses(self) -> bool:
        if self._random.random() < self._faults.refuse:
            self.faults_done += 1
            return True
        return False

    # A generator: receives a byte at each bare `yield`, and yields bytes to send them.

    def _run(self) -> Iterator[bytes | None]:
        while (yield None) != 0x7F:
            pass
        yield ACK
        while True:
            command = yield None
            complement = yield None
            if command ^ complement != 0xFF or command not in self._commands or self._refuses():
                yield NACK
                continue
            if self._protected and command not in ALLOWED_WHEN_PROTECTED:
                yield NACK
                continue
            if command == 0x00:
                yield ACK
                yield bytes([len(self._commands), 0x22 if 0x43 in self._commands else 0x31])
                yield bytes(self._commands)
                yield ACK
            elif command == 0x01:
                yield ACK
                yield b"\x31\x00\x00"
                yield ACK
            elif command == 0x02:
                yield ACK
                yield b"\x01" + self._product_id.to_bytes(2, "big")
                yield ACK
            elif command == 0x11:
                yield ACK
                yield from self._read()
            elif command == 0x21:
                yield ACK
                address = yield from self._address()
                if address is not None:
                    yield ACK
                    self.started = address
            elif command == 0x31:
                yield ACK
                yield from self._write()
            elif command == 0x44:
                yield ACK
                yield from self._erase()
            elif command == 0x43:
                yield ACK
                yield from self._erase_old()
            else:
                yield NACK

    def _bytes(self, count: int):
        data = bytearray()
        for _ in range(count):
            byte = yield None
            data.append(byte)
        return bytes(data)

    def _address(self):
        """An address with its checksum, or None after refusing it."""
        data = yield from self._bytes(5)
        address = int.from_bytes(data[:4], "big")
        known = (FLASH <= address < FLASH + len(self.flash)) or (
            RAM <= address < RAM + len(self.ram)
        )
        if reduce(xor, data) or not known or self._refuses():
            yield NACK
            return None
        return address

    def _place(self, address: int) -> tuple[bytearray, int]:
        return (self.ram, address - RAM) if address >= RAM else (self.flash, address - FLASH)

    def _read(self):
        address = yield from self._address()
        if address is None:
            return
        yield ACK
        count, complement = yield from self._bytes(2)
        if count ^ complement != 0xFF:
            yield NACK
            return
        yield ACK
        memory, at = self._place(address)
        yield bytes(memory[at : at + count + 1])

    def _write(self):
        address = yield from self._address()
        if address is None:
            return
        yield ACK
        count = yield None
        rest = yield from self._bytes(count + 2)
        data, checksum = rest[:-1], rest[-1]
        memory, at = self._place(address)
        if reduce(xor, data, count) != checksum or len(data) % 4 or self._refuses():
            yield NACK
            return
        if memory is self.flash:
            old = memory[at : at + len(data)]
            if self._has_ecc and any(byte != 0xFF for byte in old):
                yield NACK
                return
            data = bytes(a & b for a, b in zip(old, data, strict=True))
            if self.die_after_writes is not None:
                self.die_after_writes -= 1
                if self.die_after_writes < 0:
                    self.dead = True
                    data = data[: len(data) // 2]  # power went in the middle of a block
            if self.unplug_after_writes is not None:
                self.unplug_after_writes -= 1
                self.unplugged = self.unplug_after_writes < 0
        memory[at : at + len(data)] = data
        yield ACK

    def _erase(self):
        high, low = yield from self._bytes(2)
        count = 256 * high + low
        if count >= 0xFFFD:  # the whole flash or a bank
            checksum = yield None
            if checksum != high ^ low or self._refuses():
                yield NACK
                return
            self._erase_sectors(range(len(self._sectors)))
            yield ACK
            return
        pages = yield from self._bytes(2 * (count + 1))
        checksum = yield None
        numbers = [256 * pages[i] + pages[i + 1] for i in range(0, len(pages), 2)]
        wrong = reduce(xor, pages, high ^ low) != checksum
        if wrong or any(n >= len(self._sectors) for n in numbers) or self._refuses():
            yield NACK
            return
        self._erase_sectors(numbers)
        yield ACK

    def _erase_old(self):
        count = yield None
        if count == 0xFF:  # the whole flash; the complement in the place of a checksum
            if (yield None) != 0x00 or self._refuses():
                yield NACK
                return
            self._erase_sectors(range(len(self._sectors)))
            yield ACK
            return
        pages = yield from self._bytes(count + 1)
        checksum = yield None
        wrong = reduce(xor, pages, count) != checksum
        if wrong or any(n >= len(self._sectors) for n in pages) or self._refuses():
            yield NACK
            return
        self._erase_sectors(pages)
        yield ACK

    def _erase_sectors(self, numbers) -> None:
        for number in numbers:
            start = sum(self._sectors[:number])
            length = self._sectors[number]
            self.flash[start : start + length] = b"\xff" * length
            self.erased.append(number)


@contextmanager
def on_pty(chip: SimulatedStm32) -> Iterator[str]:
    """Let the chip answer on a pseudo-terminal; gives the path to open."""
    master, slave = os.openpty()
    tty.setraw(slave)
    stop = threading.Event()
    name = os.ttyname(slave)

    def serve() -> None:
        while not stop.is_set():
            ready, _, _ = select.select([master], [], [], 0.05)
            if not ready:
                continue
            with suppress(OSError):
                answer = chip.feed(os.read(master, 4096))
                if chip.unplugged:
                    break
                if answer:
                    os.write(master, answer)
        os.close(master)  # the terminal is gone for who has it open
        os.close(slave)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield name
    finally:
        stop.set()
        thread.join()


class LineTime:
    """Simulated time: bytes and silence advance it, and nothing really waits."""

    baud = 115200

    def __init__(self) -> None:
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        self._now_s += seconds

    def pass_read(self, data: bytes, timeout_s: float) -> bytes:
        """Let the time go by of a read that found `data`, and return that."""
        self._now_s += 10 * len(data) / self.baud if data else max(timeout_s, 0.001)
        return data


class DirectLine(LineTime):
    """The chip as a transport without a terminal, for runs by the hundred."""

    name = "the simulated chip"

    def __init__(self, chip: SimulatedStm32) -> None:
        super().__init__()
        self._chip = chip
        self._waiting = b""

    def write(self, data: bytes) -> None:
        self._waiting += self._chip.feed(data)

    def read(self, timeout_s: float) -> bytes:
        data, self._waiting = self._waiting, b""
        return self.pass_read(data, timeout_s)

    def close(self) -> None:
        pass


class TerminalLine(LineTime):
    """The chip behind a real transport, whose silence is counted, not timed.

    A read comes back with nothing when the chip has heard all that was written and all that it
    said has been read: however slow this computer is, an answer is waited for, and however quick,
    silence is none of the test's time.
    """

    def __init__(self, chip: SimulatedStm32, transport: Transport) -> None:
        super().__init__()
        self._chip = chip
        self._transport = transport
        self._heard_before = chip.heard_bytes
        self._said_before = chip.said_bytes
        self._written = self._read = 0
        self.name = transport.name

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    def read(self, timeout_s: float) -> bytes:
        while True:
            is_silent = (
                self._chip.heard_bytes - self._heard_before == self._written
                and self._chip.said_bytes - self._said_before == self._read
            )
            data = self._transport.read(0.0 if is_silent else 0.01)
            self._read += len(data)
            if data or is_silent:
                return self.pass_read(data, timeout_s)

    def close(self) -> None:
        self._transport.close()


class FailingPort:
    """What SerialTransport uses of pyserial, with the chip behind it; one of its calls fails."""

    def __init__(
        self, chip: SimulatedStm32, line: DirectLine, fail_at: int | None, problem: Exception
    ) -> None:
        self._chip, self._line = chip, line
        self._fail_at, self._problem = fail_at, problem
        self._waiting = b""
        self.calls: list[str] = []
        self.is_open = False

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if len(self.calls) - 1 == self._fail_at:
            raise self._problem

    def __setattr__(self, name: str, value: object) -> None:
        if name in ("timeout", "dtr", "rts"):
            self._call(name)
        super().__setattr__(name, value)

    @property
    def in_waiting(self) -> int:
        self._call("in_waiting")
        return len(self._waiting)

    def open(self) -> None:
        self._call("open")
        self.is_open = True

    def write(self, data: bytes) -> None:
        self._call("write")
        self._waiting += self._chip.feed(data)

    def read(self, count: int) -> bytes:
        self._call("read")
        data, self._waiting = self._waiting[:count], self._waiting[count:]
        return self._line.pass_read(data, self.timeout)

    def close(self) -> None:
        self.is_open = False
