"""Streams of bytes that a link can use: serial ports, pseudo-terminals, sockets."""

from __future__ import annotations

import errno
import os
import select
import socket
from collections.abc import Mapping
from typing import Any, Literal, Protocol, Self

from edgec.errors import ToolMissing
from edgec.link.errors import PortUnavailable, explain_port

_MOST_AT_ONCE = 4096
_WRITE_TIMEOUT_S = 10.0


class Transport(Protocol):
    """A stream of bytes in both directions.

    `name` says where it leads, for errors; `baud` is its speed in bits per second (ten for a
    byte), or None where it is much faster than any exchange.
    """

    @property
    def name(self) -> str:
        """Name of the stream's other end."""
        ...

    @property
    def baud(self) -> int | None:
        """Bits per second, ten for a byte."""
        ...

    def write(self, data: bytes) -> None:
        """Send all of `data`. Raises PortUnavailable when the other end has gone."""
        ...

    def read(self, timeout_s: float) -> bytes:
        """Return the received bytes, at least one; b"" if nothing came in `timeout_s`."""
        ...

    def close(self) -> None:
        """Close the stream; harmless when called twice."""
        ...


class TransportOwner:
    """A protocol over a transport: a context manager that closes the transport at its end."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class SerialTransport:
    """A serial port or pseudo-terminal through pyserial; also its URLs, such as socket://."""

    def __init__(
        self,
        port: str,
        baud: int,
        *,
        parity: Literal["N", "E"] = "N",
        lines: Mapping[str, bool] | None = None,
    ) -> None:
        """Open `port`, 8 data bits, 1 stop bit; `lines` are the levels of DTR and RTS.

        Raises PortUnavailable, or ToolMissing without pyserial.
        """
        try:
            import serial
        except ImportError as error:
            raise ToolMissing(
                "the Python package pyserial is not installed", hint="pip install pyserial"
            ) from error
        self.name = port
        self.baud: int | None = baud
        self._errors = (serial.SerialException, OSError, *_termios_errors())
        try:
            self._port: Any = serial.serial_for_url(
                port,
                baudrate=baud,
                parity=parity,
                timeout=0,
                write_timeout=_WRITE_TIMEOUT_S,
                do_not_open=True,
                # Two programs at one port would each receive half of the bytes.
                **({"exclusive": True} if os.name == "posix" and "://" not in port else {}),
            )
            for line, is_on in (lines or {}).items():
                setattr(self._port, line, is_on)
            self._port.open()
        except (*self._errors, ValueError) as error:
            raise explain_port(port, error) from error

    def write(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except self._errors as error:
            raise self._gone(error) from error

    def read(self, timeout_s: float) -> bytes:
        try:
            self._port.timeout = timeout_s
            first: bytes = self._port.read(1)
            if not first:
                return b""
            waiting = min(self._port.in_waiting, _MOST_AT_ONCE)
            return first + bytes(self._port.read(waiting)) if waiting else first
        except self._errors as error:
            raise self._gone(error) from error

    def set_line(self, line: str, is_on: bool) -> None:
        """Switch the control line "dtr" or "rts". Raises PortUnavailable where there is none."""
        try:
            setattr(self._port, line, is_on)
        except self._errors as error:
            raise PortUnavailable(
                f"{self.name} has no line {line.upper()}: {error}",
                hint="remove `reset` and `boot0` from the board's file, and press the buttons",
            ) from error

    def _gone(self, error: Exception) -> PortUnavailable:
        if isinstance(error, _termios_errors()) and error.args[:1] == (errno.EINVAL,):
            return PortUnavailable(
                f"the serial port {self.name} refuses {self.baud} baud or its parity",
                hint="take another rate, or another adapter; for `edgec flash` the board's file "
                'can say parity = "none"',
            )
        return PortUnavailable(
            f"the serial port {self.name} is gone: {error}", hint="was the board unplugged?"
        )

    def close(self) -> None:
        self._port.close()


def _termios_errors() -> tuple[type[Exception], ...]:
    """Return the errors of POSIX terminals for unsupported settings, such as parity on a pty."""
    try:
        import termios
    except ImportError:
        return ()
    return (termios.error,)


class SocketTransport:
    def __init__(self, connection: socket.socket, name: str, baud: int | None = None) -> None:
        self.name = name
        self.baud = baud
        self._socket = connection
        self._socket.settimeout(_WRITE_TIMEOUT_S)

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise self._gone(str(error)) from error

    def read(self, timeout_s: float) -> bytes:
        try:
            ready, _, _ = select.select([self._socket], [], [], max(timeout_s, 0.0))
            if not ready:
                return b""
            data = self._socket.recv(_MOST_AT_ONCE)
        except (OSError, ValueError) as error:
            raise self._gone(str(error)) from error
        if not data:
            raise self._gone("the other end closed it")
        return data

    def _gone(self, reason: str) -> PortUnavailable:
        return PortUnavailable(f"the connection to {self.name} is gone: {reason}")

    def close(self) -> None:
        self._socket.close()
