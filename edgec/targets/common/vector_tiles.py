"""Tiles of sums on vectors: how many channels, rows and columns of sums stay in registers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import Buffer
from edgec.loop.primitives.loops import Tail
from edgec.loop.schedule import Schedule
from edgec.targets.core import Core
from edgec.targets.rule import Nest


@dataclass(frozen=True)
class Weights:
    """Weights of one rank: the axis of output channels, the loops over taps, the packing.

    Depthwise weights are already stored channel by channel.
    """

    channel: int
    taps: tuple[str, ...]
    packing: str = ""
    side_by_side: str = ""


#: By the rank of the weights. `side_by_side`: so that a vector may begin at any channel.
PACKED = {
    2: Weights(0, ("acc_k",), "OI -> O/{0} I O%{0}", "OI -> I O"),
    3: Weights(2, ("acc_kh", "acc_kw")),
    4: Weights(
        0, ("acc_kh", "acc_kw", "acc_ic"), "OHWI -> O/{0} H W I O%{0}", "OHWI -> H W I O"
    ),
}  # fmt: skip
#: Floats in a vector, by features, the widest first. A load of 16 floats across two cache lines, as
#: of activations, counts as two and lowers the clock rate: only tiles of sums gain from it.
LANES = {"avx512": (8, 4), "avx2": (8, 4), "neon": (4,)}
WIDEST = {"avx512": (16,)}
#: Vectors of channels of a tile.
TILE_VECTORS = (8, 4, 3, 2, 1)
#: Vector registers, and how many of them a tile's sums may take.
REGISTERS = {"avx512": (32, 24), "avx2": (16, 12), "neon": (16, 12)}
#: Clocks of a narrow vector's load, of a load of 16 floats within one cache line and across two, of
#: a product, the latency of a sum, an instruction, a tile and each of its sums.
LOAD, WIDE_LOAD, SPLIT_LOAD, PRODUCT, WAIT, ISSUE, TILE, SUM = 0.5, 0.9, 1.8, 0.5, 4.0, 0.25, 15, 3
#: The cost of a float of weights beyond the bytes that stay in the first cache.
FAR_FLOAT, NEAR_BYTES = 0.12, 32 << 10
#: Bytes that stay in the second cache.
MIDDLE_BYTES = 512 << 10
#: Pixels of a tile; more make the code longer, not faster. MOST_OWN: in one row, if each channel
#: has its own inputs, where two vectors share a cache line.
MOST_PIXELS, MOST_OWN = 12, 6
#: How much longer a clock is while products of 16 floats run.
WIDE_CLOCK = 1.2


@dataclass(frozen=True)
class Blocks:
    """Channels in blocks of several vectors of `lanes`, `together` in all.

    tail: "shift" where the last block begins earlier, and does some channels again.
    """

    lanes: int
    together: int
    tail: Tail

    def packing(self, weights: Weights) -> str:
        """Name of the weights' packing."""
        return weights.packing.format(self.together) if self.tail == "exact" else (
            weights.side_by_side
        )  # fmt: skip


