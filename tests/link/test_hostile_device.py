"""Devices that answer anything at all: each method of the link returns, or raises one error."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from edgec.errors import EdgecError
from edgec.link import client as client_module
from edgec.link import exchange
from edgec.link.client import LinkClient
from edgec.link.commands import Kind
from edgec.link.frame import ANSWER, DAMAGED_TYPE, VERSION_BYTE, Frame, unpack
from edgec.link.trace_limits import TraceLimits

#: Seconds of the device's clock after which every method must have ended.
MOST_S = 700.0


class Device:
    """Answers of the right form with wrong contents, frames of no form, and bytes."""

    name, baud = "hostile", None

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.now = 0.0
        self.asked: list[Frame] = []
        #: How often each kind of answer comes: most devices have one habit.
        self.habits = [self.chance.random() ** 4 for _ in range(7)]

    def monotonic(self) -> float:
        self.now += 1e-3
        return self.now

    def write(self, data: bytes) -> None:
        frame = unpack(data.strip(b"\0"))
        self.asked = [*self.asked[-3:], frame] if frame is not None else self.asked

    def close(self) -> None:
        """Nothing is open."""

    def read(self, timeout_s: float) -> bytes:
        self.now += self.chance.choice([0.2, 0.5, 2.0])
        say = self.chance.choices(range(7), self.habits)[0]
        last = self.asked[-1] if self.asked else Frame(1, 0)
        size = self.chance.choice([0, 1, 4, 8, 12, 24, 25, 36, 40, 300, 4000])
        data = b"\0" * self.chance.randint(0, 1) + self.chance.randbytes(size)
        if say == 0:
            return b""
        if say == 1:
            return self.chance.randbytes(self.chance.choice([1, 50, 4096]))
        if say == 2:
            return b"\0" + bytes(self.chance.choices(range(1, 256), k=4095))
        if say == 3:
            return Frame(DAMAGED_TYPE, 0).pack()
        kind = last.type | ANSWER if say > 4 else self.chance.randrange(256)
        number = last.sequence if say > 4 else self.chance.randrange(65536)
        version = VERSION_BYTE if self.chance.random() < 0.99 else self.chance.randrange(256)
        if say == 6:  # an answer such as the protocol has them, of numbers that nothing bounds
            data = b"\0" + self.likely(last)
        return Frame(kind, number, data, version).pack()

    def likely(self, last: Frame) -> bytes:
        """Data of the right length for what was asked."""
        if last.type == 1:
            head = bytes(self.chance.randrange(4) for _ in range(6)) + self.chance.randbytes(14)
            return head + b"board\0model\x1b[2J\0" + self.chance.randbytes(3) + b"\0"
        if last.type == 5:
            return self.chance.randbytes(struct.unpack("<H", last.data[6:8])[0])
        if last.type in (6, 7):
            stands = self.chance.random() < 0.9
            return b"\1" + self.chance.randbytes(24) if stands else b"\0" + bytes(34)
        return self.chance.randbytes({2: 4, 8: 12, 12: 32}.get(last.type, 4))


def methods(client: LinkClient) -> list[Callable[[], Any]]:
    limits = TraceLimits({1: 100}, 50)
    return [
        client.hello,
        lambda: client.prove(client.hello(), bytes(16)),
        lambda: client.tensor_bytes(Kind.OUTPUT, 0),
        lambda: client.write_input(0, bytes(3000)),
        lambda: client.read(Kind.OUTPUT, 0, 3000),
        client.run,
        lambda: client.traced_run(lambda *_: None, limits=limits),
        client.stack, client.selftest, client.reset, client.restart,
        lambda: client.echo(b"abc"),
    ]  # fmt: skip


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_whatever_a_device_says_ends_in_words(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    returned = 0
    for seed in range(first, first + 30):
        device = Device(seed)
        for module in (exchange, client_module):
            monkeypatch.setattr(module, "time", device)
        client = LinkClient(device)
        for method in methods(client):
            start = device.now
            try:
                method()
                returned += 1
            except EdgecError as error:
                assert "\x1b" not in error.render()
            assert device.now - start < MOST_S, seed
        assert len(client._exchange.heard) <= 200 and len(client._exchange._given_up) <= 256
        assert len(client._exchange._reader._part) <= 8192
    assert returned > 30  # some are understood by chance


class Complaining(Device):
    """Hears everything damaged, a thousand times a second."""

    def read(self, timeout_s: float) -> bytes:
        return Frame(DAMAGED_TYPE, 0).pack()


def test_a_device_that_only_complains_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """After 1,750 tries the time to wait was too large a number, and that a traceback."""
    device = Complaining(0)
    for module in (exchange, client_module):
        monkeypatch.setattr(module, "time", device)
    with pytest.raises(EdgecError, match="has not answered"):
        LinkClient(device).stack()
    assert device.now < MOST_S
