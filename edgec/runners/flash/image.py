"""The content of flash: the stored bytes of an ELF, and the formats that tools read."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

from edgec.boards.board import Board
from edgec.build.elf import read_elf
from edgec.errors import RunFailed

BLANK = 0xFF
"""What erased flash reads as."""

_UF2_PAYLOAD_BYTES = 256
_UF2_FAMILY_PRESENT = 0x00002000


@dataclass(frozen=True)
class Segment:
    """A stretch of flash and its content."""

    address: int
    data: bytes

    @property
    def end(self) -> int:
        return self.address + len(self.data)


@dataclass(frozen=True)
class FlashImage:
    """A program as flash holds it: one segment for each region of the board that it uses."""

    elf: Path
    segments: tuple[Segment, ...]

    @property
    def size_bytes(self) -> int:
        return sum(len(segment.data) for segment in self.segments)

    @property
    def start(self) -> int:
        """The address of the first byte, which is the address of the vector table."""
        return self.segments[0].address


def load_image(elf: Path, board: Board) -> FlashImage:
    """Read an ELF's bytes in the flash of `board`. Raises RunFailed for bytes stored elsewhere.

    Sections of one region become one segment; gaps between them are filled as if erased.
    """
    pieces: dict[str, list[Segment]] = {}
    for section in read_elf(elf).sections:
        if not section.is_stored or not section.content:
            continue
        region = board.region_at(section.load_address, len(section.content))
        if region is None or region.kind != "flash":
            raise RunFailed(
                f"{elf} stores {section.name} at 0x{section.load_address:08x}, outside the flash "
                f"of {board.name}",
                hint="build the project again for this board",
            )
        pieces.setdefault(region.name, []).append(Segment(section.load_address, section.content))
    if not pieces:
        raise RunFailed(f"{elf} stores nothing in flash", hint="build the project again")
    joined = [_join(found) for found in pieces.values()]
    code = board.memory[board.code]
    # The program's own region first: its start is where the board starts.
    joined.sort(key=lambda segment: (not code.holds(segment.address), segment.address))
    return FlashImage(elf, tuple(joined))


def _join(pieces: list[Segment]) -> Segment:
    start = min(piece.address for piece in pieces)
    data = bytearray([BLANK]) * (max(piece.end for piece in pieces) - start)
    for piece in pieces:
        data[piece.address - start : piece.end - start] = piece.data
    return Segment(start, bytes(data))


def uf2_bytes(image: FlashImage, family: int) -> bytes:
    """Return the image as UF2, in blocks of 256 bytes for chips of `family`.

    Format: microsoft/uf2, "UF2 file format specification": 512-byte blocks of three magic
    numbers, flags, address, payload size, number, count, family and payload.
    """
    pieces = []
    for segment in image.segments:
        for at in range(0, len(segment.data), _UF2_PAYLOAD_BYTES):
            payload = segment.data[at : at + _UF2_PAYLOAD_BYTES]
            payload += bytes([BLANK]) * (_UF2_PAYLOAD_BYTES - len(payload))
            pieces.append((segment.address + at, payload))
    blocks = []
    for number, (address, payload) in enumerate(pieces):
        head = struct.pack(
            "<8I",
            0x0A324655,
            0x9E5D5157,
            _UF2_FAMILY_PRESENT,
            address,
            len(payload),
            number,
            len(pieces),
            family,
        )
        blocks.append(head + payload.ljust(476, b"\0") + struct.pack("<I", 0x0AB16F30))
    return b"".join(blocks)
