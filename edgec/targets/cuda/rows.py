"""Plain loops on a GPU: each step by a thread, or each row by a block of threads.

The loops of softmax, of means and ranges of rows, and of layers with a memory share a row's
registers, so `edgec.targets.cuda.bind` assigns a row, or the function, to one thread. The cost
model decides.
"""

from __future__ import annotations

from collections.abc import Callable

from edgec.errors import ScheduleError
from edgec.loop.ir import For, Sync
from edgec.loop.rewrite import blocks_of, loops_of, walk
from edgec.loop.schedule import Schedule
from edgec.targets.common.nests import decompose
from edgec.targets.cuda.bind import bound
from edgec.targets.cuda.costs import GPUS
from edgec.targets.cuda.crew import launched_us
from edgec.targets.rule import Nest

#: Threads of a block: one of these, for the steps of the longest loop.
THREADS = (32, 64, 128, 256, 512)


def on_threads(apply: Callable[[Nest], list[Schedule]]) -> Callable[[Nest], list[Schedule]]:
    """The schedules of a rule for processors, with their loops shared out."""

    def schedules(nest: Nest) -> list[Schedule]:
        gpu = GPUS[nest.core.gpu_architecture]
        driver = nest.options.driver
        return [
            min(
                [bound(each), *_rows(each, nest)],
                key=lambda found: launched_us(found.func, gpu, driver),
            )
            for each in apply(nest)
        ]

    return schedules


def _rows(schedule: Schedule, nest: Nest) -> list[Schedule]:
    """The schedule with rows by blocks of threads; none where its form is another one."""
    schedule = schedule.copy()
    try:
        schedule.simplify()
        steps = max(map(_extent, loops_of(schedule.func.body).values()), default=1)
        threads = next((count for count in THREADS if count >= steps), THREADS[-1])
        schedule.share_rows(threads, nest.options.float_sums == "free")
        schedule.place_barriers()
    except ScheduleError:
        return []
    every = walk(schedule.func.body)
    waits = any(isinstance(stmt, Sync) and stmt.scope == "grid" for stmt, _ in every)
    return [] if waits else [schedule]


def _extent(loop: For) -> int:
    return loop.extent or 1


def schedule_gates(nest: Nest, schedule: Schedule) -> None:
    """A layer with a memory: each sum by a thread, weights so that threads read side by side.

    for gates_c in 0..128 {                        for gates_c_gates_g in 0..512 {
      for gates_g in 0..4 {               ->         own = ..., given = ...
        gates[c, g] = given[c, g] + own[c, g]        gates[..] = given + own
    } }                                            }
    """
    if "given_gates" in blocks_of(schedule.func.body):
        schedule.compute_inline("given_gates")
    for name in ("own", "given"):
        schedule.compute_at(name, "gates_g")
        decompose(schedule, name)
    schedule.fuse("gates_c", "gates_g")
    for name in ("w", "w2"):
        schedule.transform_layout(name, "CKG -> K C G")
