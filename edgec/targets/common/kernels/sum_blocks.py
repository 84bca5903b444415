"""Blocks of sums of int8 products (`runtime_c/kernels/common/sum_blocks_s8.h`).

A block is some pixels by some channels, whose sums stay in registers: each input is read once for
all channels of a block, and each weight once for all its pixels. Four pixels may have three sums,
if their inputs are packed (`runtime_c/kernels/common/sum_fours_s8.h`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.schedule import Schedule
from edgec.loop.stream import Field, Stream
from edgec.loop.values import int32


@dataclass(frozen=True)
class Block:
    """A kernel: its pixels and channels, and instructions per call and per input.

    is_moved: weights plus 128 are stored as uint8. is_packed: inputs are packed, and sums must fit
    in `SUM_BITS`.
    """

    pixels: int
    channels: int
    call: float
    each: float
    is_moved: bool = False
    is_packed: bool = False

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        way = "_moved" * self.is_moved + "_packed" * self.is_packed
        return f"ec_sums_{self.pixels}x{self.channels}{way}_s8"

    def meaning(self, depth: int, step: int) -> PrimFunc:
        make = packed_block if self.is_packed else sums_block
        return make(self.pixels, self.channels, depth, step)

    def fields(self, depth: int, **_: int) -> list[Field]:
        """Biases, and for each input the weights of the channels."""
        lanes = np.arange(self.channels)[None]
        at = np.arange(depth * self.channels)[None]
        dtype, more = ("uint8", 128) if self.is_moved else ("int8", 0)
        return [Field("bias", lanes), Field("w", at, dtype, plus=more)]


def sums_block(pixels: int, channels: int, depth: int, step: int) -> PrimFunc:
    """acc[p, c] = bias[c] + sum over k of x[p * step + k] * w[k, c]."""
    return _block(
        (pixels, channels), depth, ((pixels - 1) * step + depth,), lambda x, p, k: x[p * step + k]
    )


def packed_block(pixels: int, channels: int, depth: int, step: int) -> PrimFunc:
    """acc[p, c] = bias[c] + sum over k of x[k, p] * w[k, c]; step does not count."""
    return _block((pixels, channels), depth, (depth, ROOM), lambda x, p, k: x[k, p])


def _block(
    block: tuple[int, int], depth: int, shape: tuple[int, ...], read: Callable[[Any, Any, Any], Any]
) -> PrimFunc:
    b = Definition("sums_block")
    acc = b.output("acc", block, "int32")
    x = b.input("x", shape, "int8")
    bias = b.constant("bias", block[1:], "int32")
    w = b.constant("w", (depth, block[1]), "int8")
    b.reduce(
        acc, [("k", 0, depth)],
        init=lambda p, c: bias[c],
        update=lambda acc, p, c, k: acc + int32(read(x, p, k)) * int32(w[k, c]),
    )  # fmt: skip
    schedule = Schedule(b.build())
    if depth > 1:
        schedule.decompose_reduction("acc", "acc_k")
    schedule.simplify()
    return schedule.func


def pack_fours(depth: int, step: int) -> PrimFunc:
    """to[k, p] = x[p * step + k] of four pixels."""
    b = Definition("pack_fours")
    to = b.output("to", (depth, ROOM), "int8")
    x = b.input("x", (3 * step + depth,), "int8")
    b.compute(to, lambda k, p: x[p * step + k], shape=(depth, 4), at=lambda k, p: (k, p))
    return b.build()


def _instructions(block: Block, depth: int, **_: int) -> float:
    return block.call + block.each * depth


#: Bytes of an input of four pixels: only these kernels know how inputs are packed, three words.
ROOM = 12
#: Of packed inputs.
SUM_BITS = 24
_MOVED = Block(1, 8, 75, 28, is_moved=True)
#: Packed: for few registers, and for many.
_FOUR_BY_TWO, _FOURS = Block(4, 2, 62, 9.5, is_packed=True), Block(4, 4, 110, 32, is_packed=True)
_WIDE, _FOUR, _ROW = Block(2, 4, 60, 15), Block(4, 4, 90, 42), Block(1, 8, 60, 18)
_PIXEL = Block(1, 4, 40, 11)
#: Of 16 channels in a vector.
_VECTORS, _VECTOR = Block(4, 16, 40, 15), Block(1, 16, 20, 7)
#: Of pixels that are left, by channels.
ONE_PIXEL = {block.channels: block for block in (_PIXEL, _VECTOR)}
for _each in (_MOVED, _WIDE, _FOUR, _ROW, _PIXEL, _VECTORS, _VECTOR, _FOUR_BY_TWO, _FOURS):
    register(
        Microkernel(
            _each.kernel,
            _each.meaning,
            sizes=("depth", "step"),
            header=f"common/sum_{'fours' if _each.is_packed else 'blocks'}_s8.h",
            alignment=(("bias", 4), *((("x", 4),) if _each.is_packed else ())),
            stream=Stream(("bias", "w"), _each.fields),
            instructions=partial(_instructions, _each),
            reads_first=True,
        )
    )
register(
    Microkernel(
        "ec_pack_fours_s8",
        pack_fours,
        sizes=("depth", "step"),
        header="common/sum_fours_s8.h",
        alignment=(("to", 4),),
        instructions=lambda depth, **_: 15 + 13 * depth,
    )
)
#: By a feature of a core, or none: its blocks, the best first. For a single pixel, RISC-V's own
#: rules take a third of the instructions.
BLOCKS: Mapping[str, tuple[Block, ...]] = {
    "rv32v": (_VECTORS, _VECTOR),
    "thumb2": (_FOUR_BY_TWO, _WIDE, _ROW, _PIXEL), "rv32m": (_FOURS, _FOUR),
    "": (_FOUR_BY_TWO, _MOVED),
}  # fmt: skip
