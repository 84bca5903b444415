"""`edgec new`: a folder for firmware of the user's own around a model."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from edgec.cli.arguments import MODEL, json_option, print_json
from edgec.cli.progress import working
from edgec.report.terminal import echo

#: How names of models end.
SUFFIXES = (".onnx", ".pt2", ".tflite")


@click.command()
@click.argument("name", type=click.Path(path_type=Path))
@click.option("--model", type=MODEL, metavar="MODEL",
              help="The model, which is copied; default: the only one of this folder.")  # fmt: skip
@click.option("--board", required=True, metavar="B", help="Board name, alias or TOML file.")
@json_option
def command(name: Path, model: Path | None, board: str, as_json: bool) -> None:
    """Make the folder NAME with a main.c of your own, which no build touches."""
    from edgec.boards.board import load_board
    from edgec.deploy.new_project import new_project
    from edgec.options import Options
    from edgec.pipeline import read_model

    chosen, model = load_board(board), model or _only_model(Path())
    with working(f"reading {model.name}", quiet=as_json):
        files = new_project(name, model, read_model(model, Options()), chosen)
    if as_json:
        print_json({"project": str(name), "board": chosen.name, "files": list(files)})
        return
    echo(f"{name}: {', '.join(files)}")
    echo(f"next   {shlex.join(['edgec', 'build', str(name / model.name)])}")


def _only_model(folder: Path) -> Path:
    """The model of a folder. EdgecError if it has none, or several."""
    from edgec.errors import EdgecError

    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
    if len(found) == 1:
        return found[0]
    raise EdgecError(
        "which model? " + (f"here are {len(found)}" if found else "this folder has none"),
        details=tuple(str(path) for path in found[:10]),
        hint="give --model FILE, or come from the folder with the model",
    )
