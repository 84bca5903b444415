"""`edgec verify`: the same bits as the model's own framework, or the first that differs."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import MODEL, compile_options, json_option, make_options, print_json
from edgec.cli.progress import tell_lost, transfer_bar
from edgec.report.terminal import echo, echo_lines


@click.command()
@click.argument("model", type=MODEL)
@click.option("--board", required=True, metavar="B", help="Board name, alias or TOML file.")
@click.option("--engine", type=click.Choice(["host", "core", "qemu", "serial"]),
              help="Default: serial with --port; host for the board host; qemu where it is "
              "installed and can be the board; else core.")  # fmt: skip
@click.option("--port", metavar="P", help="Serial port of a real board (engine serial).")
@click.option("--flash", is_flag=True, help="First flash what is compared (engine serial).")
@click.option("--runner", metavar="R", help="The tool to flash with.")
@click.option("--pool", "pool_file", type=click.Path(path_type=Path), metavar="POOL.toml",
              help="Spread the cases over several devices.")  # fmt: skip
@click.option("--inputs", "inputs_file", type=click.Path(path_type=Path), metavar="FILE",
              help="An .npz or .npy of samples, the first axis counts them.")  # fmt: skip
@click.option("--random", "random_cases", type=click.IntRange(min=1), metavar="N",
              help="N generated cases (seeds 1 to N); the default is 4.")  # fmt: skip
@click.option("--reference", type=click.Choice(["tflm", "litert", "onnx", "torch"]),
              help="Framework to compare with; by the format if not given.")  # fmt: skip
@click.option("--layers", is_flag=True, help="Compare every layer, not only the outputs.")
@compile_options
@json_option
def command(
    model: Path,
    board: str,
    engine: str | None,
    port: str | None,
    flash: bool,
    runner: str | None,
    pool_file: Path | None,
    inputs_file: Path | None,
    random_cases: int | None,
    reference: str | None,
    layers: bool,
    dump: Path | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Compare MODEL on a board with its own framework; status 3 if it differs.

    Integers are compared in every bit, floats within the tolerances of their operators. ONNX
    Runtime computes int16 in floats: some steps are allowed behind it, and told.
    """
    from edgec.boards.board import load_board
    from edgec.build.staging import work_folder
    from edgec.cli.samples import load_cases
    from edgec.frontends import import_model
    from edgec.oracle.verify import verify_model
    from edgec.runners.engine import default_engine, require_engine
    from edgec.runners.pool import Pool

    if inputs_file is not None and random_cases is not None:
        raise click.UsageError("give either --inputs or --random")
    if pool_file is not None and (engine or port or flash):
        raise click.UsageError("--pool says itself what runs where")
    chosen = load_board(board)
    pool = Pool.load(pool_file) if pool_file is not None else None
    name = engine or (pool.devices[0].engine if pool else default_engine(chosen, port))
    require_engine(name, chosen)  # before all the work
    if (flash or runner) and name != "serial":
        raise click.UsageError("--flash and --runner are for the engine serial")
    options = make_options(**words)
    shapes, values = dict(options.input_shapes), dict(options.input_values)
    params = import_model(model, shapes=shapes, values=values).main.inputs
    cases = load_cases(params, inputs_file, random_cases or 4)
    with (
        work_folder("verify") as work,
        pool or nullcontext(),
        transfer_bar(quiet=as_json) as transfer,
    ):
        result = verify_model(
            model,
            chosen,
            options,
            name,
            cases,
            work,
            layers=layers,
            reference=reference,
            port=port,
            dump=dump,
            prepare=_flasher(runner, port, transfer, traced=layers) if flash or runner else None,
            pool=pool,
            transfer=transfer,
        )
    tell_lost(pool)
    report = result.to_dict()
    if as_json:
        print_json(report)
    else:
        _print(report, chosen.name)
    if result.beyond:
        click.get_current_context().exit(3)


def _flasher(runner: str | None, port: str | None, transfer: Any, *, traced: bool) -> Any:
    """A function that flashes a built project, and lets the board start."""
    from edgec.runners.flash.project import flash_project

    def prepare(built: Any) -> None:
        progress = partial(transfer, f"flash {built.manifest.model}")
        done = flash_project(built, runner=runner, port=port, traced=traced, progress=progress)
        echo(f"flashed {built.manifest.model}: {done.verified}", err=True)

    return prepare


def _verdict(row: dict[str, Any]) -> str:
    if not row["mismatches"]:
        return "same"
    return f"{row['beyond']:,} differ" if row["beyond"] else "near"


def _print(report: dict[str, Any], board: str) -> None:
    from edgec.report.figures import plural, short_name
    from edgec.report.table import Column, format_table, number

    columns = (
        Column("result"), number("elements"), Column("operator"),
        Column("tensor", least=16, cut="start"),
    )  # fmt: skip
    rows = [
        (
            _verdict(row),
            f"{row['elements']:,}",
            row["operator"],
            short_name(row["tensor"]),
        )
        for row in report["layers"]
    ]
    if rows:
        echo_lines([*format_table(columns, rows), ""])
    if report["uncovered"]:
        names = dict.fromkeys(short_name(name) for name in report["uncovered"])
        shown = ", ".join(list(names)[:5]) + (", ..." if len(names) > 5 else "")
        echo(
            f"{len(report['uncovered'])} tensors of the file have no value of their own in the"
            f" compiled graph: {shown}"
        )
    verdict = "all the same bits"
    if report["mismatches"]:
        far = f"{report['beyond']:,} too much" if report["beyond"] else "all within tolerance"
        verdict = f"{report['mismatches']:,} differ, by {report['max_abs_diff']:g} at most, {far}"
    echo(
        f"{board} on {report['engine']} against {report['reference']}: {report['cases']} cases,"
        f" {report['elements']:,} elements: {verdict}"
    )
    if report["rounded_steps"]:
        steps = [f"{plural(n, 'step')} of {d}" for d, n in sorted(report["rounded_steps"].items())]
        echo(
            f"{report['reference']} computes int16 in floats and"
            f" rounds otherwise: what comes of that may differ by up to {', '.join(steps)}"
        )
    first = report["first_difference"]
    if first:
        echo(
            f"first difference: case {first['case']}, {first['operator']} {first['tensor']}"
            f"{first['index']}: expected {first['expected']}, found {first['found']}"
        )
