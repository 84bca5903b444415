"""`edgec build`: model files to a project folder with firmware or a library in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import MODEL, compile_options, json_option, make_options, parse_size


@click.command()
@click.argument("model", type=MODEL)
@click.option("--board", metavar="B", help="Board name, alias or TOML file: see `edgec boards`.")
@click.option("--target", metavar="CORE", help="Emit the library alone for a core.")
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, metavar="DIR",
              help="Project folder; written whole or not at all.")  # fmt: skip
@click.option("--name", "model_name", help="C identifier of the model.")
@click.option("--max-ram", metavar="SIZE", help="Fail over this much RAM (status 3).")
@click.option("--max-flash", metavar="SIZE", help="Fail over this much flash (status 3).")
@click.option("--max-stack", metavar="SIZE", help="Fail over this much stack (status 3).")
@click.option("--trace", "traced", is_flag=True,
              help="Also build the variant that shows every value, for profiles.")  # fmt: skip
@compile_options
@json_option
def command(
    model: Path,
    board: str | None,
    target: str | None,
    output: Path,
    model_name: str | None,
    max_ram: str | None,
    max_flash: str | None,
    max_stack: str | None,
    traced: bool,
    dump: Path | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Compile MODEL and build it for a board, or emit a library for a core."""
    from edgec.deploy import deploy, deploy_library
    from edgec.pipeline import compile_model
    from edgec.report.project import write_report
    from edgec.report.summary import build_report, print_build
    from edgec.target.board import load_board
    from edgec.target.core import find_core

    if (board is None) == (target is None):
        raise click.UsageError("give either --board or --target")
    options = make_options(
        **words,
        model_name=model_name,
        max_ram_bytes=parse_size(max_ram, "--max-ram"),
        max_flash_bytes=parse_size(max_flash, "--max-flash"),
        max_stack_bytes=parse_size(max_stack, "--max-stack"),
    )
    if board is not None:
        chosen = load_board(board)
        compiled = compile_model(model, chosen.core, options, board_name=chosen.name, dump=dump)
        built = deploy(compiled, chosen, output, traced=traced, finish=write_report)
    else:
        compiled = compile_model(model, find_core(str(target)), options, dump=dump)
        built = deploy_library(compiled, output, finish=write_report)
    report = build_report(compiled, built)
    if as_json:
        click.echo(json.dumps(report, indent=2))
    else:
        print_build(report)
