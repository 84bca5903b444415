"""Build within limits: use less memory if a limit requires it, or suggest what would help.

A limit of the RAM, and a board with too little, first select another point of the front of memory
against instructions. If a limit has none, other options are built, and the ones that keep the
limits are named with their figures.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgec.boards.board import Board
from edgec.build.staging import work_folder
from edgec.deploy.project import Built, Finish, deploy, deploy_library, figures_of
from edgec.errors import BudgetExceeded, DoesNotFit, EdgecError, PlanError
from edgec.graph.ir import Module
from edgec.memory.board_regions import BoardRegions
from edgec.options import Figures, Limits, Options
from edgec.pipeline import Compiled, compile_module
from edgec.targets.core import Core

#: How often the arena is made smaller before a limit of the RAM, or the board, counts as too small.
MOST_ATTEMPTS = 3
#: Ways out that are named.
MOST_WAYS = 3

#: Options to try when a limit is exceeded, as words of the command line.
_WAYS: dict[str, tuple[str, ...]] = {
    "RAM": (
        "--optimize ram", "--io rows", "--io caller", "--optimize ram --io rows",
        "--optimize ram --io caller",
    ),
    "flash": ("--optimize size", "--optimize size --c-optimize -Os", "--c-optimize -Os"),
    "stack": ("--optimize size", "--optimize time", "--c-optimize -Os"),
    "instructions": (
        "--optimize time", "--c-optimize -O3", "--optimize time --c-optimize -O3",
    ),
}  # fmt: skip


def _changes(words: str) -> dict[str, Any]:
    """The options that words of the command line mean."""
    names = (word.removeprefix("--").replace("-", "_") for word in words.split()[::2])
    return dict(zip(names, words.split()[1::2], strict=True))


@dataclass(frozen=True)
class _Way:
    """Options that were built, with the figures. `estimate`: of the instructions.

    excess: the sum of relative excesses over limits; 0 if all are kept.
    """

    words: str
    figures: Figures
    estimate: int
    excess: float

    @property
    def rank(self) -> tuple[float, int, int]:
        """Order: builds within the limits first, then the smallest excess, then the lowest cost."""
        return self.excess, self.estimate, self.figures.ram_bytes


def build_within(
    module: Module,
    board: Board | None,
    core: Core,
    options: Options,
    out: Path,
    *,
    traced: bool = False,
    finish: Finish | None = None,
    dump: Path | None = None,
) -> tuple[Compiled, Built]:
    """Compile and build for a board, or without one the library alone for a core.

    module: as `read_model` makes it. Raises OverBudget, with the buffers that are live together, if
    a limit of the options cannot be kept; and the errors of `compile_module` and `deploy`.
    """
    limit: int | None = options.max_ram_bytes
    reserved: dict[str, int] = {}
    refused: DoesNotFit | None = None
    for attempt in range(MOST_ATTEMPTS):
        is_last = attempt + 1 == MOST_ATTEMPTS
        try:
            compiled = compile_module(
                module, core, options, board=board, dump=dump,
                arena_limit_bytes=limit, reserved=reserved,
            )  # fmt: skip
        except PlanError:
            if refused is not None:
                raise refused from None
            raise
        try:
            if board is None:
                return compiled, deploy_library(compiled, out, finish=finish)
            return compiled, deploy(compiled, board, out, traced=traced, finish=finish)
        except DoesNotFit as error:
            if board is None or is_last:
                raise
            refused = error
            if _can_move(board, error):
                # The rest of the program takes more than was thought: place less there.
                taken = BoardRegions(board, reserved=reserved)
                reserved |= {name: taken.taken_bytes(name) + n for name, n in error.over.items()}
                continue
            tighter = _tighter_arena_bytes(board, error, compiled)
            if tighter is None or (limit is not None and tighter >= limit):
                raise
            limit = tighter
        except BudgetExceeded as error:
            limit = smaller_arena_bytes(compiled, error.over.get("RAM", 0))
            if is_last or limit is None:
                raise
    raise AssertionError("the last attempt returns or raises")


def smaller_arena_bytes(compiled: Compiled, over_bytes: int) -> int | None:
    """The arena with which RAM would not be over its limit; None if no choice needs so little."""
    front = compiled.choice.front
    limit = compiled.program.arena_bytes - over_bytes
    return limit if over_bytes and front and front[-1].need_bytes <= limit else None


def _tighter_arena_bytes(board: Board, error: DoesNotFit, compiled: Compiled) -> int | None:
    """The arena that fits into a board's only RAM; None where flash is too small, too."""
    kinds = {board.memory[name].kind for name in error.over}
    least = compiled.program.arena_bytes - sum(error.over.values())
    return least if kinds == {"ram"} and least > 0 else None


def _can_move(board: Board, error: DoesNotFit) -> bool:
    """Whether another region could take the excess of one."""
    kinds = [region.kind for region in board.memory.values() if not region.hardware_only]
    over = [board.memory[name].kind for name in error.over]
    return bool(over) and all(kinds.count(kind) > 1 for kind in over)


def with_ways_out(
    error: BudgetExceeded, module: Module, board: Board | None, core: Core, options: Options
) -> BudgetExceeded:
    tried: list[_Way] = []
    ways = dict.fromkeys(words for what in error.over for words in _WAYS[what])
    for words in ways:
        changes = _changes(words)
        if replace(options, **changes) == options:
            continue
        way = _try(words, changes, module, board, core, options)
        if way is not None and way.figures not in [other.figures for other in tried]:
            tried.append(way)
    if not tried:
        return error
    keeping = [way for way in tried if not way.excess]
    head = (
        "options that keep the limits, the cheapest first:"
        if keeping
        else "no tried options keep the limits; the nearest:"
    )
    lines = [
        _described(way) for way in sorted(keeping or tried, key=lambda way: way.rank)[:MOST_WAYS]
    ]
    hint = "build with one of these options, or raise the limit" if keeping else "raise the limit"
    result = BudgetExceeded(error.message, details=(*error.details, head, *lines), hint=hint)
    result.over = error.over
    return result


def _try(
    words: str,
    changes: dict[str, Any],
    module: Module,
    board: Board | None,
    core: Core,
    options: Options,
) -> _Way | None:
    """Build with other options and without limits; None where that is not possible."""
    free = replace(options.with_limits(Limits()), **changes)
    try:
        with work_folder("way") as folder:
            compiled = compile_module(
                module, core, free, board=board, arena_limit_bytes=options.max_ram_bytes
            )
            out = folder / "project"
            built = deploy_library(compiled, out) if board is None else deploy(compiled, board, out)
            figures = figures_of(built, measured=options.max_instructions is not None)
    except EdgecError:
        return None
    estimate = sum(variant.instructions for variant in compiled.chosen)
    return _Way(words, figures, estimate, figures.excess(options.limits))


def _described(way: _Way) -> str:
    figures = way.figures
    parts = [f"RAM {figures.ram_bytes:,}", f"flash {figures.flash_bytes:,}"]
    if figures.stack_bytes is not None:
        parts.append(f"stack {figures.stack_bytes:,}")
    if figures.instructions is not None:
        parts.append(f"instructions {figures.instructions:,}")
    else:
        parts.append(f"about {way.estimate:,} instructions")
    return f"  {way.words}: {', '.join(parts)}"
