"""`edgec new`: a folder for firmware of the user's own around a model."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from edgec.cli.arguments import MODEL, json_option, print_json
from edgec.cli.progress import working
from edgec.report.terminal import echo


@click.command()
@click.argument("name", type=click.Path(path_type=Path))
@click.option("--model", type=MODEL, required=True, metavar="MODEL",
              help="The model; it is copied into the folder.")  # fmt: skip
@click.option("--board", required=True, metavar="B", help="Board name, alias or TOML file.")
@json_option
def command(name: Path, model: Path, board: str, as_json: bool) -> None:
    """Make the folder NAME with a main.c of your own, which no build touches."""
    from edgec.boards.board import load_board
    from edgec.deploy.new_project import new_project
    from edgec.options import Options
    from edgec.pipeline import read_model

    chosen = load_board(board)
    with working(f"reading {model.name}", quiet=as_json):
        files = new_project(name, model, read_model(model, Options()), chosen)
    if as_json:
        print_json({"project": str(name), "board": chosen.name, "files": list(files)})
        return
    echo(f"{name}: {', '.join(files)}")
    echo(f"next   {shlex.join(['edgec', 'build', str(name / model.name)])}")
