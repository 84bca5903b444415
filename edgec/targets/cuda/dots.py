"""Dense and convolutions of int8: four products at once.

    for k in 0..64 {                      for k_o in 0..16 {
      for c in 0..4 {               ->      call ec_dot4_s8(&x[k_o*4], &w[k_o, o*4, 0], &acc[0], 4)
        acc[c] += x[k] * w[o*4 + c, k]    }
    } }

A thread makes four channels of one pixel, which share its inputs, or one where there are few.
Weights lie so that threads side by side read side by side. Where windows reach outside, a kernel
before makes a copy of the input with padding.
"""

from __future__ import annotations

from collections.abc import Callable

from edgec.errors import ScheduleError
from edgec.loop.primitives.whole_windows import is_clipped
from edgec.loop.schedule import Schedule
from edgec.targets.common.gathered import IMAGE_AXES, fold_offsets
from edgec.targets.common.nests import decompose, find_param, gather_temporaries, output_loops
from edgec.targets.common.sums import Kind
from edgec.targets.cuda.bind import bound
from edgec.targets.cuda.kernels.dots import AT_ONCE, DOT
from edgec.targets.rule import Nest

#: The copy with padding.
PADDED = "image"
#: Channels that a thread makes of one pixel, where that leaves this many threads.
CHANNELS, ENOUGH_THREADS = 4, 2048


def is_dot(nest: Nest) -> bool:
    """Whether a nest sums products of int8, or of floats in any order."""
    kinds = (Kind.MATRIX, Kind.WINDOWS, Kind.COMPUTED)
    is_product = nest.sums is not None and nest.sums.kind in kinds
    is_free = nest.options.float_sums == "free"
    return is_product and (nest.dtype == "int8" or (nest.dtype == "float32" and is_free))


def schedule_dots(nest: Nest, bind: Callable[[Schedule], Schedule] = bound) -> list[Schedule]:
    """Return the nest's schedule; none if sums have another form. bind: how threads share it."""
    schedule = Schedule(nest.func)
    if find_param(nest.func, "w").shape[-1] % AT_ONCE:  # inputs come in no whole groups
        return []
    try:
        inputs = make_whole(schedule)
        channels, loop = _schedule_products(schedule, inputs)
        schedule = bind(schedule)
        schedule.tensorize(loop, DOT, {"channels": channels})
    except ScheduleError:
        return []
    return [schedule]


def make_whole(schedule: Schedule) -> str:
    """Make windows complete and inputs without offset; returns the buffer to read: x, or a padded
    copy.
    """
    inputs, weights = "x", find_param(schedule.func, "w")
    if len(weights.shape) == 4 and is_clipped(schedule.func, "acc"):
        inputs = PADDED
        schedule.pad_copy("acc", "x", inputs, [0, 1, 2, 3], IMAGE_AXES)
    fold_offsets(schedule, inputs)
    return inputs


def _schedule_products(schedule: Schedule, inputs: str) -> tuple[int, str]:
    """Order the loops; how many channels a thread makes, and the loop that is one call."""
    func = schedule.func
    weights, out = find_param(func, "w"), find_param(func, "out")
    is_many = out.elements >= CHANNELS * ENOUGH_THREADS and weights.shape[0] % CHANNELS == 0
    channels = CHANNELS if is_many else 1
    at = output_loops(func, "out", "out")[-1]
    if channels > 1:
        at, _ = schedule.split(at, channels)
    gather_temporaries(schedule, at, apart=(inputs,))
    is_image = len(weights.shape) == 4
    taps = ["acc_kh", "acc_kw", "acc_ic"] if is_image else ["acc_k"]
    if channels > 1:
        schedule.decompose_reduction("acc", "acc_c")
        schedule.reorder(*taps, "acc_c")
    else:
        decompose(schedule, "acc")
    _, inner = schedule.split(taps[-1], AT_ONCE)
    schedule.transform_layout("w", "OHWI -> H W I/4 O I%4" if is_image else "OI -> I/4 O I%4")
    return channels, inner