@dataclass(frozen=True)
class Tile:
    """Channels in blocks, and the rows and columns of pixels that are summed at once."""

    blocks: Blocks
    rows: int
    columns: int

    @property
    def vectors(self) -> int:
        """The vectors of channels."""
        return self.blocks.together // self.blocks.lanes

    @property
    def sums(self) -> int:
        """Vectors of them."""
        return self.vectors * self.rows * self.columns

    def fits(self, core: Core, *, own_inputs: bool) -> bool:
        """Whether sums, an input and the weights that several pixels share stay in registers."""
        registers, most = of_core(REGISTERS, core)
        pixels = self.rows * self.columns
        if pixels > (MOST_OWN if own_inputs else MOST_PIXELS) or (own_inputs and self.rows > 1):
            return False
        shared = self.vectors if pixels > 1 else 0
        return self.sums <= most and self.sums + shared + 1 <= registers

    def clocks(self, channels: int, steps: int, *, own_inputs: bool) -> float:
        """The clocks of a pixel; own_inputs: each channel has its own (depthwise convolutions)."""
        pixels, is_wide = self.rows * self.columns, self.blocks.lanes > 8
        inputs = self.sums if own_inputs else pixels
        weight_bytes, is_shifted = channels * steps * 4, self.blocks.tail == "shift"
        weight = self._load(is_split=own_inputs or is_shifted)
        far = (weight_bytes > NEAR_BYTES) + (is_shifted and weight_bytes > MIDDLE_BYTES)
        weight += self.blocks.lanes * FAR_FLOAT * far
        turn = max(
            self.sums * PRODUCT, self.vectors * weight + inputs * self._load(is_split=own_inputs),
            WAIT, (self.sums + self.vectors + inputs + 2) * ISSUE,
        )  # fmt: skip
        slower, each = (WIDE_CLOCK, 2 * SUM) if is_wide else (1, SUM)
        tile = steps * turn * slower + TILE + self.sums * each
        return -(-channels // self.blocks.together) * tile / pixels

    def _load(self, *, is_split: bool) -> float:
        """Clocks of a vector, or of one float for all its lanes."""
        if self.blocks.lanes <= 8:
            return LOAD
        return SPLIT_LOAD if is_split else WIDE_LOAD


def of_core(table: Mapping[str, tuple[int, ...]], core: Core) -> tuple[int, ...]:
    return next((row for feature, row in table.items() if core.has(feature)), ())


def lanes_of(nest: Nest) -> tuple[int, ...]:
    return of_core(LANES, nest.core)


def best_tile(
    nest: Nest,
    channels: int,
    image: tuple[int, int],
    steps: int,
    *,
    own_inputs: bool = False,
    may: Callable[[Tile], bool] = lambda _: True,
) -> Tile:
    """The allowed tile with the fewest clocks for an image of rows and columns of pixels, each with
    sums of `steps` products; ScheduleError if no vector is as narrow as the channels.
    """
    widths = (*of_core(WIDEST, nest.core), *lanes_of(nest))
    blocks = (
        Blocks(lanes, lanes * count, "shift" if channels % (lanes * count) else "exact")
        for lanes, count in product(widths, TILE_VECTORS) if lanes * count <= channels
    )  # fmt: skip
    sizes = product(*(_divisors(extent) for extent in image))
    tiles = (Tile(block, *size) for block, size in product(blocks, sizes))
    fitting = [t for t in tiles if t.fits(nest.core, own_inputs=own_inputs) and may(t)]
    if not fitting:
        raise ScheduleError(f"{channels} channels are not whole vectors")
    return min(fitting, key=lambda tile: tile.clocks(channels, steps, own_inputs=own_inputs))


def _divisors(extent: int) -> list[int]:
    """The divisors that are allowed as a tile's extent."""
    return [size for size in range(1, min(extent, MOST_PIXELS) + 1) if extent % size == 0]


def in_order(weights: Buffer, *loops: str) -> tuple[str, ...]:
    """The order of loops over pixels, the last of them over blocks of channels.

        for pixels { for channels { ... } }  ->  for channels { for pixels { ... } }

    Weights beyond the second cache are then read once, not once for each tile of pixels.
    """
    *pixels, channels = loops
    weight_bytes = weights.elements * np.dtype(weights.dtype).itemsize
    return (channels, *pixels) if weight_bytes > MIDDLE_BYTES else loops


def whole_lanes(nest: Nest, channels: int) -> int:
    """Lanes of the widest vectors that divide the channels; ScheduleError if none do."""
    for lanes in lanes_of(nest):
        if channels % lanes == 0:
            return lanes
    raise ScheduleError(f"{channels} channels are not whole vectors")


def to_vectors(schedule: Schedule, lanes: int, *loops: str) -> None:
    """Let these loops over channels go from vector to vector, in straight code."""
    for loop in loops:
        outer, inner = schedule.split(loop, lanes, tail="exact")
        schedule.unroll(outer)
        schedule.vectorize(inner)
