"""`edgec tune`: search for faster schedules, measured on a simulated core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import (
    MODEL,
    WordType,
    compile_options,
    json_option,
    make_options,
    print_json,
)
from edgec.cli.progress import working
from edgec.report.terminal import echo

if TYPE_CHECKING:
    from edgec.loop.tuned import Tuned
    from edgec.tune.model import Event


class WorkersType(WordType):
    """A count of local processes, or the address of a farm."""

    name = "COUNT|tcp://HOST:PORT"

    def read(self, text: str) -> str:
        is_count = text.isdigit() and 1 <= int(text) <= 256
        if not is_count and "://" not in text:
            raise ValueError(
                f"{text!r} is neither a count from 1 to 256 nor an address like tcp://HOST:PORT"
            )
        return text


@click.command()
@click.argument("model", type=MODEL, required=False)
@click.option("--board", metavar="B", help="Measure on this board's core.")
@click.option("--target", metavar="CORE", help="Measure on this core.")
@click.option("--trials", type=click.IntRange(0, 1_000_000), default=200, show_default=True,
              help="How many schedules to measure, in all layers together.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True,
              help="Seed of the random choices.")  # fmt: skip
@click.option("--lean", is_flag=True,
              help="Also search for schedules that take no more memory of any kind.")  # fmt: skip
@click.option("--afresh", is_flag=True,
              help="Also search layers whose schedules ship with edgec.")  # fmt: skip
@click.option("--workers", type=WorkersType(), default="1", show_default=True,
              help="How many local processes measure, or the address of a dask.distributed"
              " farm.")  # fmt: skip
@click.option("--merge", type=click.Path(path_type=Path), multiple=True, metavar="FILE",
              help="Merge another file of schedules; without MODEL, do nothing else.")  # fmt: skip
@click.option("--html", "page", type=click.Path(path_type=Path), metavar="FILE",
              help="Write an HTML page of the tried schedules.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
              help="File of the schedules; default MODEL.tune.json beside MODEL. Those in it are"
              " not measured again.")  # fmt: skip
@compile_options
@json_option
def command(model: Path | None, output: Path | None, **given: Any) -> None:
    """Search for faster schedules of MODEL's layers; `edgec build` takes what is found.

    Candidates run on a simulated Cortex-M, which counts their instructions exactly.
    """
    from edgec.loop.tuned import SUFFIX

    if model is None:
        _merge(given["merge"], output)
        return
    if (given["board"] is None) == (given["target"] is None):
        raise click.UsageError("give --board or --target: tuning is for one core")
    _tune(model, output or model.with_suffix(SUFFIX), given)


def _merge(files: tuple[Path, ...], output: Path | None) -> None:
    """Merge several files into one."""
    from edgec.loop.tuned import merged, read_tuned

    if not files or output is None:
        raise click.UsageError("without MODEL, give --merge FILE at least once, and -o FILE")
    tuned = merged(read_tuned(path) for path in files)
    _save(output, tuned)
    echo(f"{output}: {len(tuned.groups)} nests")


def _tune(model: Path, output: Path, given: dict[str, Any]) -> None:
    from edgec.boards.board import load_board
    from edgec.build.staging import staged_file
    from edgec.loop.tuned import merged, read_tuned
    from edgec.pipeline import read_model
    from edgec.report.tuning import print_tuning, tuning_report
    from edgec.report.tuning_page import tuning_page
    from edgec.targets.core import find_core
    from edgec.tune.model import Plan, require_measurable, tune
    from edgec.tune.workers import open_workers

    names = ("board", "target", "trials", "seed", "lean", "afresh", "workers", "as_json")
    board, target, trials, seed, lean, afresh, workers, as_json = map(given.pop, names)
    given.pop("dump")
    page = given.pop("page")
    files = [path for path in (output, given.pop("tuned"), *given.pop("merge")) if path]
    core = find_core(target) if board is None else load_board(board).core
    require_measurable(core)
    options = make_options(**given)
    module = read_model(model, options)
    known = merged(read_tuned(p) for p in files if p != output or p.exists())
    plan = Plan(core, options, trials, seed, lean, takes_shipped=not afresh)
    with open_workers(workers) as pool, _bar(trials, quiet=as_json) as watch:
        _, layers = tune(module, plan, pool, known, watch, lambda t: _save(output, t))
    report = tuning_report(model, core.name, output, layers)
    if page is not None:
        text = tuning_page(report, {each.group.nest: each.group for each in layers})
        with staged_file(page, "choose another --html") as staged:
            staged.write_text(text, encoding="utf-8")
    if as_json:
        print_json(report)
    else:
        print_tuning(report)


def _save(output: Path, tuned: Tuned) -> None:
    from edgec.build.staging import staged_file
    from edgec.loop.tuned import to_json

    with staged_file(output, "choose another file with -o") as path:
        path.write_text(to_json(tuned), encoding="utf-8")


@contextmanager
def _bar(trials: int, *, quiet: bool) -> Iterator[Callable[[Event], None]]:
    """Show the number of tried candidates, and the best of the layer so far."""
    with working("reading", quiet=quiet) as progress:
        done: dict[int, int] = {}

        def watch(event: Event) -> None:
            done[id(event.layers)] = event.trials
            best, default = event.best, event.default
            share = f"{best.instructions / default.instructions:.0%} of the default" if (
                best and default) else "nothing measured"  # fmt: skip
            progress.tell(f"{event.layers.group.name}: {share}", sum(done.values()), trials)

        yield watch
