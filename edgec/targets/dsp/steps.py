"""Layers with a memory whose products kernels of dense layers make, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from edgec.errors import ScheduleError
from edgec.loop.rewrite import loops_of
from edgec.loop.schedule import Schedule
from edgec.loop.values import Array
from edgec.targets.common.kernels.rescaling import TFLM_ANY
from edgec.targets.common.nests import decompose, find_param
from edgec.targets.dsp.matrix import fits_any_shift
from edgec.targets.rule import Nest

#: The two products of a step: the sums, the number after the names of their constants, the row that
#: is multiplied, the block that makes gates, and whether gates are added to earlier ones.
SHARES = (("given", "2", "now", "given_gates", 0), ("own", "", "row", "gates", 1))
#: Inputs that the kernel without vectors takes at once.
QUAD = 4


def steps_by_quads(nest: Nest) -> list[Schedule]:
    """An LSTM whose products a kernel makes of words of four inputs."""
    return _scheduled(nest, "ec_matrix_1_plain_s8_s16_dsp", "quads", QUAD, fits_any_shift)


def steps_on_vectors(nest: Nest) -> list[Schedule]:
    """An LSTM whose products are made on vectors."""
    return _scheduled(nest, "ec_dense_s8_s16_mve", "depth", 1, lambda _: True)


def _scheduled(
    nest: Nest, kernel: str, size: str, at_once: int, fits: Callable[[Mapping[str, Array]], bool]
) -> list[Schedule]:
    """Return the nest's schedule on a kernel of this many inputs at once; empty if none fits."""
    schedule = Schedule(nest.func)
    try:
        schedule.store_over("gates", "given_gates")
        loops = [_as_matrix(schedule, *share[:4], at_once) for share in SHARES]
        schedule.simplify()
        for loop, (_, number, row, _, added) in zip(loops, SHARES, strict=True):
            constants = {w: schedule.table(f"{w}{number}", nest.tables) for w in TFLM_ANY.sources}
            if not fits(constants):
                return []
            channels, depth = constants["w"].shape
            sizes = {size: depth // at_once, "channels": channels, "added": added}
            schedule.tensorize(loop, kernel, sizes)
            if f"{row}_k" in loops_of(schedule.func.body):
                inputs = nest.tables[f"w{number}"].shape[1]
                schedule.tensorize(f"{row}_k", "ec_copy_row_s8", {"row": inputs})
    except ScheduleError:
        return []
    return [schedule]


def _as_matrix(
    schedule: Schedule, sums: str, number: str, row: str, gates: str, at_once: int
) -> str:
    """The gates of all units one after the other; returns the name of their loop."""
    depth = find_param(schedule.func, f"w{number}").shape[1]
    schedule.transform_layout(f"w{number}", "UKG -> U G K")
    for buffer in (f"w{number}", f"bias{number}"):
        schedule.flatten(buffer, 0, 1)
    if depth % at_once:
        if row == "row":
            schedule.gather(sums, "out2", row)
        schedule.pad_steps(sums, row, "k", at_once)
    schedule.compute_at(sums, f"{gates}_g")
    decompose(schedule, sums)
    return schedule.fuse(f"{gates}_c", f"{gates}_g")
