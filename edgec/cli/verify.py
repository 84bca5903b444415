"""`edgec verify`: the same bits as the model's own framework, or the first that differs."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgec.cli.arguments import (
    MODEL,
    compile_options,
    json_option,
    make_options,
    print_json,
    refuse_beside_pool,
    refuse_compile_options,
    require_model,
)
from edgec.cli.progress import Working, tell_lost, working
from edgec.cli.sanitizer import run_sanitized, sanitize_option
from edgec.cli.verify_project import OWN_CODE, model_of, refuse_another
from edgec.report.terminal import echo, echo_lines

if TYPE_CHECKING:
    from edgec.boards.board import Board
    from edgec.codegen.manifest import Manifest
    from edgec.deploy.project import Built
    from edgec.options import Options
    from edgec.oracle.verify import Prepare
    from edgec.runners.pool import Pool


@click.command()
@click.argument("model", type=MODEL)
@click.option("--board", metavar="B", help="Board name, alias or TOML file; else host, for a "
              "project folder the board that it was built for.")  # fmt: skip
@click.option("--engine", type=click.Choice(["host", "gpu_emulation", "core", "qemu", "serial"]),
              help="Default: serial with --port; host for the board host; qemu where it is "
              "installed and can be the board; else core.")  # fmt: skip
@sanitize_option
@click.option("--port", metavar="P", help="Serial port of a real board (engine serial).")
@click.option("--flash", is_flag=True, help="First flash the build to the board (engine serial).")
@click.option("--runner", metavar="R", help="The tool to flash with.")
@click.option("--pool", "pool_file", type=click.Path(path_type=Path), metavar="POOL.toml",
              help="Spread the cases over several devices.")  # fmt: skip
@click.option("--inputs", "inputs_file", type=click.Path(path_type=Path), metavar="FILE",
              help="An .npz or .npy of samples along the first axis.")  # fmt: skip
@click.option("--random", "random_cases", type=click.IntRange(min=1), metavar="N",
              help="N generated cases (seeds 1 to N); the default is 4.")  # fmt: skip
@click.option("--reference", type=click.Choice(["tflm", "litert", "onnx", "torch"]),
              help="Framework to compare with; default: the format's own.")  # fmt: skip
@click.option("--layers", is_flag=True, help="Compare every layer, not only the outputs.")
@compile_options
@json_option
def command(model: Path, board: str | None, as_json: bool, **given: Any) -> None:
    """Compare MODEL, a model file or a project folder, on a board with the model's own framework;
    status 3 if it differs.

    Integers are compared in every bit, floats within the tolerances of their operators. ONNX
    Runtime computes int16 in floats: a few steps are allowed there, and reported.
    """
    from edgec.boards.board import load_board
    from edgec.build.staging import work_folder
    from edgec.cli.samples import load_cases
    from edgec.graph.index_limits import index_limits
    from edgec.oracle.verify import Runner, verify_model
    from edgec.pipeline import read_model
    from edgec.runners.pool import Pool

    run_sanitized(given.pop("sanitize"), given["engine"])
    inputs_file, random_cases = given.pop("inputs_file"), given.pop("random_cases")
    if inputs_file is not None and random_cases is not None:
        raise click.UsageError("give either --inputs or --random")
    layers, reference, dump = given.pop("layers"), given.pop("reference"), given.pop("dump")
    require_model(model)
    words = {key: given.pop(key) for key in ("engine", "port", "flash", "runner", "pool_file")}
    model, project, options = _subject(model, given)
    chosen = load_board(board or (project.board if project is not None else "host"))
    pool_file = words["pool_file"]
    pool = Pool.load(pool_file) if pool_file is not None else None
    name = _engine(words, pool, chosen)
    main = read_model(model, options).main
    cases = load_cases(
        main.inputs, inputs_file, random_cases or 4, limits=index_limits(main),
        every_size=pool is None and name in ("host", "core"),
    )  # fmt: skip
    with (
        work_folder("verify") as work,
        pool or nullcontext(),
        working(f"reading {model.name}", quiet=as_json) as progress,
    ):
        prepare = _flasher(words, progress, traced=layers)
        prepare = prepare if layers else _same_project(project, model, prepare)
        runner = Runner(name, words["port"], prepare, pool, progress.move, dump, progress.tell)
        result = verify_model(
            model, chosen, options, runner, cases, work, layers=layers, reference=reference
        )
    tell_lost(pool)
    report = result.to_dict()
    if as_json:
        print_json(report)
    else:
        _print(report, chosen.name)
    if result.beyond:
        click.get_current_context().exit(3)


def _subject(model: Path, given: dict[str, Any]) -> tuple[Path, Manifest | None, Options]:
    """The model file and how it is compiled; of a project's folder, as that was built."""
    if not model.is_dir():
        return model, None, make_options(**given)
    refuse_compile_options("the folder says how it was built", but=OWN_CODE)
    return model_of(model, {name: given[name] for name in ("kernels", "external")})


