"""First steps of products: the inputs of each pixel, gathered as pairs of int16, or as int8 for
kernels that pack four pixels.

Input k = 4 * q + 2 * r + s of a pixel is element r of the pair s of the quad q: SXTB16 makes this
order of four int8. Weights are in the same order. Both end in zeros where the number of inputs is
not a multiple of four.
"""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.targets.common.gathered import copy_padded, read_whole
from edgec.targets.common.nests import find_param
from edgec.targets.common.sum_blocks import flatten_sums
from edgec.targets.dsp.kernels.matrix_four import FOUR
from edgec.targets.rule import Nest

#: What a step of each axis counts, in the order of use.
PARTS = {"q": 4, "s": 1, "r": 2}
#: Axes of a gathered copy: pixels side by side, or one after the other.
SIDE_BY_SIDE, ONE_BY_ONE = "qspr", "pqsr"
#: Pixels that kernels take at once; the others take one, where there are fewer.
BLOCK = 3


def columns(nest: Nest) -> Nest:
    """The inputs of all pixels side by side, as int16."""
    return _gathered(nest, SIDE_BY_SIDE, 4)


def fours(nest: Nest) -> Nest:
    """Return schedules like `columns` for four pixels at a time."""
    return _gathered(nest, SIDE_BY_SIDE, 4, pixels=FOUR)


def padded_fours(nest: Nest) -> Nest:
    """Return schedules like `padded_columns` for four pixels at a time."""
    return padded_columns(nest, FOUR)


def row(nest: Nest) -> Nest:
    """The inputs of one pixel after the other, as int16, an even number of quads."""
    return _gathered(nest, ONE_BY_ONE, 8)


def padded_columns(nest: Nest, pixels: int = BLOCK) -> Nest:
    """Return schedules like `columns` on a padded copy: with few channels, edge taps are slow."""
    window = nest.window
    if window is None or not window.is_padded or window.shape[2] % 4 == 0:
        raise ScheduleError("a copy with padding does not help")
    return _gathered(nest, SIDE_BY_SIDE, 4, in_copy=True, pixels=pixels)


def _gathered(
    nest: Nest, order: str, multiple: int, in_copy: bool = False, pixels: int = BLOCK
) -> Nest:
    """Inputs gathered in this order, in multiples; of a copy with padding, if it has any."""
    _require(nest, pixels, is_block=order == SIDE_BY_SIDE)
    schedule, window, source = copy_padded(nest) if in_copy else (*read_whole(nest), "x")
    if in_copy and source == "x":
        raise ScheduleError("no window reaches outside")
    _as_matrix(schedule, source, multiple)
    schedule.gather("acc", source, "col", order, "int8" if pixels == FOUR else "int16")
    return nest.after(schedule, window)


def _require(nest: Nest, pixels: int, is_block: bool) -> None:
    """ScheduleError where a kernel of one pixel or of several has too few pixels or channels."""
    out = find_param(nest.func, "out")
    channels = out.shape[-1]
    if channels < (2 if is_block else 4) or is_block != (out.elements // channels >= pixels):
        raise ScheduleError("too few channels, or another number of pixels")


def _as_matrix(schedule: Schedule, source: str, multiple: int) -> None:
    """acc[p, c] = sum over q, s, r of x[...] * w[c, q, s, r], each a multiple of inputs."""
    flatten_sums(schedule)
    weights = find_param(schedule.func, "w")
    depth = weights.elements // weights.shape[0]
    if depth % multiple:
        schedule.pad_steps("acc", source, "k", multiple)
    schedule.split_steps("acc", source, "k", PARTS)
    schedule.transform_layout("w", "OK -> O K/4 K%4")
    schedule.transform_layout("w", "OQK -> O Q K%2 K/2")
