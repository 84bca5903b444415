"""Blocks of sums of int8 products (`runtime_c/kernels/common/sum_blocks_s8.h`).

A block is some pixels by some channels, whose sums stay in registers: each input is read once for
all channels of a block, and each weight once for all its pixels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from edgec.loop.define import Definition
from edgec.loop.ir import PrimFunc
from edgec.loop.microkernel import Microkernel, register
from edgec.loop.schedule import Schedule
from edgec.loop.stream import Field, Stream
from edgec.loop.values import int32


@dataclass(frozen=True)
class Block:
    """A kernel: its pixels and channels, and instructions of a call and of an input of it.

    is_moved: weights are stored as what they are more than -128, in bytes without a sign.
    """

    pixels: int
    channels: int
    call: float
    each: float
    is_moved: bool = False

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return f"ec_sums_{self.pixels}x{self.channels}{'_moved' * self.is_moved}_s8"

    def fields(self, depth: int, **_: int) -> list[Field]:
        """Biases, and for each input the weights of the channels."""
        lanes = np.arange(self.channels)[None]
        at = np.arange(depth * self.channels)[None]
        dtype, more = ("uint8", 128) if self.is_moved else ("int8", 0)
        return [Field("bias", lanes), Field("w", at, dtype, plus=more)]


def sums_block(pixels: int, channels: int, depth: int, step: int) -> PrimFunc:
    """acc[p, c] = bias[c] + sum over k of x[p * step + k] * w[k, c]."""
    b = Definition("sums_block")
    acc = b.output("acc", (pixels, channels), "int32")
    x = b.input("x", ((pixels - 1) * step + depth,), "int8")
    bias = b.constant("bias", (channels,), "int32")
    w = b.constant("w", (depth, channels), "int8")
    b.reduce(
        acc, [("k", 0, depth)],
        init=lambda p, c: bias[c],
        update=lambda acc, p, c, k: acc + int32(x[p * step + k]) * int32(w[k, c]),
    )  # fmt: skip
    schedule = Schedule(b.build())
    if depth > 1:
        schedule.decompose_reduction("acc", "acc_k")
    schedule.simplify()
    return schedule.func


def _instructions(block: Block, depth: int, **_: int) -> float:
    return block.call + block.each * depth


_MOVED = Block(1, 8, 75, 28, is_moved=True)
_WIDE, _FOUR, _ROW = Block(2, 4, 60, 15), Block(4, 4, 90, 42), Block(1, 8, 60, 18)
_PIXEL = Block(1, 4, 40, 11)
#: Of 16 channels in a vector.
_VECTORS, _VECTOR = Block(4, 16, 40, 15), Block(1, 16, 20, 7)
#: Of pixels that are left, by channels.
ONE_PIXEL = {block.channels: block for block in (_PIXEL, _VECTOR)}
for _block in (_MOVED, _WIDE, _FOUR, _ROW, _PIXEL, _VECTORS, _VECTOR):
    register(
        Microkernel(
            _block.kernel,
            partial(sums_block, _block.pixels, _block.channels),
            sizes=("depth", "step"),
            header="common/sum_blocks_s8.h",
            alignment=(("bias", 4),),
            stream=Stream(("bias", "w"), _block.fields),
            instructions=partial(_instructions, _block),
            reads_first=True,
        )
    )
#: By a feature of a core, or none: its blocks, the best first. For a single pixel, RISC-V's own
#: rules take a third of the instructions.
BLOCKS: Mapping[str, tuple[Block, ...]] = {
    "rv32v": (_VECTORS, _VECTOR),
    "thumb2": (_WIDE, _ROW, _PIXEL), "rv32m": (_FOUR,), "": (_MOVED,),
}  # fmt: skip
