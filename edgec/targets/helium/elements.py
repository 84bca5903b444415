"""Sums and products of tensors, means and maxima of channels on MVE."""

from __future__ import annotations

import numpy as np

from edgec.errors import ScheduleError
from edgec.loop.ir import Binary, Cast, Const, Expr, PrimFunc, Store
from edgec.loop.rewrite import buffers_of, subexpressions, walk
from edgec.loop.schedule import Schedule
from edgec.targets.common.elements import on_elements, schedule_mul
from edgec.targets.common.nests import find_param
from edgec.targets.dsp.pools import schedule_max_pool

#: Channels that a vector holds.
MEAN_CHANNELS = 16
#: Channels that are summed as floats at once.
REAL_CHANNELS = 8
#: Vectors take denormal floats for 0: of such numbers, no sum is one.
LEAST_SCALE = 2.0**-60


def schedule_on_vectors(schedule: Schedule) -> bool:
    """Whether the function is one that a microkernel does as a whole, and now a call of it."""
    if schedule.func.name == "avg_pool2d":
        return schedule_mean(schedule) or schedule_real_mean(schedule)
    if schedule.func.name == "max_pool2d":
        return schedule_max_pool(schedule, "ec_max_pool_s8_mve")
    product = schedule_mul(schedule.func, "mve")
    if product is not None:
        schedule.func, schedule.trace = product.func, product.trace
        return True
    return schedule_linear_sum(schedule)


def schedule_linear_sum(schedule: Schedule) -> bool:
    """Whether the function is a linear sum of two tensors, and now calls."""
    sizes = linear_sum_sizes(schedule.func)
    if sizes is None:
        return False
    operands = [buffer for buffer in schedule.func.params if buffer.name != "out"]
    trial = on_elements(schedule.func, operands, "ec_linear_sum_s8_mve", sizes)
    if trial is None:
        return False
    schedule.func, schedule.trace = trial.func, trial.trace
    return True


def schedule_mean(schedule: Schedule) -> bool:
    """Whether the function is the mean of each channel of a whole image, and now a call."""
    x, out = (find_param(schedule.func, name) for name in ("x", "out"))
    limits = _limits(schedule.func)
    if limits is None or len(out.shape) != 4 or out.elements != out.shape[3]:
        return False
    if x.dtype != "int8" or out.shape[3] < MEAN_CHANNELS:
        return False
    trial = Schedule(schedule.func)
    _, height, width, channels = x.shape
    sizes = {"kernel_h": height, "kernel_w": width, "channels": channels, **limits}
    try:
        trial.compute_at("acc", "out_d3")
        trial.decompose_reduction("acc", "acc_kh")
        trial.simplify()
        trial.tensorize("out_d3", "ec_mean_s8_mve", sizes)
    except ScheduleError:
        return False
    schedule.func, schedule.trace = trial.func, trial.trace
    return True


def schedule_real_mean(schedule: Schedule) -> bool:
    """Whether the function is such a mean in floats, and its sums now a call."""
    x, out = (find_param(schedule.func, name) for name in ("x", "out"))
    sums = buffers_of(schedule.func).get("acc")
    if sums is None or sums.dtype != "float32" or x.dtype != "int8" or len(out.shape) != 4:
        return False
    if out.elements != out.shape[3] or out.shape[3] % REAL_CHANNELS:
        return False
    consts = [
        part
        for stmt, _ in walk(schedule.func.body)
        if isinstance(stmt, Store) and stmt.buffer == sums
        for part in subexpressions(stmt.value)
        if isinstance(part, Const)
    ]
    scales = [np.float32(c.value) for c in consts if c.dtype == "float32" and c.value != 0.0]
    points = [int(c.value) for c in consts if c.dtype == "int32"]
    if len(scales) != 1 or len(points) > 1 or scales[0] < LEAST_SCALE:
        return False
    trial = Schedule(schedule.func)
    _, height, width, channels = x.shape
    sizes = {"kernel_h": height, "kernel_w": width, "channels": channels}
    sizes |= {"zero_point": sum(points), "scale_bits": int(scales[0].view(np.int32))}
    try:
        trial.cache_write("acc", "acc_c")
        trial.decompose_reduction("acc", "acc_kh")
        trial.simplify()
        trial.tensorize("acc_c", "ec_sum_real_channels_s8_mve", sizes)
    except ScheduleError:
        return False
    schedule.func, schedule.trace = trial.func, trial.trace
    return True


def _limits(func: PrimFunc) -> dict[str, int] | None:
    """The range that an output is limited to before it becomes int8."""
    stores = [s for s, _ in walk(func.body) if isinstance(s, Store) and s.buffer.name == "out"]
    if len(stores) != 1 or not isinstance(stores[0].value, Cast):
        return None
    upper = stores[0].value.value
    if not isinstance(upper, Binary) or upper.op != "min" or not isinstance(upper.right, Const):
        return None
    lower = upper.left
    if not isinstance(lower, Binary) or lower.op != "max" or not isinstance(lower.right, Const):
        return None
    return {"minimum": int(lower.right.value), "maximum": int(upper.right.value)}


def linear_sum_sizes(func: PrimFunc) -> dict[str, int] | None:
    """The numbers of (a * first + constant + b * second) >> shift, limited; None for others."""
    stores = [s for s, _ in walk(func.body) if isinstance(s, Store)]
    out = next((p for p in func.params if p.name == "out"), None)
    if out is None or not out.shape or len(stores) != 1 or not isinstance(stores[0].value, Cast):
        return None
    expr: Expr = stores[0].value.value
    found: dict[str, int] = {}
    for name, op in (("maximum", "min"), ("minimum", "max"), ("shift", "shr")):
        if not isinstance(expr, Binary) or expr.op != op or not isinstance(expr.right, Const):
            return None
        found[name] = int(expr.right.value)
        expr = expr.left
    if not isinstance(expr, Binary) or expr.op != "add" or not isinstance(expr.left, Binary):
        return None
    product, rest = expr.right, expr.left
    if rest.op != "add" or not isinstance(rest.right, Const):
        return None
    found["constant"] = int(rest.right.value)
    for name, factor in (("first", rest.left), ("second", product)):
        if not isinstance(factor, Binary) or factor.op != "mul":
            return None
        if not isinstance(factor.right, Const):
            return None
        found[name] = int(factor.right.value)
    return found
