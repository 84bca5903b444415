"""The errors of a link, by name."""

from __future__ import annotations

import errno
import os

from edgec.errors import LinkError
from edgec.link.fault import Fault, Locate, find_fault

_OPEN_HINTS = {
    errno.ENOENT: "is the board plugged in? `edgec doctor` lists the ports",
    errno.ENODEV: "is the board plugged in? `edgec doctor` lists the ports",
    errno.EACCES: "you may not use it: `edgec doctor` says how to get the right to",
    errno.EPERM: "you may not use it: `edgec doctor` says how to get the right to",
    errno.EBUSY: "another program uses the port: end that program first",
    errno.ENOTTY: "it is not a serial port; `edgec doctor` lists the serial ports",
    errno.EISDIR: "it is not a serial port; `edgec doctor` lists the serial ports",
}


class PortUnavailable(LinkError):
    """The serial port cannot be opened, or has gone."""


class SilentDevice(LinkError):
    """Nothing arrived at all."""


class LoopedBack(LinkError):
    """The host hears its own requests."""


class ForeignFirmware(LinkError):
    """Text arrives: another program runs on the device."""


class WrongBaudRate(LinkError):
    """Bytes arrive that are neither frames nor text."""


class WrongVersion(LinkError):
    """The device speaks another version of the protocol."""


class WrongModel(LinkError):
    """The device holds another model, or another build of it."""


class NotProven(LinkError):
    """The device does not prove to hold the project's key, or wants a key that is not here."""


class LinkLost(LinkError):
    """The device answered before, and then no more."""


class DeviceFault(LinkError):
    """The device's core stopped its program; `fault` is the reported text."""

    def __init__(self, where: str, fault: Fault, locate: Locate | None = None) -> None:
        super().__init__(
            f"the program at {where} stopped by a {fault.name}",
            details=fault.explain(locate),
            hint="restart the board; `edgec debug` shows the program up to there",
        )
        self.where = where
        self.fault = fault


class BadAnswer(LinkError):
    """An undamaged answer that makes no sense: a bug at one of the two ends."""

    def __init__(self, command: int, data: bytes) -> None:
        super().__init__(
            f"the device's answer to command {command} makes no sense",
            details=(f"{len(data)} bytes: {data[:32].hex(' ')}",),
            hint="build the project again with this edgec and flash it",
        )


class WrongSize(LinkError):
    """The device reports sizes or events that the project's manifest does not have."""

    def __init__(self, message: str) -> None:
        super().__init__(message, hint="flash the project that edgec built, with --trace")


class Refused(LinkError):
    """The device answered with a result code that is not 0; `code` is this code."""

    def __init__(self, command: str, code: int, meaning: str) -> None:
        super().__init__(f"the device refused '{command}': {meaning} (code {code})")
        self.code = code


def explain_port(port: str, error: Exception) -> PortUnavailable:
    """Return the error for a port that cannot be opened, from the system's error."""
    context = error.__context__
    number = getattr(error, "errno", None)
    if number is None and context is not None and context.args:
        number = context.args[0]  # pyserial includes the terminal's message
    if number == errno.EAGAIN:  # of a lock
        number = errno.EBUSY
    if number not in _OPEN_HINTS:
        return PortUnavailable(
            f"cannot open the serial port {port}: {error}",
            hint="is the board plugged in, does another program hold the port, may you use it?",
        )
    return PortUnavailable(
        f"cannot open the serial port {port}: {os.strerror(number)}", hint=_OPEN_HINTS[number]
    )


def explain_silence(heard: bytes, looped_back: bool, where: str, seconds: float) -> LinkError:
    """Return the error that explains the bytes received at `where` instead of an answer.

    heard: the first received bytes. looped_back: they contain the host's own requests.
    """
    if looped_back:
        return LoopedBack(
            f"{where} echoes the host's own bytes",
            details=("the host's own requests arrive, and no answers",),
            hint="TX and RX are connected to each other, or a modem echoes: check the wiring",
        )
    if not heard:
        return SilentDevice(
            f"no answer from {where} in {seconds:g} s: nothing arrives at all",
            hint="is the board powered and the program flashed, is this its port, are TX and RX "
            "exchanged?",
        )
    fault = find_fault(heard.decode("ascii", "replace"))
    if fault is not None:
        return DeviceFault(where, fault)
    if _is_text(heard):
        excerpt = heard.decode("ascii", "replace").strip()
        if "m-ready" in excerpt:
            return ForeignFirmware(
                f"the program at {where} speaks the protocol of MLPerf Tiny",
                hint="drive it with `edgec bench --suite mlperf-tiny --port`, or flash a project "
                "that was built without --harness",
            )
        return ForeignFirmware(
            f"another program runs on the device at {where}",
            details=(f"it says: {excerpt[:120]!r}",),
            hint="flash the project that edgec built",
        )
    return WrongBaudRate(
        f"{where} sends bytes that are not frames: wrong baud rate, or another program",
        details=(f"{len(heard)} bytes, the first: {heard[:16].hex(' ')}",),
        hint="check the board file's baud rate, then flash the project again",
    )


def _is_text(heard: bytes) -> bool:
    readable = sum(32 <= byte < 127 or byte in b"\r\n\t\x1b" for byte in heard)
    # At a wrong rate about 95 of 256 values would look readable.
    return len(heard) >= 4 and readable >= 0.85 * len(heard)
