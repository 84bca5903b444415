"""Count how often each translated block starts, inside the worker process.

Two counters with the same results. `NativeCounter` gives Unicorn a few bytes of machine code as
its block callback (about 2 ns a block, x86-64 Linux and macOS); `PythonCounter` runs anywhere
(about 0.5 us a block). A block is a straight line of code that runs to its end once entered, so
its start count is the execution count of each of its instructions.
"""

from __future__ import annotations

import ctypes
from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgec.sim.native import COUNT_BLOCK, load

# (block address, block size in bytes, executions)
Block = tuple[int, int, int]
BLOCK_CALLBACK = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p
)


class CodeBytes:
    """The initial bytes of one executable range, to count the instructions of its blocks.

    is_wide: whether an instruction has four bytes, by its first two; all others have two.
    """

    def __init__(self, address: int, data: bytes, is_wide: Callable[[int], bool]) -> None:
        self.address = address
        self.data = data
        self._is_wide = is_wide
        self._lengths: dict[tuple[int, int], int] = {}

    def instructions(self, address: int, size: int) -> int:
        """Return how many instructions the block at `address` of `size` bytes has."""
        key = (address, size)
        known = self._lengths.get(key)
        if known is None:
            known, at = 0, address - self.address
            stop = at + size
            while at < stop:
                at += 4 if self._is_wide(int.from_bytes(self.data[at : at + 2], "little")) else 2
                known += 1
            self._lengths[key] = known
        return known


class Counter(Protocol):
    """Counts the blocks of one executable range."""

    code: CodeBytes

    def callback(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        """Return Unicorn's block callback and its user data; both live as long as self."""

    def reset(self) -> None:
        """Forget all counts."""

    def blocks(self) -> list[Block]:
        """Return the blocks executed since the last reset."""

    def consistent(self) -> bool:
        """Return False when a block was seen with two sizes and counts are not exact."""


class PythonCounter:
    """Counts with a Python callback; keys hold size and address, so sizes may change."""

    def __init__(self, code: CodeBytes) -> None:
        self.code = code
        counts: defaultdict[int, int] = defaultdict(int)

        def count(_uc: int, address: int, size: int, _data: int) -> None:
            counts[size << 32 | address] += 1

        self._counts = counts
        self._callback = BLOCK_CALLBACK(count)

    def callback(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        return ctypes.cast(self._callback, ctypes.c_void_p), ctypes.c_void_p(0)

    def reset(self) -> None:
        self._counts.clear()

    def blocks(self) -> list[Block]:
        return [(key & 0xFFFFFFFF, key >> 32, count) for key, count in list(self._counts.items())]

    def consistent(self) -> bool:
        return True


# One slot for each halfword of code, as `native.COUNT_BLOCK` has them.
_SLOT = np.dtype([("count", "<u8"), ("size", "<u4"), ("conflicts", "<u4")])


class NativeCounter:
    """Counts in a table with machine code; raises OSError where that is not allowed."""

    def __init__(self, code: CodeBytes) -> None:
        self.code = code
        self._entry = load(COUNT_BLOCK)
        self._table = np.zeros(len(code.data) // 2 + 1, _SLOT)
        self._biased = ctypes.c_void_p(
            (self._table.ctypes.data - code.address * 8) & 0xFFFFFFFFFFFFFFFF
        )

    def callback(self) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
        return ctypes.c_void_p(self._entry), self._biased

    def reset(self) -> None:
        self._table[:] = np.zeros(1, _SLOT)

    def blocks(self) -> list[Block]:
        used: npt.NDArray[np.intp] = np.nonzero(self._table["count"])[0]
        rows = self._table[used]
        addresses = self.code.address + 2 * used
        return list(
            zip(addresses.tolist(), rows["size"].tolist(), rows["count"].tolist(), strict=True)
        )

    def consistent(self) -> bool:
        return not bool(self._table["conflicts"].any())


def make_counter(code: CodeBytes, native: bool) -> Counter:
    """Return the fast counter where it works and is wanted, else the portable one."""
    if native:
        try:
            return NativeCounter(code)
        except (OSError, ValueError):
            pass
    return PythonCounter(code)


def total_instructions(counters: list[Counter]) -> int:
    """Return the instructions executed since the last reset."""
    return sum(
        count * counter.code.instructions(address, size)
        for counter in counters
        for address, size, count in counter.blocks()
    )
