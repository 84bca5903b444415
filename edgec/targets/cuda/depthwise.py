"""Windows over single channels of int8: four channels of a pixel in a thread, or one.

    for c in 0..64 {                        for c_o in 0..16 {
      for kh, kw {                            for kh, kw {
        acc[0] += (x[.., c] + 128)    ->        call ec_multiply4_s8(&x[.., c_o*4],
                    * w[kh, kw, c]                &w[kh, kw, c_o*4], &acc[0], 128)
    } }                                     } }

Inputs and weights are read as words of four bytes; taps that reach outside are left out, as in
plain loops, so that no copy with padding is made, which would be a kernel of its own. Where that
leaves multiprocessors idle, each thread makes a channel by the plain loops: which of both
is faster, the model of costs says.
"""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.primitives.sum_term import find_term
from edgec.loop.schedule import Schedule
from edgec.targets.common import loops
from edgec.targets.common.nests import find_param, gather_temporaries, output_loops
from edgec.targets.cuda.bind import bound
from edgec.targets.cuda.costs import GPUS
from edgec.targets.cuda.crew import launched_us
from edgec.targets.cuda.kernels.depthwise import CHANNELS, MULTIPLY
from edgec.targets.cuda.rows import on_threads
from edgec.targets.rule import Nest

#: Minimum number of remaining threads.
ENOUGH_THREADS = 256


def is_depthwise(nest: Nest) -> bool:
    """Whether a nest sums windows of int8 over channels that come in fours, and are many."""
    if not nest.is_depthwise or nest.dtype != "int8":
        return False
    out, weights = (find_param(nest.func, name) for name in ("out", "w"))
    is_whole = weights.shape[-1] % CHANNELS == 0 and out.shape[-1] == weights.shape[-1]
    return is_whole and out.elements >= CHANNELS * ENOUGH_THREADS


def schedule_depthwise(nest: Nest) -> list[Schedule]:
    """The schedule that is faster by the model of costs."""
    gpu, driver = GPUS[nest.core.gpu_architecture], nest.options.driver
    plain = next(rule for rule in loops.LOOPS if rule.match(nest))
    found = [*_by_fours(nest), *on_threads(plain.apply)(nest)]
    return sorted(found, key=lambda schedule: launched_us(schedule.func, gpu, driver))[:1]


def _by_fours(nest: Nest) -> list[Schedule]:
    """Four channels in a thread; none where sums are of another form."""
    schedule = Schedule(nest.func)
    try:
        offset = find_term("depthwise", schedule.func, "acc", "x").offset
        at, _ = schedule.split(output_loops(schedule.func, "out", "out")[-1], CHANNELS)
        gather_temporaries(schedule, at)
        schedule.decompose_reduction("acc", "acc_c")
        schedule.reorder("acc_kh", "acc_kw", "acc_c")
        schedule = bound(schedule)
        schedule.tensorize("acc_c", MULTIPLY, {"offset": offset})
    except ScheduleError:
        return []
    return [schedule]
