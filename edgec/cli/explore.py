"""`edgec explore`: one model on many boards, at several levels, side by side."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import (
    CUSTOM_OPS,
    MODEL,
    OPTIMIZE,
    PIXELS,
    SIZE,
    compile_options,
    json_option,
    make_options,
    print_json,
)
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.boards.board import Board
    from edgec.deploy.explore import Job
    from edgec.options import Optimize, Prices
    from edgec.report.explore import Explored

#: Levels that are built unless --optimize names others.
LEVELS: tuple[Optimize, ...] = ("time", "balanced", "size")


@click.command()
@click.argument("model", type=MODEL, required=False)
@click.option("--board", multiple=True, metavar="B",
              help="A board (repeatable); default: every microcontroller board.")  # fmt: skip
@click.option("--optimize", type=OPTIMIZE, multiple=True,
              help="A level or prices (repeatable); default: time, balanced and size.")  # fmt: skip
@click.option("--calibration", type=click.Path(path_type=Path), metavar="SOURCE",
              help="Also build a float MODEL quantized with these samples.")  # fmt: skip
@click.option("--form", "form", type=click.Choice(["int8", "int16", "int4"]), multiple=True,
              help="With --calibration, one form (repeatable); default: all.")  # fmt: skip
@click.option("--pixels", type=PIXELS, default="0:1", show_default=True, metavar="BLACK:WHITE",
              help="For images: the model's values for black and white.")  # fmt: skip
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE",
              help="Also write a page to filter and sort the builds.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), metavar="N",
              help="Builds at once; default: one for each processor.")  # fmt: skip
@click.option("--serve", "is_served", is_flag=True,
              help="Show the page from this computer; a model dropped on it is built.")  # fmt: skip
@click.option("--serve-port", type=click.IntRange(0, 65535), default=0, metavar="PORT",
              help="Port of --serve on the loopback interface; default: a free one.")  # fmt: skip
@click.option("--max-upload", type=SIZE, default="64M", show_default=True, metavar="SIZE",
              help="Largest file that --serve takes.")  # fmt: skip
@partial(compile_options, skipped=1)  # --optimize, which takes several here
@json_option
def command(model: Path | None, page: Path | None, as_json: bool, **given: Any) -> None:
    """Build MODEL for many boards and levels, and compare RAM, flash and time."""
    from edgec.report.explore import report_of

    is_served, port, most_bytes = (
        given.pop(key) for key in ("is_served", "serve_port", "max_upload")
    )
    workers = given.pop("workers") or os.cpu_count() or 1
    samples = _sample_words(given["calibration"], given["pixels"])
    if is_served:
        if page is not None or as_json:
            raise click.UsageError("--serve shows its own page: omit --html and --json")
        if not most_bytes:
            raise click.UsageError("--max-upload 0 takes no file: give a size such as 64M")
        plan = _planner(quiet=True, **given)
        _serve(model, plan, samples, (workers, port, most_bytes))
        return
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    wanted, accuracy = _planner(quiet=as_json, **given)(model)
    found = _explore(wanted, workers, as_json)
    _show(report_of(model, samples, found, accuracy), page, as_json)


def _sample_words(calibration: Path | None, pixels: Any) -> list[str]:
    """The words that name the samples on a command line."""
    if calibration is None:
        return []
    given = [] if pixels == (0.0, 1.0) else ["--pixels", PIXELS.word(pixels)]
    return ["--calibration", str(calibration), *given]


def _planner(
    *,
    board: tuple[str, ...],
    calibration: Path | None,
    pixels: tuple[float, float],
    form: tuple[str, ...],
    optimize: tuple[Optimize | Prices, ...],
    quiet: bool,
    **given: Any,
) -> Callable[[Path], tuple[list[Job], dict[str, float | None]]]:
    """A function from a model file to the builds to make, and the dB of its forms."""
    from edgec.cli.build import quantize_module
    from edgec.cli.progress import working
    from edgec.deploy.explore import FORMS, jobs
    from edgec.pipeline import read_model

    if form and calibration is None:
        raise click.UsageError("--form needs --calibration: samples of the model's input")
    given.pop("dump")
    options = make_options(**given)
    levels = tuple(dict.fromkeys(optimize)) or LEVELS
    boards = _boards(board)
    custom_ops = click.get_current_context().meta.get(CUSTOM_OPS, ())

    def plan(model: Path) -> tuple[list[Job], dict[str, float | None]]:
        with working(f"reading {model.name}", quiet=quiet):
            module = read_model(model, options)
        forms, accuracy = {"as it is": module}, {}
        if calibration is not None:
            for name in dict.fromkeys(form) or FORMS:
                made = quantize_module(module, calibration, pixels, quiet, **FORMS[name])
                forms[name], accuracy[name] = made.module(module.source), made.own_db()
        return jobs(forms, boards, levels, options, custom_ops), accuracy

    return plan


def _serve(
    model: Path | None,
    plan: Callable[[Path], tuple[list[Job], dict[str, float | None]]],
    samples: list[str],
    limits: tuple[int, int, int],
) -> None:
    """Serve the page until Ctrl-C; limits: builds at once, port, bytes of an upload."""
    from edgec.build.staging import work_folder
    from edgec.errors import ToolMissing
    from edgec.serve.builds import Builds

    try:
        from edgec.serve.server import serve
    except ModuleNotFoundError as error:
        raise ToolMissing(
            f"--serve needs the Python package {error.name}", hint='pip install "edgec[serve]"'
        ) from None
    workers, port, most_bytes = limits

    def ready(address: str) -> None:
        echo(f"serving  {address}\n         open it in a browser; Ctrl-C ends")
        sys.stdout.flush()

    with work_folder("serve") as folder:
        builds = Builds(plan, samples, workers, folder)
        if model is not None:
            builds.start(model.name, model, keep=True)
        serve(builds, port, most_bytes, ready)


def _show(report: dict[str, Any], page: Path | None, as_json: bool) -> None:
    """Write the page, then print the object or the table."""
    from edgec.build.staging import staged_file
    from edgec.report.explore import explore_table, render_explore

    if page is not None:
        with staged_file(page, "choose another --html") as staged:
            staged.write_text(render_explore(report), encoding="utf-8")
    if as_json:
        print_json(report)
        return
    echo("\n".join(explore_table(report)))
    if page is not None:
        echo(f"\npage  {page}")


def _boards(names: tuple[str, ...]) -> list[Board]:
    """The named boards, else all with a microcontroller. Raises EdgecError for the host."""
    from edgec.boards.board import all_boards, load_board
    from edgec.errors import EdgecError

    boards = [load_board(name) for name in dict.fromkeys(names)] or list(all_boards())
    if names and any(board.is_host for board in boards):
        raise EdgecError(
            "this computer has no limits to compare", hint="name boards with a microcontroller"
        )
    return [board for board in boards if not board.is_host]


def _explore(wanted: list[Job], workers: int, quiet: bool) -> Explored:
    """Return all points in the order of the jobs. Raises EdgecError if a process ends early."""
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    from edgec.cli.progress import count_bar
    from edgec.deploy.explore import explore
    from edgec.errors import EdgecError

    found = {}
    # Fresh processes: forks of one with threads (NumPy's) may hang.
    pool = ProcessPoolExecutor(min(workers, len(wanted)), mp_context=get_context("spawn"))
    with pool, count_bar("building", len(wanted), quiet=quiet) as step:
        try:
            for job, point in explore(wanted, pool, step):
                found[id(job)] = point
        except BrokenProcessPool:
            raise EdgecError(
                "a build process stopped unexpectedly", hint="try --workers 1: memory may be short"
            ) from None
    return [found[id(job)] for job in wanted]
