"""Convolution and dense in plain loops: several output channels share each input element."""

from __future__ import annotations

from edgec.loop.ir import PrimFunc
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.window import Window
from edgec.targets.common.nests import (
    decompose,
    decompose_at,
    find_param,
    gather_temporaries,
    largest_divisor,
    output_loops,
)

#: Output channels that one pass over the input computes: more need more registers than an Arm
#: core has (4 accumulators, the input element, a weight, three pointers, the loop counter).
CHANNELS_AT_ONCE = 4
#: Input channels in straight code, so that the loop's own instructions are shared.
UNROLLED_INPUTS = 4


#: Straight code gains nothing in dense layers of fewer products.
FEW_PRODUCTS = 1000
#: Windows with this many inputs are gathered. Gathering saves little for fewer inputs, and for more
#: inputs clipping is a small part of the time.
GATHERED_INPUTS = range(24, 65)
#: The fewest output channels for which gathering saves time.
FEWEST_CHANNELS = 8


def is_worth_gathering(func: PrimFunc, most_channels: int) -> bool:
    """Whether the windows of a convolution are few inputs, for many output channels.

    With more than `most_channels` input channels, clipping costs less than gathering.
    """
    channels, kernel_h, kernel_w, depth = find_param(func, "w").shape
    if kernel_h * kernel_w == 1 or kernel_h * kernel_w * depth not in GATHERED_INPUTS:
        return False
    return channels >= FEWEST_CHANNELS and depth <= most_channels


def schedule_gathered(schedule: Schedule, straight: int, window: Window) -> None:
    """Gather each window before it is used, by a kernel where it reaches outside.

    A window is the same for all channels, which then read it without clipping and in one run.
    """
    depth = find_param(schedule.func, "w").shape[3]
    _schedule_products(schedule, "acc_kw" if depth == 1 else "acc_ic", straight)
    if window.is_padded and window.dilation[1] == 1:
        schedule.simplify()
        tensorize_window(schedule, window, "ec_gather_window_s8")


def tensorize_window(schedule: Schedule, window: Window, kernel: str) -> None:
    """Let the microkernel gather the inputs of each window; ScheduleError where it does not match.

    The schedule is simplified.
    """
    height, width, channels = window.shape
    sizes = {
        "height": height, "width": width, "channels": channels,
        "kernel_h": window.kernel[0], "kernel_w": window.kernel[1],
        "dilation": window.dilation[0], "fill": window.zero_point,
    }  # fmt: skip
    loops = loops_of(schedule.func.body)
    first = {
        name: f"{loop}*{window.stride[axis]} - {window.corner[axis]}" if loop in loops
        else f"{-window.corner[axis]}"
        for axis, (name, loop) in enumerate((("row", "out_d1"), ("column", "out_d2")))
    }  # fmt: skip
    loop = next(name for name in loops if name.startswith("col_"))
    schedule.tensorize(loop, kernel, sizes, first)


def schedule_matrix(schedule: Schedule, straight: int, spares_code: bool) -> None:
    """Convolution and dense: several output channels share each input element.

    The accumulators of a block of channels stay in registers over the whole reduction; weights
    are packed so that one pointer walks through them in the order of use. spares_code: small
    dense layers get one channel at a time.
    """
    weights = find_param(schedule.func, "w")
    is_dense = len(weights.shape) == 2
    inputs = "acc_k" if is_dense else "acc_ic"
    if is_dense and spares_code and weights.elements < FEW_PRODUCTS:
        _schedule_products(schedule, inputs, 1, 1)
    else:
        _schedule_products(schedule, inputs, straight)


def schedule_computed_matrix(schedule: Schedule, at_once: int) -> None:
    """A product of two computed matrices: columns side by side share each element of a row.

    They lie one after the other in memory, so the second matrix is read row by row.
    """
    out = find_param(schedule.func, "out")
    columns = largest_divisor(out.shape[-1], at_once)
    loops = output_loops(schedule.func, "out", "out")
    known = loops_of(schedule.func.body)
    if columns == 1 or loops[-1] not in known or "acc_k" not in known:
        gather_temporaries(schedule, loops[-1])
        decompose(schedule, "acc")
        return
    block, lane = schedule.split(loops[-1], columns)
    gather_temporaries(schedule, block)
    own = f"acc_d{len(out.shape) - 1}"
    schedule.decompose_reduction("acc", own)
    schedule.reorder("acc_k", own)
    for loop in (own, f"{own}_init", lane):
        schedule.unroll(loop)


def _schedule_products(
    schedule: Schedule, inputs: str, straight: int, at_once: int = CHANNELS_AT_ONCE
) -> None:
    """Let a block of channels share each input; `inputs` is the loop that becomes straight code."""
    func = schedule.func
    weights = find_param(func, "w")
    channels = largest_divisor(weights.shape[0], at_once)
    loops = output_loops(func, "out", "out")
    block, lane = schedule.split(loops[-1], channels)
    is_gathered = any(buffer.name == "col" for buffer in func.params)
    if is_gathered:
        schedule.compute_at("acc", block)
        schedule.compute_at("col", loops[-2], scope="scratch")
    else:
        gather_temporaries(schedule, block)
    spatial = len(weights.shape) == 4
    taps = ["acc_kh", "acc_kw", "acc_ic"] if spatial else ["acc_k"]
    starts = "acc_c_init"
    if channels > 1:
        starts = decompose_at(schedule, "acc", "acc_c")
        schedule.reorder(*taps, "acc_c")
    else:  # an odd number of channels: one at a time
        decompose(schedule, "acc")
    extent = weights.shape[2] if inputs == "acc_kw" else weights.shape[-1]
    factor = largest_divisor(extent, straight)
    if factor > 1:
        _, inputs = schedule.split(inputs, factor)
    schedule.cache_read("col" if is_gathered else "x", inputs)
    if channels > 1:
        packing = "OHWI -> O/{0} H W I O%{0}" if spatial else "OI -> O/{0} I O%{0}"
        schedule.transform_layout("w", packing.format(channels))
        schedule.unroll("acc_c")
        schedule.unroll(starts)
        schedule.unroll(lane)
    if factor > 1:
        schedule.unroll(inputs)
