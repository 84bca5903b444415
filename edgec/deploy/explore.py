"""Builds of one model for many boards and options, side by side in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal

from edgec.boards.board import Board
from edgec.boards.power import energy_mj
from edgec.build.staging import work_folder
from edgec.deploy.limits import build_within
from edgec.deploy.project import Built
from edgec.errors import DoesNotFit, EdgecError
from edgec.frontends.custom_file import load_custom_ops
from edgec.graph.ir import Module
from edgec.options import Optimize, Options, Prices
from edgec.pipeline import Compiled
from edgec.runners.emulator import missing_emulator
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

#: `counted` on a simulated core or an emulated board; `estimated` from the loops alone.
Source = Literal["counted", "estimated"]

#: Forms that a float model with samples is built in, and their fields of `Recipe`.
FORMS: Mapping[str, Mapping[str, str]] = {
    "int8": {}, "int16": {"activations": "int16"}, "int4": {"weights": "int4"},
}  # fmt: skip


@dataclass(frozen=True)
class Point:
    """One build. Sizes in bytes; unknown for a failed build.

    form: "as it is", or of FORMS. instructions, cycles: of one inference; cycles are modelled.
    power_mw: of the board's chip while it computes, by its data sheet. over: the excess of each
    resource. error: why there is no build, "" if it fits.
    """

    board: str
    core: str
    optimize: str
    form: str
    clock_hz: int
    ram_limit_bytes: int
    flash_limit_bytes: int
    ram_bytes: int | None = None
    flash_bytes: int | None = None
    stack_bytes: int | None = None
    arena_bytes: int | None = None
    instructions: int | None = None
    cycles: int | None = None
    source: Source | None = None
    over: Mapping[str, int] | None = None
    error: str = ""
    power_mw: float | None = None

    @property
    def fits(self) -> bool:
        """Whether there is a program for the board."""
        return not self.error

    @property
    def time_ms(self) -> float | None:
        """One inference's time at the board's clock, from modelled cycles; None without them."""
        return None if self.cycles is None else 1000 * self.cycles / self.clock_hz

    @property
    def energy_mj(self) -> float | None:
        """The energy of one inference in millijoules, by `edgec.boards.power`."""
        return energy_mj(self.power_mw, self.cycles, self.clock_hz)


@dataclass(frozen=True)
class Job:
    """The build that one process does. custom_ops: the files that declare its custom operators."""

    module: Module
    form: str
    board: Board
    options: Options
    custom_ops: tuple[Path, ...] = ()


def jobs(
    forms: Mapping[str, Module],
    boards: Sequence[Board],
    levels: Sequence[Optimize | Prices],
    options: Options,
    custom_ops: tuple[Path, ...] = (),
) -> list[Job]:
    """Every form of the model for every board at every level of `--optimize`."""
    return [
        Job(module, form, board, replace(options, optimize=level), custom_ops)
        for board in boards
        for form, module in forms.items()
        for level in levels
    ]


def explore(
    wanted: Sequence[Job], executor: Executor, done: Callable[[], None]
) -> Iterator[tuple[Job, Point]]:
    """The points, in the order of completion; done: called after each."""
    futures = {executor.submit(measure, job): job for job in wanted}
    try:
        for future in as_completed(futures):
            done()
            yield futures[future], future.result()
    finally:
        for future in futures:
            future.cancel()


#: Once in each process, which builds several points.
_declare = cache(load_custom_ops)


def measure(job: Job) -> Point:
    """Build one point in a temporary folder, and count one inference where that is possible."""
    board = job.board
    for path in job.custom_ops:
        _declare(path)
    blank = Point(
        board.name, board.core.name, str(job.options.optimize), job.form, board.clock_hz,
        board.ram_bytes, board.flash_bytes,
        power_mw=None if board.power is None else board.power.milliwatts,
    )  # fmt: skip
    with work_folder("explore") as folder:
        try:
            compiled, built = build_within(
                job.module, board, board.core, job.options, folder / "project"
            )
            point = replace(blank, arena_bytes=compiled.program.arena_bytes)
            return _counted(point, compiled, built)
        except DoesNotFit as error:
            return replace(blank, over=dict(error.over), error=_reason(error))
        except EdgecError as error:
            return replace(blank, error=_reason(error))


def _reason(error: EdgecError) -> str:
    """One line: the exceeded resource, if the error names it."""
    over = getattr(error, "over", None)
    if over:
        return ", ".join(f"{name} is {size:,} bytes too small" for name, size in over.items())
    return error.message


def _counted(point: Point, compiled: Compiled, built: Built) -> Point:
    """The point with the sizes of its image, and the figures of one run with generated input."""
    assert built.image is not None and built.board is not None
    image, board = built.image, built.board
    point = replace(
        point, ram_bytes=image.ram_bytes, flash_bytes=image.flash_bytes,
        stack_bytes=image.stack_bytes,
    )  # fmt: skip
    engine = "core" if board.core.is_simulated else "qemu"
    if engine == "qemu" and missing_emulator(board) is not None:
        estimate = sum(variant.instructions for variant in compiled.chosen)
        return replace(point, instructions=estimate, source="estimated")
    types = [(port.shape, port.dtype) for port in built.manifest.inputs]
    with open_session(engine, built) as session:
        result = session.run(generate_inputs(1, types))
    return replace(
        point, instructions=result.instructions, cycles=result.cycles, source="counted",
        stack_bytes=result.stack_bytes or point.stack_bytes,
    )  # fmt: skip
