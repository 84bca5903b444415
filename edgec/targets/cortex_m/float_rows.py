"""Convolution, depthwise convolution and dense of float32 on kernels that block registers."""

from __future__ import annotations

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import Binary, Const, Load, PrimFunc
from edgec.loop.primitives.halves import fits_halves
from edgec.loop.primitives.int4 import fits_int4
from edgec.loop.primitives.shifts import find_shifts
from edgec.loop.primitives.steps import steps_along
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.targets.common.loops import LOOPS
from edgec.targets.common.nests import decompose, find_param, stored_value
from edgec.targets.common.sums import WEIGHTED
from edgec.targets.cortex_m.kernels.float_rows import (
    CONV,
    CONV_GROUPS,
    CONV_HALVES,
    CONV_INT4,
    CONV_STEPS,
    CONV_UNITS,
    DEPTHWISE,
    DEPTHWISE_HALVES,
    DEPTHWISE_STEPS,
    DEPTHWISE_UNITS,
    LOWER,
    MOST_SHIFT,
    MOST_SIZE,
    UNIT,
    UPPER,
    float_bits,
)
from edgec.targets.cortex_m.kernels.products import DENSE
from edgec.targets.rule import Nest

#: At least this many float16 weights stay float16 (they save a kilobyte), even where loops of
#: float32 would be as fast.
MANY_HALVES = 512
#: From this many weights on a dense layer of one row has a kernel of its own.
MANY_WEIGHTS = 1024


def is_float_sum(nest: Nest) -> bool:
    """Whether there are kernels for such sums."""
    if nest.sums is None or nest.sums.kind not in WEIGHTED or nest.dtype != "float32":
        return False
    # Transposed convolutions of 1x1 windows have no windows left, but the axes of an image.
    return nest.window is not None or len(find_param(nest.func, "out").shape) == 2


def schedule_floats(nest: Nest) -> list[Schedule]:
    """A call for each row, with float32 weights or smaller ones.

    Float16 weights stay so unless time alone counts: on kernels that costs next to nothing. What
    integers that count steps save and cost is weighed later.
    """
    weights = nest.tables.get("w")
    if weights is None:
        return []
    narrow = [] if nest.is_fast else narrow_halves(nest, weights)
    kernels = narrow or float_schedules(nest)
    # Rows would be slower than what they are compared with, and values then not stream.
    if not narrow and nest.options.prices.weighs_weights and not nest.in_rows:
        kernels += narrow_steps(nest, weights)
    return kernels


def schedule_small_floats(nest: Nest) -> list[Schedule]:
    """Loops, and calls for each row whose weights are fewer bytes."""
    loops = next(rule for rule in LOOPS if rule.match(nest)).apply(nest)
    weights = nest.tables.get("w")
    if weights is None or nest.in_rows:
        return loops
    return [*loops, *(narrow_steps(nest, weights) or narrow_halves(nest, weights))]


def replaces_loops(nest: Nest, found: list[Schedule]) -> bool:
    """Whether loops need not be offered beside these kernels.

    Estimates are for scalars; on vectors the kernels are several times as fast as loops. Rows of
    one layer would else choose apart, and keep its weights in two orders.
    """
    has_halves = any(step.primitive == "pack_halves" for step in found[0].trace)
    is_large = has_halves and nest.tables["w"].size >= MANY_HALVES
    return nest.core.has("mve") or nest.in_rows or is_large


def float_schedules(nest: Nest) -> list[Schedule]:
    """A call for each row of outputs; empty where the kernels cannot do it."""
    kernels = (DEPTHWISE_UNITS, DEPTHWISE) if nest.is_depthwise else (CONV_UNITS, CONV)
    found: list[Schedule] = []
    for kernel in kernels if _is_in_units(nest) else kernels[1:]:
        found = found or _schedules(nest, Schedule(nest.func), kernel)
    if nest.window is None and _is_one_row(nest):
        found = _schedules(nest, Schedule(nest.func), DENSE) or found
    return found


def _is_in_units(nest: Nest) -> bool:
    """Whether assembly may take whole units of channels; vectors have their own."""
    channels, limits = find_param(nest.func, "out").shape[-1], find_limits(nest.func)
    has_assembly = not nest.core.has("mve") and not nest.options.no_asm
    if not nest.has_much_to_do or not has_assembly or channels % UNIT or limits is None:
        return False
    are_numbers = not np.isnan(nest.tables["bias"]).any()
    return are_numbers and limits["low"] == 0 <= limits["high"]


def _is_one_row(nest: Nest) -> bool:
    """Whether one row has a kernel of its own: many weights, and few channels beside fours.

    On vectors the kernel of convolutions takes sixteen channels at once.
    """
    rows, channels = find_param(nest.func, "out").shape
    weights = find_param(nest.func, "w").elements
    is_long = weights >= MANY_WEIGHTS and channels % UNIT * 16 <= channels
    return rows == 1 and is_long and not nest.core.has("mve")


def narrow_halves(nest: Nest, weights: Array) -> list[Schedule]:
    """Schedules with weights stored as float16, where no weight changes and a kernel reads them."""
    if not fits_halves(weights):
        return []
    schedule = Schedule(nest.func)
    schedule.pack_halves("w")
    return _schedules(nest, schedule, DEPTHWISE_HALVES if nest.is_depthwise else CONV_HALVES)


