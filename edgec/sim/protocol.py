"""Frames between the simulator's client and its worker: a JSON header and raw bytes.

    "ECSM" | header length, u32 LE | payload length, u32 LE | header (JSON, UTF-8) | payload

Each request gets exactly one reply. A header is one JSON object; bulk data (memory, counts,
traces) travels in the payload, whose parts the header describes.
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

MAGIC = b"ECSM"
_PREFIX = struct.Struct("<4sII")
# Larger than any Cortex-M memory; a length above it means that the stream is not ours.
MAX_PART_BYTES = 1 << 30


class ProtocolError(Exception):
    """The other end closed the pipe inside a frame or sent something other than a frame."""


def write_frame(stream: BinaryIO, header: dict[str, Any], payload: bytes = b"") -> None:
    """Write one frame and flush it. Raises OSError when the other end is gone."""
    text = json.dumps(header).encode()
    stream.write(_PREFIX.pack(MAGIC, len(text), len(payload)) + text)
    stream.write(payload)
    stream.flush()


def read_frame(stream: BinaryIO) -> tuple[dict[str, Any], bytes] | None:
    """Read one frame; None when the stream ended between two frames.

    Raises ProtocolError for a stream that ends inside a frame or holds anything else.
    """
    prefix = _read_exactly(stream, _PREFIX.size)
    if not prefix:
        return None
    if len(prefix) < _PREFIX.size:
        raise ProtocolError(f"the stream ended after {len(prefix)} bytes of a frame: {prefix!r}")
    magic, header_bytes, payload_bytes = _PREFIX.unpack(prefix)
    if magic != MAGIC or max(header_bytes, payload_bytes) > MAX_PART_BYTES:
        raise ProtocolError(f"not a frame: {prefix!r}")
    text = _read_exactly(stream, header_bytes)
    payload = _read_exactly(stream, payload_bytes)
    if len(text) < header_bytes or len(payload) < payload_bytes:
        raise ProtocolError("the stream ended inside a frame")
    try:
        header = json.loads(text)
    except ValueError as error:
        raise ProtocolError(f"the header is not JSON: {text[:80]!r}") from error
    if not isinstance(header, dict):
        raise ProtocolError(f"the header is not a JSON object: {text[:80]!r}")
    return header, payload


def _read_exactly(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end of the stream."""
    parts = []
    while size:
        part = stream.read(size)
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
