"""Layers with a memory whose products kernels of dense layers make, step by step."""

from __future__ import annotations

from edgec.errors import ScheduleError
from edgec.loop.lowering import STEP_MATRICES
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.targets.common.kernels.rescaling import TFLM_ANY
from edgec.targets.common.nests import decompose, find_param
from edgec.targets.common.recurrent import GATES
from edgec.targets.dsp.matrix import fits_any_shift, fits_products
from edgec.targets.rule import Nest

#: The two products of a step, the number after the names of their constants, and whether a product
#: is added to the other one.
SHARES = (("own", "", 1), ("given", "2", 0))


def schedule_steps(nest: Nest) -> list[Schedule]:
    """An LSTM whose products microkernels do, step by step; empty where they cannot."""
    func, tables = nest.func, nest.tables
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
            if nest.form == STEP_MATRICES:
                schedule.tensorize(f"{name}_c", "ec_dense_s8_s16_mve", {"depth": depth, **sizes})
            elif fits_products(constants) and fits_any_shift(constants):
                sizes["quads"] = depth // 4
                schedule.tensorize(f"{name}_c", "ec_matrix_1_plain_s8_s16_dsp", sizes)
            else:
                return []
            if f"{name}_row_k" in loops_of(schedule.func.body):
                row = find_param(func, "x").shape[-1] if name == "given" else channels // GATES
                schedule.tensorize(f"{name}_row_k", "ec_copy_row_s8", {"row": row})
    except ScheduleError:
        return []
    return [schedule]
