"""int8 windows of 3 x 3 in tiles of 2 x 2 outputs (Winograd): fewer products, the same bits.

Only for images and channels that are multiples of the kernel's tile; others take rows of windows.
Cores with dot products gain more by those instructions than by tiles.
"""

from __future__ import annotations

from contextlib import suppress

from edgec.errors import ScheduleError
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.targets.aarch64.kernels.winograd import INPUTS, MOST_INPUTS, TOGETHER, UNIT
from edgec.targets.common.gathered import padded_rows
from edgec.targets.common.kernels.rescaling import HOSTED
from edgec.targets.common.limits import Limits, find_limits
from edgec.targets.common.nests import find_param
from edgec.targets.common.products import fits, pad_windows, tensorize_padding
from edgec.targets.common.sums import Kind
from edgec.targets.common.threads import share_of
from edgec.targets.dsp.rules import rescaled
from edgec.targets.rule import Nest, Rule


def _schedules(nest: Nest) -> list[Schedule]:
    """All tiles in one call, or a part of their rows for each thread."""
    limits, window = find_limits(nest.func, HOSTED), nest.window
    if window is None or limits is None or limits.rescaling not in HOSTED or not fits(nest.tables):
        return []
    out = find_param(nest.func, "out").shape
    if len(out) != 4 or not _is_for(window, out):
        return []
    with suppress(ScheduleError):
        return [_schedule(nest, window, limits)]
    return []


def _is_for(window: Window, out: tuple[int, ...]) -> bool:
    """Whether the kernel takes windows and outputs of these sizes."""
    (images, height, width, channels), inputs = out, window.shape[2]
    is_direct = (window.kernel, window.stride, window.dilation) == ((3, 3), (1, 1), (1, 1))
    is_whole = not any((height % 2, width % 2, inputs % INPUTS, channels % UNIT))
    has_tiles = height * width >= 4 * TOGETHER
    return images == 1 and is_direct and is_whole and has_tiles and inputs <= MOST_INPUTS


def _schedule(nest: Nest, window: Window, limits: Limits) -> Schedule:
    _, height, width, channels = find_param(nest.func, "out").shape
    schedule, threads, loop = nest.schedule(), nest.options.threads, "out_d1"
    inner = pad_windows(schedule, window)
    if inner.shape[1] != width + 2:
        raise ScheduleError("there is padding that no window reads")
    rows = 2 * share_of(height // 2, threads, -(-2 * TOGETHER // width))
    if rows < height:
        _, loop = schedule.split(loop, rows, tail="exact")
    sizes = {
        "in_channels": inner.shape[2], "rows": rows, "pixels": width, "channels": channels,
        **limits.sizes,
    }  # fmt: skip
    schedule.tensorize(loop, limits.rescaling.kernel("winograd", "neon"), sizes)
    tensorize_padding(schedule, window, threads)
    return schedule


RULES = (
    Rule(
        "tiles of windows", rescaled("int8", Kind.WINDOWS), _schedules, needs=frozenset({"neon"}),
        lacks=frozenset({"dotprod"}), kernels=("ec_winograd_*",), for_size=False,
        prepare=padded_rows,
    ),
)  # fmt: skip
