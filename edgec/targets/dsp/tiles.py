"""Windows of 3 x 3 of int8 in tiles of two outputs, which take fewer products, in the same bits.

The weights take 2.67 times the bytes, and transformed inputs 7 KB of the stack: only where RAM has
no price, and weights may grow.
"""

from __future__ import annotations

from contextlib import suppress

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.targets.common.constant_channels import (
    MOST_SUM,
    fold_constant_channels,
    replace_constants,
    sum_bounds,
)
from edgec.targets.common.kernels.rescaling import RESCALINGS
from edgec.targets.common.limits import Limits, find_limits
from edgec.targets.common.nests import decompose, find_param, output_loops
from edgec.targets.dsp.kernels.matrix import PAIR
from edgec.targets.dsp.kernels.tiles import INPUTS, MOST_INPUTS, WIDTH
from edgec.targets.dsp.matrix import fits_rescaling
from edgec.targets.rule import Nest

#: Bytes of the weights that the kernel takes for each byte of theirs: four of two for three.
GROWTH = 8 / 3


def schedule_tiles(nest: Nest) -> list[Schedule]:
    """All tiles of an image in one call; none where the kernel cannot do them."""
    limits, prices = find_limits(nest.func), nest.options.prices
    is_dear = prices.ram or prices.least_gain or prices.growth < GROWTH
    if nest.in_rows or is_dear or limits is None or not _is_for(nest):
        return []
    constants = _constants(nest, limits)
    if not constants:
        return []
    with suppress(ScheduleError):
        schedule = _schedule(nest, limits.rescaling.kernel("tiles"), limits.zero_point)
        replace_constants(schedule, nest.tables, constants)
        return [schedule]
    return []


def _constants(nest: Nest, limits: Limits) -> dict[str, Array]:
    """The constants that the kernel takes; empty where it does not know how to rescale."""
    rescaling, zero_point = limits.rescaling, limits.zero_point
    if rescaling not in RESCALINGS or not rescaling.needs <= nest.core.features:
        return {}
    constants = fold_constant_channels(nest.tables, rescaling, zero_point)
    least, most = sum_bounds(constants)
    is_small = most.max() < MOST_SUM and least.min() >= -MOST_SUM
    return constants if is_small and fits_rescaling(constants, rescaling, zero_point) else {}


def _is_for(nest: Nest) -> bool:
    """Whether the kernel takes windows and outputs of these sizes."""
    window, out = nest.window, find_param(nest.func, "out").shape
    if window is None or len(out) != 4 or out[0] > 1 or out[2] < WIDTH or out[3] < PAIR:
        return False
    is_direct = (window.kernel, window.stride, window.dilation) == ((3, 3), (1, 1), (1, 1))
    inputs = window.shape[2]
    return is_direct and inputs % INPUTS == 0 and inputs <= MOST_INPUTS


def _schedule(nest: Nest, kernel: str, zero_point: int) -> Schedule:
    window, (_, rows, pixels, channels) = nest.window, find_param(nest.func, "out").shape
    assert window is not None
    (height, width, inputs), (top, left) = window.shape, window.corner
    sizes = {
        "height": height, "width": width, "in_channels": inputs, "top": top, "left": left,
        "rows": rows, "pixels": pixels, "channels": channels, "fill": window.zero_point,
        "zero_point": zero_point,
    }  # fmt: skip
    schedule = nest.schedule()
    _, high, _, channel = output_loops(nest.func, "out", "out")
    schedule.compute_at("acc", channel)
    decompose(schedule, "acc")
    schedule.simplify()
    schedule.tensorize(high, kernel, sizes)
    return schedule
