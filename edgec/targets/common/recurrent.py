"""Layers with a memory: sums in registers, where they are used, or all at once on microkernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from edgec.errors import ScheduleError
from edgec.loop.ir import PrimFunc
from edgec.loop.lowering import STEP_MATRICES, STEP_ROWS
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.kernels.rescaling import TFLM_ANY
from edgec.targets.common.nests import decompose, find_param, largest_divisor
from edgec.targets.dsp.matrix import fits_any_shift, fits_products

Array = npt.NDArray[Any]

GATES = 4

#: What the names of constants that rescale begin with.
FACTORS = ("multiplier", "shift")

#: Functions that this policy knows.
LSTMS = ("lstm", "lstm_float")
RECURRENT = (*LSTMS, "svdf_time")

#: The two products of a step, the number behind the names of their constants, and whether a product
#: is added to the other one.
SHARES = (("own", "", 1), ("given", "2", 0))


def step_forms(operators: tuple[str, ...], features: frozenset[str]) -> tuple[str, ...]:
    """Forms for a group of these operators on a core with these features."""
    if operators != ("lstm",):
        return ()
    forms = {"mve": STEP_MATRICES, "dsp": STEP_ROWS}
    return tuple(form for feature, form in forms.items() if feature in features)


def schedule_steps(func: PrimFunc, form: str, tables: Mapping[str, Array]) -> list[Schedule]:
    """An LSTM whose products microkernels do, step by step; empty where they cannot."""
    schedule = Schedule(func)
    try:
        for name, _, _ in SHARES:
            schedule.compute_at(f"{name}_acc", f"{name}_c")
            decompose(schedule, f"{name}_acc")
        schedule.simplify()
        for name, number, added in SHARES:
            constants = {own: tables[f"{own}{number}"] for own in TFLM_ANY.sources}
            channels, depth = constants["w"].shape[:2]
            sizes = {"channels": channels, "added": added}
            if form == STEP_MATRICES:
                schedule.tensorize(f"{name}_c", "ec_dense_s8_s16_mve", {"depth": depth, **sizes})
            elif fits_products(constants) and fits_any_shift(constants):
                sizes["quads"] = depth  # inputs are told in quads
                schedule.tensorize(f"{name}_c", "ec_matrix_1_plain_s8_s16_dsp", sizes)
            else:
                return []
            if f"{name}_row_k" in loops_of(schedule.func.body):
                row = find_param(func, "x").shape[-1] if name == "given" else channels // GATES
                schedule.tensorize(f"{name}_row_k", "ec_copy_row_s8", {"row": row})
    except ScheduleError:
        return []
    return [schedule]


def schedule_recurrent(schedule: Schedule, straight: int, tables: Mapping[str, Array]) -> None:
    """Each sum in a register, where it is used; `straight` products at a time.

    for out_d1 in 0..80 {                          for out_d1 in 0..80 {
      acc[out_d1] = bias[out_d1]                     sum = bias[out_d1]
      for acc_k in 0..20 {                           for acc_k_o in 0..5 {
        acc[out_d1] = acc[out_d1] + ...     ->         sum = sum + ...      four times

    An LSTM's four gates of a unit share every input: four sums, one load.
    """
    if schedule.func.name in LSTMS:
        for name in ("own", "given"):
            _gates_at_once(schedule, name)
        for loop, weights in (("own_k", "w"), ("given_k", "w2")):
            _in_line(schedule, loop, find_param(schedule.func, weights).shape[1], min(straight, 2))
        if straight > 1:
            schedule.unroll("gates_g")
            _factors_in_code(schedule, tables)
        return
    schedule.compute_at("acc", "out_d1")
    decompose(schedule, "acc")
    taps = find_param(schedule.func, "w").elements // find_param(schedule.func, "bias").elements
    _in_line(schedule, "acc_k", taps, straight)


def _gates_at_once(schedule: Schedule, name: str) -> None:
    schedule.compute_at(name, "gates_c")
    loops = loops_of(schedule.func.body)
    if f"{name}_k" not in loops:  # one input
        decompose(schedule, name)
        return
    schedule.decompose_reduction(name, f"{name}_g")
    schedule.reorder(f"{name}_k", f"{name}_g")
    for loop in (f"{name}_g", f"{name}_g_init"):
        schedule.unroll(loop)


def _factors_in_code(schedule: Schedule, tables: Mapping[str, Array]) -> None:
    """The gates' multipliers and shifts: each is read at one place."""
    for name, table in tables.items():
        if name.startswith(FACTORS) and table.shape == (GATES,):
            schedule.inline_constant(name, table.tolist())


def _in_line(schedule: Schedule, loop: str, steps: int, straight: int) -> None:
    factor = largest_divisor(steps, straight)
    if factor > 1 and loop in loops_of(schedule.func.body):
        _, inner = schedule.split(loop, factor)
        schedule.unroll(inner)
