"""Consistent Overhead Byte Stuffing: bytes without a zero, so that zero can end a frame.

Cheshire and Baker, "Consistent Overhead Byte Stuffing", IEEE/ACM Transactions on Networking,
1999. A code byte c stands for the c - 1 bytes after it and then a zero; code 255 for 254 bytes
and no zero; the zero after the last block does not count.
"""

from __future__ import annotations

_FULL = 0xFF


def encode(data: bytes) -> bytes:
    """Return `data` stuffed: one byte longer, and one more for each 254 bytes without a zero."""
    out = bytearray()
    parts = data.split(b"\0")
    for number, part in enumerate(parts):
        while len(part) >= _FULL - 1:
            out.append(_FULL)
            out += part[: _FULL - 1]
            part = part[_FULL - 1 :]
            if not part and number == len(parts) - 1:
                return bytes(out)  # a full block at the end needs nothing after it
        out.append(len(part) + 1)
        out += part
    return bytes(out)


def decode(data: bytes) -> bytes | None:
    """Return the original data, or None if `data` is cut short or contains a zero."""
    out = bytearray()
    at = 0
    code = _FULL
    while at < len(data):
        if code != _FULL:
            out.append(0)
        code = data[at]
        block = data[at + 1 : at + code]
        if code == 0 or len(block) != code - 1 or 0 in block:
            return None
        out += block
        at += code
    return bytes(out)
