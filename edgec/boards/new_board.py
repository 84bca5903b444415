"""A board file for the user's hardware, derived from a shipped board with the same chip family.

The shipped file's text stays with its comments; only the user's values change. So the file has
every fact that a port needs, with the sources of the shipped board.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgec.boards.board import Board, load_board, parse_board
from edgec.boards.board_files import port_sources
from edgec.errors import BoardError
from edgec.resources import parse_toml, resource_dir
from edgec.targets.core import find_core

_NAME = re.compile(r"^[a-z][a-z0-9_]*$")
_SIZE = re.compile(r"^(\d+[KM]?)(?:@(0x[0-9a-fA-F]+|\d+))?$")


@dataclass(frozen=True)
class NewBoard:
    """The differences from the board `like`; an empty text means no difference.

    flash, ram: "512K" or "512K@0x08000000", of the regions of program and variables. stack: "4K".
    config: values of `[config]`, by key.
    """

    name: str
    like: str
    title: str = ""
    core: str = ""
    flash: str = ""
    ram: str = ""
    stack: str = ""
    config: Mapping[str, str] = field(default_factory=dict)


def new_board_text(new: NewBoard) -> str:
    """Return the TOML text of a board. Raises BoardError for invalid settings."""
    like = _board_like(new)
    path = resource_dir("boards") / f"{like.name}.toml"
    text = _without_tables(path.read_text("utf-8"), ("qemu",))
    text = re.sub(r"^aliases .*\n", "", text, flags=re.M)
    title = new.title or f"{new.name}, like {like.title}"
    # A JSON text in one line is a TOML text.
    text = _with_value(text, "title", json.dumps(title, ensure_ascii=False))
    text = re.sub(
        r"^sources *= *\[.*?^\]\n",
        f'sources  = ["your schematic; the rest as {like.name}: {like.title}"]\n',
        text,
        count=1,
        flags=re.S | re.M,
    )
    if new.core:
        text = _with_value(text, "core", f'"{find_core(new.core).name}"')
    for asked, region in ((new.flash, like.code), (new.ram, like.data)):
        if asked:
            text = _with_region(text, region, asked)
    if new.stack:
        text = _with_value(text, "stack", f'"{new.stack}"')
    for key, value in new.config.items():
        if key not in like.config:
            raise BoardError(
                f"the port {like.port} has no setting '{key}'",
                details=("it has: " + ", ".join(like.config),),
            )
        text = _with_value(text, key, _setting(key, value))
    check_new_board(new.name, text)
    return text


def _board_like(new: NewBoard) -> Board:
    if not _NAME.match(new.name):
        raise BoardError(
            f"'{new.name}' cannot be a board's name",
            hint="use small letters, digits and underscores, a letter first",
        )
    like = load_board(new.like)
    if like.is_host or not like.runners:
        raise BoardError(
            f"{like.name} is not hardware: a new board cannot be based on it",
            hint="choose a board with a chip of the same family: `edgec boards` lists them",
        )
    return like


def check_new_board(name: str, text: str) -> Board:
    """Return the board that `text` describes. Raises BoardError if there is something wrong."""
    board = parse_board(name, text, f"{name}.toml")
    port_sources(board)
    if board.stack_bytes >= board.ram_bytes:
        raise BoardError(
            f"{name}: a stack of {board.stack_bytes} bytes does not fit {board.ram_bytes} of RAM"
        )
    return board


def _setting(key: str, value: str) -> str:
    """A value of `[config]` as TOML has it, checked to be one."""
    try:
        parse_toml(f"{key} = {value}")
    except ValueError:
        raise BoardError(f"{key}={value} is not a setting", hint="write a whole number") from None
    return value


def _with_value(text: str, key: str, value: str) -> str:
    """Replace the value of the one line `key = …`, and the comment about the old value."""
    return re.sub(rf"^({key} *= *)[^\n]*$", lambda m: m[1] + value, text, count=1, flags=re.M)


def _with_region(text: str, region: str, asked: str) -> str:
    match = _SIZE.match(asked)
    if match is None:
        raise BoardError(
            f"'{asked}' is not a memory size", hint="write 512K, 1M or 512K@0x08000000"
        )
    start = text.index(f"[memory.{region}]")
    head, tail = text[:start], _with_value(text[start:], "length", f'"{match[1]}"')
    return head + (_with_value(tail, "origin", match[2]) if match[2] else tail)


def _without_tables(text: str, names: tuple[str, ...]) -> str:
    """Drop whole tables, each up to the next one."""
    for name in names:
        text = re.sub(rf"^\[{name}\]\n.*?(?=^\[|\Z)", "", text, flags=re.S | re.M)
    return text
