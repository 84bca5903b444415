"""Convolution and dense in plain loops: several output channels share each input element."""

from __future__ import annotations

from edgec.loop.policies.common import (
    decompose,
    find_param,
    gather_temporaries,
    largest_divisor,
    output_loops,
)
from edgec.loop.schedule import Schedule

#: Output channels that one pass over the input computes: more need more registers than an Arm
#: core has (4 accumulators, the input element, a weight, three pointers, the loop counter).
CHANNELS_AT_ONCE = 4
#: Input channels in straight code, so that the loop's own instructions are shared.
UNROLLED_INPUTS = 4


def schedule_matrix(schedule: Schedule, straight: int) -> None:
    """Convolution and dense: several output channels share each input element.

    The accumulators of a block of channels stay in registers over the whole reduction; weights
    are packed so that one pointer walks through them in the order of use.
    """
    func = schedule.func
    weights = find_param(func, "w")
    channels = largest_divisor(weights.shape[0], CHANNELS_AT_ONCE)
    last = output_loops(func, "out", "out")[-1]
    block, lane = schedule.split(last, channels)
    gather_temporaries(schedule, block)
    spatial = ["acc_kh", "acc_kw"] if len(weights.shape) == 4 else []
    inputs = "acc_ic" if spatial else "acc_k"
    if channels > 1:
        schedule.decompose_reduction("acc", "acc_c")
        schedule.reorder(*spatial, inputs, "acc_c")
    else:  # an odd number of channels: one at a time
        decompose(schedule, "acc")
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
