"""Each call of a serial port fails once, in turn: one error each, and the device is still there."""

from __future__ import annotations

import errno

import pytest
import serial
from link_devices import SMALL_BYTES, MemoryDevice

from edgec.errors import LinkError, RunFailed
from edgec.link.client import LinkClient
from edgec.link.commands import Kind
from edgec.link.errors import PortUnavailable
from edgec.link.transport import SerialTransport

#: What pyserial and the system raise when an adapter is pulled out, or its driver gives up.
PROBLEMS = (
    serial.SerialException("device reports readiness to read but returned no data"),
    serial.SerialTimeoutException("Write timeout"),
    OSError(errno.EIO, "Input/output error"),
    OSError(errno.ENXIO, "No such device or address"),
)


class Port:
    """What SerialTransport uses of pyserial, with the device in this process behind it."""

    def __init__(self, device: MemoryDevice, fail_at: int | None) -> None:
        self._device = device
        self._fail_at = fail_at
        self._waiting = b""
        self.calls: list[str] = []

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if len(self.calls) - 1 == self._fail_at:
            raise PROBLEMS[self._fail_at % len(PROBLEMS)]

    def __setattr__(self, name: str, value: object) -> None:
        if name == "timeout":
            self._call("timeout")
        super().__setattr__(name, value)

    @property
    def in_waiting(self) -> int:
        self._call("in_waiting")
        return len(self._waiting)

    def write(self, data: bytes) -> None:
        self._call("write")
        self._waiting += self._device.feed(data)

    def read(self, count: int) -> bytes:
        self._call("read")
        data, self._waiting = self._waiting[:count], self._waiting[count:]
        return data

    def close(self) -> None:
        pass


def converse(device: MemoryDevice, fail_at: int | None) -> tuple[list[str], bytes]:
    transport = SerialTransport("loop://", 115200)
    transport._port.close()
    port = Port(device, fail_at)
    transport._port = port
    client = LinkClient(transport, patience_s=0.5)
    client.hello()
    client.write_input(1, bytes(range(SMALL_BYTES)))
    client.run()
    client.stack()
    return port.calls, client.read(Kind.INPUT, 1, SMALL_BYTES)


def test_each_call_fails_once(device: MemoryDevice) -> None:
    calls, expected = converse(device, None)
    assert {"write", "read", "timeout", "in_waiting"} == set(calls) and len(calls) > 20
    assert expected == bytes(range(SMALL_BYTES))
    for at, what in enumerate(calls):
        with pytest.raises((LinkError, RunFailed)) as caught:
            converse(device, at)
        assert isinstance(caught.value, PortUnavailable), (at, what)
        assert "loop://" in caught.value.message and caught.value.hint
    assert converse(device, None)[1] == expected
