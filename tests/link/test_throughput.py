"""How much of the line's rate a transfer uses, in simulated time: the same on every machine."""

from __future__ import annotations

import time

import numpy as np
import pytest
from link_devices import LARGE_BYTES, MemoryDevice

from edgec.link import client as client_module
from edgec.link import exchange as exchange_module
from edgec.link.client import LinkClient
from edgec.link.commands import Kind

BAUD = 115200
BYTE_S = 10.0 / BAUD


class Clock:
    """Stands in for the module `time`: goes on only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


class PacedLine:
    """A device behind a UART of `BAUD`, both directions at once; USB adds `delay_s` each way.

    The device answers a request when its last byte has arrived, and not before its own
    transmitter is free. What is read has come in packets, as USB adapters deliver it.
    """

    name = "a paced line"
    baud = BAUD

    def __init__(self, device: MemoryDevice, clock: Clock, delay_s: float) -> None:
        self._device = device
        self._clock = clock
        self._delay_s = delay_s
        self._sender_free = self._answer_free = 0.0
        self._arriving: list[tuple[float, bytes]] = []

    def write(self, data: bytes) -> None:
        start = max(self._clock.now + self._delay_s, self._sender_free)
        self._sender_free = start + len(data) * BYTE_S
        answer = self._device.feed(data)
        begin = max(self._sender_free, self._answer_free)
        self._answer_free = begin + len(answer) * BYTE_S
        self._arriving.append((self._answer_free + self._delay_s, answer))

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


@pytest.mark.parametrize("delay_s", [0.0, 0.001, 0.008])
def test_large_tensors_use_the_line(
    device: MemoryDevice, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """At least 85 % of the line's rate for tensors over 4 KB, in both directions."""
    clock = Clock()
    monkeypatch.setattr(exchange_module, "time", clock)
    monkeypatch.setattr(client_module, "time", clock)
    client = LinkClient(PacedLine(device, clock, delay_s))
    client.hello()
    data = np.random.default_rng(1).integers(0, 256, LARGE_BYTES, dtype=np.uint8).tobytes()
    assert LARGE_BYTES > 4096
    shares = []
    for transfer in ("write", "read"):
        started = clock.now
        if transfer == "write":
            client.write_input(0, data)
        else:
            assert client.read(Kind.INPUT, 0, LARGE_BYTES) == data
        shares.append(LARGE_BYTES * BYTE_S / (clock.now - started))
    assert client.counts.repeated == 0
    assert min(shares) >= 0.85, shares
    assert max(shares) < 1.0, shares  # or this line is quicker than a line can be


def test_the_clock_is_simulated() -> None:
    clock = Clock()
    assert clock.monotonic() == clock.monotonic() != time.monotonic()
