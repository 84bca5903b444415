"""Writes vectors.json; the frames in it are packed here by other code than the product's.

Run it only when the protocol changes: `python tests/link/make_vectors.py`.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

TABLE = []
for number in range(256):
    for _ in range(8):
        number = number >> 1 ^ (0xEDB88320 if number & 1 else 0)
    TABLE.append(number)


def crc32(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def stuff(data: bytes) -> bytes:
    """Stuffing byte by byte, as in the paper's listing."""
    out, code_at = bytearray([0]), 0
    for position, byte in enumerate(data):
        if byte:
            out.append(byte)
        is_full = len(out) - code_at == 255
        if not byte or (is_full and position + 1 < len(data)):
            out[code_at] = len(out) - code_at
            code_at = len(out)
            out.append(0)
    out[code_at] = len(out) - code_at
    return bytes(out)


def pack(type_: int, sequence: int, data: bytes = b"", version: int = 0xE1) -> bytes:
    body = struct.pack("<BBHH", version, type_, sequence, len(data)) + data
    return b"\0" + stuff(body + struct.pack("<I", crc32(body))) + b"\0"


HELLO = (
    bytes([0, 1, 1, 1, 2, 2, 7])
    + struct.pack("<HIII", 256, 0x12345678, 1000000, 1000000)
    + b"test\x00fake\x000.1.0\x00"
)
LONG = bytes(1 + i % 255 for i in range(256))
DAMAGED = pack(0xFF, 0)


def state_done(status: int, runs: int, least: int, most: int, total: int) -> bytes:
    return b"\0\0" + struct.pack("<iHIQQQ", status, runs, 1, least, most, total)


RUN_ALL = struct.pack("<HBII", 1, 0, 0, 0xFFFFFFFF)

# (what, what the host sends, what the device of fake_model.c answers), one after the other.
STEPS = [
    ("hello", pack(1, 1), pack(0x81, 1, HELLO)),
    ("port, output 0", pack(2, 2, b"\1\0"), pack(0x82, 2, b"\0" + struct.pack("<I", 5000))),
    ("port, no such input", pack(2, 3, b"\0\2"), pack(0x82, 3, b"\3")),
    ("echo of nothing", pack(3, 4), pack(0x83, 4, b"\0")),
    ("echo of zeros", pack(3, 5, bytes(9)), pack(0x83, 5, bytes(10))),
    ("echo without zeros", pack(3, 6, LONG), pack(0x83, 6, b"\0" + LONG)),
    ("echo too long", pack(3, 7, LONG + b"\1"), pack(0x83, 7, b"\2")),
    ("reset", pack(10, 8), pack(0x8A, 8, bytes(5))),
    ("selftest", pack(9, 9), pack(0x89, 9, bytes(5))),
    ("write", pack(4, 10, b"\1" + struct.pack("<I", 1) + b"\4\3\2\1"), pack(0x84, 10, b"\0")),
    ("write outside", pack(4, 11, b"\1" + struct.pack("<I", 2) + b"\4\3\2\1"),
     pack(0x84, 11, b"\4")),
    ("run", pack(6, 12, RUN_ALL), pack(0x86, 12, state_done(0, 1, 1000, 1000, 1000))),
    ("run, asked again", pack(6, 12, RUN_ALL), pack(0x86, 12, state_done(0, 1, 1000, 1000, 1000))),
    ("read the counter", pack(5, 13, struct.pack("<BBIH", 1, 1, 0, 4)),
     pack(0x85, 13, b"\0\1\0\0\0")),
    ("read some", pack(5, 14, struct.pack("<BBIH", 0, 1, 1, 4)), pack(0x85, 14, b"\0\4\3\2\1")),
    ("read outside", pack(5, 15, struct.pack("<BBIH", 1, 1, 2, 3)), pack(0x85, 15, b"\4")),
    ("read, not stopped", pack(5, 16, struct.pack("<BBIH", 2, 0, 0, 1)), pack(0x85, 16, b"\6")),
    ("run no times", pack(6, 17, struct.pack("<HBII", 0, 0, 0, 0)), pack(0x86, 17, b"\4")),
    ("continue, not stopped", pack(7, 18, struct.pack("<IB", 1, 0)), pack(0x87, 18, b"\6")),
    ("stack", pack(8, 19), pack(0x88, 19, b"\0" + struct.pack("<III", 345, 2048, 0))),
    ("unknown command", pack(0x30, 20), pack(0xB0, 20, b"\1")),
    ("wrong length", pack(8, 21, b"\0"), pack(0x88, 21, b"\2")),
    ("other version", pack(1, 22, version=0xE2), pack(0x81, 22, b"\x08")),
    ("empty frames", b"\0\0\0\0", b""),
    ("noise", b"\x11\x22\x33\0", DAMAGED),
    ("wrong crc", pack(8, 23)[:-2] + bytes([pack(8, 23)[-2] ^ 1]) + b"\0", DAMAGED),
    ("cut short", pack(8, 24)[:9] + b"\0", DAMAGED),
    ("longer than any frame", b"\xff" * 400 + b"\0", DAMAGED),
    ("one delimiter between two", pack(3, 25, b"a")[:-1] + pack(3, 26, b"b"),
     pack(0x83, 25, b"\0a") + pack(0x83, 26, b"\0b")),
]  # fmt: skip

if __name__ == "__main__":
    steps = [
        {"what": what, "sent": sent.hex(), "answer": answer.hex()} for what, sent, answer in STEPS
    ]
    text = json.dumps({"steps": steps}, indent=1) + "\n"
    (Path(__file__).parent / "vectors.json").write_text(text, encoding="utf-8")
