"""How much of the line's rate a transfer uses, in simulated time: the same on every machine."""

from __future__ import annotations

import time

import numpy as np
import pytest
from link_devices import BYTE_S, LARGE_BYTES, Clock, MemoryDevice, PacedLine

from edgec.link import client as client_module
from edgec.link import exchange as exchange_module
from edgec.link.client import LinkClient
from edgec.link.commands import Kind


@pytest.mark.parametrize("delay_s", [0.0, 0.001, 0.008])
def test_large_tensors_use_the_line(
    device: MemoryDevice, monkeypatch: pytest.MonkeyPatch, delay_s: float
) -> None:
    """At least 85 % of the line's rate for tensors over 4 KB, in both directions."""
    clock = Clock()
    monkeypatch.setattr(exchange_module, "time", clock)
    monkeypatch.setattr(client_module, "time", clock)
    client = LinkClient(PacedLine(device, clock, lambda: delay_s))
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
