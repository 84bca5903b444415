"""Default schedules: for each kind of function and core, how its loops are arranged.

A policy gives the menu of schedules of a function, best first; nothing else decides how code
looks. Functions are told apart by their name, which is that of the operator the group starts
with. What a policy does not know runs as plain loops with its temporaries in registers.
"""

from __future__ import annotations

from collections.abc import Callable

from edgec.loop.ir import Buffer, For, PrimFunc
from edgec.loop.rewrite import walk
from edgec.loop.schedule import Schedule
from edgec.options import Options
from edgec.target.core import Core

Policy = Callable[[PrimFunc], list[Schedule]]

#: Output channels that one pass over the input computes: more need more registers than an Arm
#: core has (4 accumulators, the input element, a weight, three pointers, the loop counter).
CHANNELS_AT_ONCE = 4
#: Input channels in straight code, so that the loop's own instructions are shared.
UNROLLED_INPUTS = 4


def policy_for(core: Core, options: Options) -> Policy:
    """The policy of a core. `--optimize size` does without straight code."""
    straight = 1 if options.optimize == "size" else UNROLLED_INPUTS

    def policy(func: PrimFunc) -> list[Schedule]:
        schedule = Schedule(func)
        blocks = {buffer.name for buffer in func.params if buffer.scope == "scratch"}
        if "acc" not in blocks:
            _temporaries_at_rows(schedule)
        elif func.name in ("conv2d", "dense"):
            _matrix(schedule, straight)
        else:
            _per_element(schedule)
        return [schedule]

    return policy


def _param(func: PrimFunc, name: str) -> Buffer:
    return next(buffer for buffer in func.params if buffer.name == name)


def _loops(func: PrimFunc, buffer: str, block: str) -> list[str]:
    """The loops of a block that writes `buffer` element by element, outermost first."""
    return [f"{block}_d{axis}" for axis in range(len(_param(func, buffer).shape))]


def largest_divisor(extent: int, limit: int) -> int:
    """The largest divisor of `extent` that is at most `limit`."""
    return max(d for d in range(1, limit + 1) if extent % d == 0)


def _matrix(schedule: Schedule, straight: int) -> None:
    """Convolution and dense: several output channels share each input element.

    The accumulators of a block of channels stay in registers over the whole reduction; weights
    are packed so that one pointer walks through them in the order of use.
    """
    func = schedule.func
    weights = _param(func, "w")
    channels = largest_divisor(weights.shape[0], CHANNELS_AT_ONCE)
    last = _loops(func, "out", "out")[-1]
    block, lane = schedule.split(last, channels)
    _gather_temporaries(schedule, block)
    schedule.decompose_reduction("acc", "acc_c")
    spatial = ["acc_kh", "acc_kw"] if len(weights.shape) == 4 else []
    inputs = "acc_ic" if spatial else "acc_k"
    schedule.reorder(*spatial, inputs, "acc_c")
    factor = largest_divisor(weights.shape[-1], straight)
    if factor > 1:
        _, inputs = schedule.split(inputs, factor)
    schedule.cache_read("x", inputs)
    if channels > 1:
        packing = "OHWI -> O/{0} H W I O%{0}" if spatial else "OI -> O/{0} I O%{0}"
        schedule.transform_layout("w", packing.format(channels))
        schedule.unroll("acc_c")
        schedule.unroll("acc_c_init")
        schedule.unroll(lane)
    if factor > 1:
        schedule.unroll(inputs)


def _per_element(schedule: Schedule) -> None:
    """Depthwise convolution and pools: one accumulator at a time, in a register."""
    last = _loops(schedule.func, "out", "out")[-1]
    _gather_temporaries(schedule, last)
    schedule.decompose_reduction("acc", "acc_kh")


def _gather_temporaries(schedule: Schedule, loop: str) -> None:
    """Compute every temporary where it is used, the last one first."""
    names = [b.name for b in schedule.func.params if b.scope == "scratch"]
    for name in reversed(names):
        schedule.compute_at(name, loop)


def _temporaries_at_rows(schedule: Schedule) -> None:
    """Temporaries of one element per row (softmax) become registers; others stay in scratch."""
    func = schedule.func
    rank = len(_param(func, "out").shape)
    names = [b for b in func.params if b.scope == "scratch"]
    if names and rank > 1 and all(len(b.shape) == rank - 1 for b in names):
        for buffer in reversed(names):
            schedule.compute_at(buffer.name, f"out_d{rank - 2}")
        for buffer in names:
            loops = {s.var.name for s, _ in walk(schedule.func.body) if isinstance(s, For)}
            if f"{buffer.name}_k" in loops:
                schedule.decompose_reduction(buffer.name)
