"""A folder for firmware of the user's own: main.c, edgec.toml, the model and a README.

It is written once. Builds go to a folder inside it and touch nothing else.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgec.boards.board import Board
from edgec.build.firmware import ELF_NAME
from edgec.codegen.c_types import C_TYPE
from edgec.codegen.names import model_identifier
from edgec.errors import EdgecError
from edgec.graph.ir import Module
from edgec.resources import text_templates

#: Where builds of the project go, inside it.
OUTPUT = "build"
CONFIG_NAME = "edgec.toml"


def new_project(folder: Path, model: Path, module: Module, board: Board) -> tuple[str, ...]:
    """Write the project; returns the names of its files.

    model: the file that `module` was read from; it is copied. Raises EdgecError for a folder that
    exists, a board without a microcontroller, and a model without inputs or outputs.
    """
    if board.is_host:
        raise EdgecError(
            "a firmware project needs a board with a microcontroller", hint="see `edgec boards`"
        )
    if folder.exists():
        raise EdgecError(f"{folder} exists already", hint="choose another name, or remove it")
    inputs, outputs = module.main.inputs, module.main.outputs
    if not inputs or not outputs:
        raise EdgecError(f"{model.name} has no {'outputs' if inputs else 'inputs'} to write for")
    name = model_identifier(folder.name)
    values = {
        "name": folder.name,
        "model": name,
        "upper": name.upper(),
        "model_file": model.name,
        "board_title": board.title,
        "input_type": C_TYPE[inputs[0].type.dtype],
        "output_type": C_TYPE[outputs[0].type.dtype],
        "output": OUTPUT,
        "elf": ELF_NAME,
    }
    files = {
        "main.c": _render("new/main.c.j2", values),
        "README.md": _render("new/README.md.j2", values),
        CONFIG_NAME: _config(board, name),
        ".gitignore": f"/{OUTPUT}/\n",
    }
    with _whole(folder) as staging:
        for file, text in files.items():
            (staging / file).write_bytes(text.encode("utf-8"))
        shutil.copyfile(model, staging / model.name)
    return (*files, model.name)


@contextmanager
def _whole(folder: Path) -> Iterator[Path]:
    """A folder to fill, which gets its name at the end.

    It has no marker of edgec's: it is the user's, and no build may replace it. Raises EdgecError
    where it cannot be written.
    """
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=parent))
        try:
            yield staging
            staging.chmod(0o755)  # not private, as temporary folders are
            staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as problem:
        raise EdgecError(f"cannot write {folder}: {problem.strerror or problem}") from None


def _render(template: str, values: dict[str, str]) -> str:
    return text_templates().get_template(template).render(**values)


def _config(board: Board, name: str) -> str:
    """The options of the project; JSON's strings are TOML's."""
    lines = [
        f"board = {json.dumps(board.name)}",
        "",
        "[build]",
        f"name = {json.dumps(name)}      # the prefix of everything in C",
        'main = "main.c"',
        f"output = {json.dumps(OUTPUT)}",
        '# max-ram = "64K"    # fail where the firmware takes more',
    ]
    return "\n".join(lines) + "\n"
