"""Write an image through the STM32 boot loader; a board never starts half of a program.

1. Read the first block: if it is blank and the rest is not, an earlier write was interrupted. The
   flash is erased in either case.
2. Erase and write the sectors one by one. If the write of a block may have failed, read the block:
   keep right data, write a blank block again, else erase and write its sector again.
3. Read everything back and compare it; erase and write each sector that differs again.
4. Write and compare the first block, with the vector table, last: a board that loses power earlier
   finds no program instead of half of one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgec.boards.board import parse_size
from edgec.errors import BoardError
from edgec.runners.flash.image import BLANK, FlashImage
from edgec.runners.flash.stm32_protocol import MOST_BYTES, BootLoader, BootLoaderError

Progress = Callable[[int, int], None]
"""Called with the bytes written and all bytes."""

_ROUNDS = 6
_BLOCK_TRIES = 6
_ENTRY = re.compile(r"^(?:(\d+)x)?(\d+[KM]?)$")


@dataclass(frozen=True)
class Sector:
    """A part of the flash that is erased as a whole, by its number."""

    number: int
    address: int
    length: int


@dataclass(frozen=True)
class Written:
    """The sectors that were written again, and whether an earlier write was interrupted."""

    redone_sectors: int
    was_interrupted: bool


def parse_sectors(text: str, origin: int, where: str) -> tuple[Sector, ...]:
    """Parse "4x16K 64K 7x128K": consecutive sectors from `origin`. Raises BoardError."""
    sectors: list[Sector] = []
    at = origin
    for word in text.split():
        match = _ENTRY.match(word)
        if match is None:
            raise BoardError(f"{where}: '{word}' is not a sector size", hint='example: "4x16K 64K"')
        for _ in range(int(match[1] or 1)):
            length = parse_size(match[2], where)
            sectors.append(Sector(len(sectors), at, length))
            at += length
    return tuple(sectors)


class ImageWriter:
    """Writes one image through a boot loader that answers."""

    def __init__(
        self,
        loader: BootLoader,
        image: FlashImage,
        sectors: Sequence[Sector],
        progress: Progress | None = None,
    ) -> None:
        """Raises BoardError if part of the image lies in no sector."""
        self._loader = loader
        self._progress = progress
        self._done = 0
        self._blocks: dict[int, bytes] = {}
        self._sectors: dict[Sector, list[int]] = {}
        for segment in image.segments:
            for address in range(segment.address // MOST_BYTES * MOST_BYTES, segment.end, 256):
                self._blocks[address] = _block(segment.address, segment.data, address)
        for address in sorted(self._blocks):
            home = next((s for s in sectors if s.address <= address < s.address + s.length), None)
            if home is None:
                raise BoardError(f"address 0x{address:08x} is in no flash sector of the board")
            self._sectors.setdefault(home, []).append(address)
        self._first = image.start // MOST_BYTES * MOST_BYTES
        self._first_sector = next(s for s, own in self._sectors.items() if self._first in own)

    def write(self) -> Written:
        interrupted = self._was_interrupted()
        redone = -len(self._sectors)
        pending = list(self._sectors)
        for _ in range(_ROUNDS):
            for sector in pending:
                redone += self._fill(sector)
            pending = [sector for sector in pending if not self._is_right(sector)]
            if pending:
                continue
            if self._write_block(self._first) and self._reads(self._first):
                return Written(redone, interrupted)
            pending = [self._first_sector]
        raise BootLoaderError(
            f"flash sector {pending[0].number} at 0x{pending[0].address:08x} differs from the"
            " written data",
            details=(f"edgec erased and wrote it {_ROUNDS} times",),
            hint="the flash is worn out or write-protected: see the chip's option bytes",
        )

    def _was_interrupted(self) -> bool:
        if self._loader.read(self._first, MOST_BYTES) != _blank():
            return False
        others = [own[0] for own in self._sectors.values()] + [self._first + MOST_BYTES]
        return any(self._loader.read(a, 16) != _blank(16) for a in others if a != self._first)

    def _fill(self, sector: Sector) -> int:
        """Erase a sector and write its blocks; returns the number of attempts."""
        for begun in range(1, _ROUNDS + 1):
            self._loader.erase([sector.number])
            if all(self._write_block(address) for address in self._own(sector)):
                return begun
        return _ROUNDS

    def _own(self, sector: Sector) -> list[int]:
        return [address for address in self._sectors[sector] if address != self._first]

    def _write_block(self, address: int) -> bool:
        """Write a block of a sector that was blank; False if the sector must be erased again."""
        data = self._blocks[address]
        if data == _blank():
            return True
        for _ in range(_BLOCK_TRIES):
            if self._loader.write_once(address, data):
                break
            found = self._loader.read(address, MOST_BYTES)
            if found == data:
                break
            if found != _blank():
                return False
        else:
            return False
        self._done += len(data)
        if self._progress is not None:
            total = sum(len(block) for block in self._blocks.values() if block != _blank())
            self._progress(min(self._done, total), total)
        return True

    def _is_right(self, sector: Sector) -> bool:
        return all(self._reads(address) for address in self._own(sector))

    def _reads(self, address: int) -> bool:
        """Whether a block has its data. A difference is read again: reads have no checksum."""
        wanted = self._blocks[address]
        return any(self._loader.read(address, MOST_BYTES) == wanted for _ in range(2))


def _blank(count: int = MOST_BYTES) -> bytes:
    return bytes([BLANK]) * count


def _block(start: int, data: bytes, address: int) -> bytes:
    """Return the 256 bytes at `address` of a segment, blank outside of it."""
    low = max(address, start)
    piece = data[low - start : address + MOST_BYTES - start]
    return (_blank(low - address) + piece).ljust(MOST_BYTES, bytes([BLANK]))
