"""The output of a serial port as readable lines: text as it is, frames of the link by name."""

from __future__ import annotations

from edgec.link.commands import Command
from edgec.link.fault import Locate, find_fault
from edgec.link.frame import ANSWER, DAMAGED_TYPE, DELIMITER, VERSION_BYTE, Frame, unpack

_LONGEST = 8192


class Monitor:
    """Turns received bytes into lines. `locate` explains the addresses of a fault."""

    def __init__(self, locate: Locate | None = None) -> None:
        self._locate = locate
        self._part = bytearray()
        self._after_delimiter = False

    def feed(self, data: bytes) -> list[str]:
        """Take bytes; return the lines that they complete."""
        lines: list[str] = []
        self._part += data
        while self._part:
            ends = [self._part.find(mark) for mark in (b"\n", DELIMITER)]
            if self._is_frame():
                ends = ends[1:]  # a frame may hold line ends
            found = [at for at in ends if at >= 0]
            if not found:
                lines += self.flush() if len(self._part) > _LONGEST else []
                break
            piece = bytes(self._part[: min(found)])
            self._after_delimiter = self._part[min(found)] == 0
            del self._part[: min(found) + 1]
            frame = unpack(piece)
            if frame is not None:
                lines.append(describe(frame))
            elif piece.strip(b"\r"):
                lines += self._explain(_readable(piece))
        return lines

    def _is_frame(self) -> bool:
        """Whether a frame seems to begin here: after a delimiter, a code and a version."""
        if not self._after_delimiter or len(self._part) > _LONGEST:
            return False
        return len(self._part) < 2 or self._part[1] & 0xF0 == VERSION_BYTE & 0xF0

    def flush(self) -> list[str]:
        """Return the text since the last line end, when no more seems to come."""
        piece = bytes(self._part)
        self._part.clear()
        return self._explain(_readable(piece)) if piece.strip(b"\r") else []

    def _explain(self, line: str) -> list[str]:
        fault = find_fault(line)
        if fault is None:
            return [line]
        where = [f"[{place}]" for place in fault.explain(self._locate)]
        return [line, f"[the program stopped by a {fault.name}]", *where]


def describe(frame: Frame) -> str:
    """Return one line about a frame."""
    if frame.type == DAMAGED_TYPE:
        return "[link: the device received a damaged frame]"
    number = frame.type & ~ANSWER
    name = Command(number).name.lower() if number in set(Command) else f"command {number:02x}"
    kind = "answer to" if frame.type & ANSWER else "request"
    return f"[link: {kind} {name}, {len(frame.data)} bytes]"


def _readable(data: bytes) -> str:
    """Return text as it is, and other bytes as \\xNN."""
    text = data.strip(b"\r").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() or c == "\t" else f"\\x{ord(c):02x}" for c in text)
