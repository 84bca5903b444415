"""Rows of floats that are quantized when the model runs, on microkernels.

How far a row reaches from 0 is one call, and so are its integers.
"""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.kernels.float_rows import QUANTIZE, QUANTIZE_MOVED, REACHES
from edgec.targets.common.nests import find_param
from edgec.targets.common.sums import Kind
from edgec.targets.rule import Nest, Rule, always

#: A call gains nothing on shorter rows.
FEWEST_ELEMENTS = 16
#: By the dtype of the integers.
KERNELS = {"int8": QUANTIZE, "int16": QUANTIZE_MOVED}


def _reaches(nest: Nest) -> bool:
    """Whether it finds the largest or the least of each row of floats."""
    is_other = nest.sums is not None and nest.sums.kind in (Kind.LARGEST, Kind.OTHER)
    is_float = nest.dtype == nest.out_dtype == "float32"
    return is_other and is_float and len(find_param(nest.func, "out").shape) == 1


def _reach(nest: Nest) -> list[Schedule]:
    x = find_param(nest.func, "x")
    if "acc_k" not in loops_of(nest.func.body) or x.shape[-1] < FEWEST_ELEMENTS:
        return []
    for kernel in REACHES:
        schedule = Schedule(nest.func)
        try:
            _, row = schedule.split("acc_n", 1)
            schedule.tensorize(row, kernel, {"count": x.shape[-1]})
        except ScheduleError:
            continue
        return [schedule]
    return []


def _quantizes(nest: Nest) -> bool:
    """Whether it makes integers of rows of floats, by a number of each row."""
    temporaries = {"inverse"} if nest.out_dtype == "int8" else {"inverse", "zero_point"}
    is_stored = nest.out_dtype in KERNELS and nest.temporaries == temporaries
    return nest.dtype == "float32" and is_stored


def _quantize(nest: Nest) -> list[Schedule]:
    out = find_param(nest.func, "out")
    if out.shape[-1] < FEWEST_ELEMENTS:
        return []
    schedule = Schedule(nest.func)
    try:
        schedule.tensorize("out_d1", KERNELS[out.dtype], {"count": out.shape[-1]})
    except ScheduleError:
        return []
    return [schedule]


RULES = (
    Rule("reach of rows", _reaches, _reach, kernels=("ec_*_of_row_f32",), ends_menu=always),
    Rule("rows of integers", _quantizes, _quantize, kernels=("ec_quantize_*",), ends_menu=always),
)
