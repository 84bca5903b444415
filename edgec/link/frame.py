"""Frames of the link, and how a stream of bytes is cut into them."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from edgec.link import cobs

VERSION = 1
"""Version of the protocol."""

VERSION_BYTE = 0xE0 + VERSION
DELIMITER = b"\0"
ANSWER = 0x80
"""Added to a command's type in its answer."""

DAMAGED_TYPE = 0xFF
"""Type of the frame by which a device says that something damaged arrived."""

_HEADER = struct.Struct("<BBHH")
_CRC = struct.Struct("<I")
# The largest chunk, the longest arguments, header, crc and stuffing fit with room to spare.
_MOST_STUFFED_BYTES = 8192


@dataclass(frozen=True)
class Frame:
    """One frame; `version` is the whole first byte."""

    type: int
    sequence: int
    data: bytes = b""
    version: int = VERSION_BYTE

    def pack(self) -> bytes:
        body = _HEADER.pack(self.version, self.type, self.sequence, len(self.data)) + self.data
        body += _CRC.pack(zlib.crc32(body))
        return DELIMITER + cobs.encode(body) + DELIMITER


def unpack(stuffed: bytes) -> Frame | None:
    """Return the frame between two delimiters, or None if it is damaged."""
    body = cobs.decode(stuffed)
    if body is None or len(body) < _HEADER.size + _CRC.size:
        return None
    version, type_, sequence, length = _HEADER.unpack_from(body)
    data = body[_HEADER.size : -_CRC.size]
    (crc,) = _CRC.unpack_from(body, len(body) - _CRC.size)
    if length != len(data) or crc != zlib.crc32(body[: -_CRC.size]):
        return None
    return Frame(type_, sequence, data, version)


class FrameReader:
    """Cuts a stream of bytes into frames; synchronous again at the next delimiter after any damage.

    `damaged` counts the pieces between delimiters that were not frames.
    """

    def __init__(self) -> None:
        self._part = bytearray()
        self._is_too_long = False
        self.damaged = 0

    def feed(self, data: bytes) -> list[Frame | None]:
        """Take bytes; return the frames that they complete, None for each damaged one."""
        found: list[Frame | None] = []
        pieces = data.split(DELIMITER)
        for number, piece in enumerate(pieces):
            self._part += piece
            if len(self._part) > _MOST_STUFFED_BYTES:
                self._is_too_long = True
                self._part.clear()
            if number == len(pieces) - 1:
                break  # no delimiter after it yet
            if self._part or self._is_too_long:
                frame = None if self._is_too_long else unpack(bytes(self._part))
                self.damaged += frame is None
                found.append(frame)
            self._part.clear()
            self._is_too_long = False
        return found