def _same_project(project: Manifest | None, model: Path, then: Prepare | None) -> Prepare | None:
    """Refuse a build that differs from the project, before it runs."""
    if project is None:
        return then

    def prepare(built: Built) -> None:
        refuse_another(built.manifest, project, model)
        if then is not None:
            then(built)

    return prepare


def _engine(words: dict[str, Any], pool: Pool | None, board: Board) -> str:
    """The engine to verify on. Raises UsageError for options that do not go together."""
    from edgec.runners.engine import default_engine, require_engine

    refuse_beside_pool(words["pool_file"], words["engine"], words["port"], words["flash"])
    own = pool.devices[0].engine if pool else default_engine(board, words["port"])
    name: str = words["engine"] or own
    require_engine(name, board)  # before all the work
    if (words["flash"] or words["runner"]) and name != "serial":
        raise click.UsageError("--flash and --runner are for the engine serial")
    return name


def _flasher(words: dict[str, Any], progress: Working, *, traced: bool) -> Prepare | None:
    """A function that flashes a built project, and lets the board start; None without --flash."""
    from edgec.runners.flash.project import flash_project

    runner, port = words["runner"], words["port"]
    if not (words["flash"] or runner):
        return None

    def prepare(built: Built) -> None:
        moved = partial(progress.move, f"flash {built.manifest.model}")
        done = flash_project(built, runner=runner, port=port, traced=traced, progress=moved)
        echo(f"flashed {built.manifest.model}: {done.verified}", err=True)

    return prepare


def _verdict(row: dict[str, Any]) -> str:
    if not row["mismatches"]:
        return "same"
    return f"{row['beyond']:,} differ" if row["beyond"] else "near"


def _in_all(report: dict[str, Any]) -> str:
    if not report["mismatches"]:
        return "all the same bits"
    far = f"{report['beyond']:,} too much" if report["beyond"] else "all within tolerance"
    return f"{report['mismatches']:,} differ, by {report['max_abs_diff']:g} at most, {far}"


def _print(report: dict[str, Any], board: str) -> None:
    from edgec.report.figures import plural, short_name
    from edgec.report.table import Column, format_table, number, prose

    columns = (
        Column("result"), number("elements"), Column("operator"),
        Column("tensor", least=16, cut="start"),
    )  # fmt: skip
    rows = [
        (_verdict(row), f"{row['elements']:,}", row["operator"], short_name(row["tensor"]))
        for row in report["layers"]
    ]
    lines = [*format_table(columns, rows), ""] if rows else []
    if report["uncovered"]:
        names = dict.fromkeys(short_name(name) for name in report["uncovered"])
        shown = ", ".join(list(names)[:5]) + (", ..." if len(names) > 5 else "")
        lines += prose(
            f"{len(report['uncovered'])} tensors of the file have no value of their own in the"
            f" compiled graph: {shown}"
        )
    lines += prose(
        f"{board} on {report['engine']} against {report['reference']}:"
        f" {plural(report['cases'], 'case')}, {plural(report['elements'], 'element')}:"
        f" {_in_all(report)}"
    )
    lines += prose(report["note"] or "")
    if report["rounded_steps"]:
        steps = [f"{plural(n, 'step')} of {d}" for d, n in sorted(report["rounded_steps"].items())]
        lines += prose(
            f"{report['reference']} computes some integers in floats and rounds differently:"
            f" values that depend on them may differ by up to {', '.join(steps)}"
        )
    first = report["first_difference"]
    if first:
        lines += prose(
            f"first difference: case {first['case']}, {first['operator']} {first['tensor']}"
            f"{first['index']}: expected {first['expected']}, found {first['found']}"
        )
    echo_lines(lines)