def narrow_steps(nest: Nest, weights: Array) -> list[Schedule]:
    """Schedules with weights stored as int8 or int4, multiples of a scale for each channel.

    Where groups of inputs have steps of their own, they are stored in four bits and in eight. What
    needs none is offered with the kernel of groups, too, which others of the model may call. Those
    of depthwise convolutions, which are few, are bytes: where four bits would do, or size counts.
    """
    axis = 2 if nest.is_depthwise else 0
    steps = steps_along(weights, axis)
    if steps is None:
        return []
    schedule = Schedule(nest.func)
    schedule.pack_steps("w", axis, steps.tolist())
    counts = schedule.repacked["w"](weights)
    is_short = fits_int4(counts)
    if nest.is_depthwise:
        is_worth_it = is_short or nest.is_small
        return _schedules(nest, schedule, DEPTHWISE_STEPS) if is_worth_it else []
    found = _schedules(nest, schedule, CONV_INT4 if is_short else CONV_STEPS)
    shifts = find_shifts(counts)
    if not is_short and (shifts is None or shifts[1].max() > MOST_SHIFT):
        return found
    grouped = Schedule(nest.func)
    grouped.pack_steps("w", 0, steps.tolist())
    if shifts is not None:
        grouped.pack_shifts("w", shifts[1].shape, shifts[1].reshape(-1).tolist())
    group = 0 if shifts is None else shifts[0]
    return [*found, *_schedules(nest, grouped, CONV_GROUPS, group)]


def _schedules(nest: Nest, schedule: Schedule, kernel: str, group: int = 0) -> list[Schedule]:
    """group: the inputs that share steps."""
    limits = find_limits(schedule.func)
    if limits is None:
        return []
    if kernel == CONV_GROUPS:
        limits["group"] = group
    if kernel in (CONV_UNITS, DEPTHWISE_UNITS):
        del limits["low"]  # it is 0
    try:
        if nest.window is None:
            _dense(schedule, limits, kernel)
        else:
            _rows(nest, schedule, limits, kernel)
    except ScheduleError:
        return []
    return [schedule]


def _dense(schedule: Schedule, limits: dict[str, int], kernel: str) -> None:
    """All rows of inputs as pixels of one image."""
    pixels, channels = find_param(schedule.func, "out").shape
    depth = find_param(schedule.func, "w").shape[1]
    by_units = kernel == DENSE and channels % UNIT == 0
    if by_units:
        schedule.split("out_d1", UNIT)
    units = "out_d1_o" if by_units else "out_d1"
    schedule.compute_at("acc", units)
    decompose(schedule, "acc")
    schedule.simplify()
    if kernel == DENSE:
        schedule.tensorize(units, kernel, {"depth": depth, "channels": channels, **limits})
        return
    loop = "out_d0" if pixels > 1 else "out_d1"
    _call(schedule, loop, kernel, _pixels(pixels, depth, channels) | limits, "0")


def _rows(nest: Nest, schedule: Schedule, limits: dict[str, int], kernel: str) -> None:
    window = nest.window
    assert window is not None
    _, height, width, channels = find_param(schedule.func, "out").shape
    schedule.compute_at("acc", "out_d3")
    decompose(schedule, "acc")
    is_depthwise = nest.is_depthwise
    if window.is_pixel and not is_depthwise and height > 1 and width > 1:
        loop = schedule.fuse("out_d1", "out_d2")
        schedule.simplify()
        sizes = _pixels(height * width, window.shape[2], channels)
        _call(schedule, loop, kernel, sizes | limits, "0")
        return
    schedule.simplify()
    (kernel_h, kernel_w), (dilation_h, dilation_w) = window.kernel, window.dilation
    sizes = {
        "height": window.shape[0], "width": window.shape[1], "kernel_h": kernel_h,
        "kernel_w": kernel_w, "stride_h": window.stride[0], "stride_w": window.stride[1],
        "dilation_h": dilation_h, "top": window.corner[0], "left": window.corner[1],
        "pixels": width, "channels": channels, **limits,
    }  # fmt: skip
    if is_depthwise:
        if window.shape[2] != channels:
            raise ScheduleError("channels have several outputs")
        sizes["dilation_w"] = dilation_w
    else:
        if dilation_w != 1 and kernel_w != 1:
            raise ScheduleError("the inputs of a row of a window do not lie together")
        sizes["in_channels"] = window.shape[2]
    loop = "out_d2" if width > 1 else "out_d3"
    row = "out_d1" if height > 1 else "0"
    _call(schedule, loop, kernel, sizes, row)


def _call(schedule: Schedule, loop: str, kernel: str, sizes: dict[str, int], row: str) -> None:
    """A call in place of a loop. Raises ScheduleError where its struct cannot hold a size."""
    if kernel in (CONV_UNITS, DEPTHWISE_UNITS):
        held = [abs(size) for name, size in sizes.items() if name != "high"]
        if max(held) > MOST_SIZE:
            raise ScheduleError(f"a size of {max(held)} does not fit in 16 bits")
    schedule.tensorize(loop, kernel, sizes, {"row": row})


def _pixels(pixels: int, depth: int, channels: int) -> dict[str, int]:
    """The sizes of a plain matrix product."""
    return {
        "height": 1, "width": pixels, "in_channels": depth, "kernel_h": 1, "kernel_w": 1,
        "stride_h": 1, "stride_w": 1, "dilation_h": 1, "top": 0, "left": 0, "pixels": pixels,
        "channels": channels,
    }  # fmt: skip


def find_limits(func: PrimFunc) -> dict[str, int] | None:
    """Limits of a function's sums, by the kernels' names; None if it does anything else."""
    expr, found = stored_value(func), {"bounds": 0, "low": 0, "high": 0}
    for op, name, bound in (("min", "high", UPPER), ("max", "low", LOWER)):
        if isinstance(expr, Binary) and expr.op == op:
            if not isinstance(expr.left, Const):
                return None
            found[name] = float_bits(float(expr.left.value))
            found["bounds"] |= bound
            expr = expr.right
    is_sum = isinstance(expr, Load) and expr.buffer.name == "acc"
    return found if is_sum else None
