"""`edgec boards`: the boards that edgec knows."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import Any

import click

from edgec.cli.arguments import json_option, print_json
from edgec.report.table import Column, format_table, number, terminal_width
from edgec.report.terminal import echo, echo_lines


class _ShowByDefault(click.Group):
    """`edgec boards NAME` is `edgec boards show NAME`, which scripts may leave out."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ("-h", "--help")):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault)
def command() -> None:
    """List the boards, show one, or write a file for a new one."""


@command.command()
@click.argument("name")
@click.option("--like", metavar="B", help="A shipped board with a chip of the same family.")
@click.option("--title", default="", help="What it is, in words.")
@click.option("--core", default="", metavar="CORE", help="Another core than that board's.")
@click.option("--flash", default="", metavar="SIZE[@ORIGIN]", help="Flash of the program.")
@click.option("--ram", default="", metavar="SIZE[@ORIGIN]", help="RAM of variables and arena.")
@click.option("--stack", default="", metavar="SIZE", help="How much of it is the stack.")
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="A setting of the port, such as UART_TX_PIN=9 (repeatable).",
)  # fmt: skip
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE",
    help="The file to write; default NAME.toml.",
)  # fmt: skip
@json_option
def new(
    name: str,
    like: str | None,
    settings: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    **facts: str,
) -> None:
    """Write the file of a board of your own, after a shipped one with the same chip family.

    What is not given is asked for on a terminal, and otherwise as on that board.
    """
    from edgec.boards.new_board import NewBoard, new_board_text
    from edgec.build.staging import staged_file
    from edgec.errors import EdgecError

    if like is None:
        like = _ask(name, facts, is_asked=sys.stdin.isatty() and not as_json)
    config = dict(map(_setting, settings))
    path = output or Path(f"{name}.toml")
    if path.suffix != ".toml":
        raise click.UsageError(f"{path}: a board's file ends in .toml")
    text = new_board_text(NewBoard(name, like, **facts, config=config))
    if path.exists():
        raise EdgecError(f"{path} exists already", hint="choose another --output, or remove it")
    with staged_file(path, hint="choose another --output") as temporary:
        temporary.write_text(text, encoding="utf-8")
    if as_json:
        print_json({"board": str(path)})
        return
    echo(f"{path}: check it against your schematic, then `--board {path}`")


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--set {text}: write KEY=VALUE")
    return key, value


def _ask(name: str, facts: dict[str, str], *, is_asked: bool) -> str:
    """Ask for the board that is like it, which is returned, and for the facts not given."""
    from edgec.boards.board import load_board

    if not is_asked:
        raise click.UsageError("--like is missing: a shipped board with a chip of the same family")
    like: str = click.prompt("A shipped board with a chip of the same family (`edgec boards`)")
    board = load_board(like)
    for key, question, default in (
        ("title", "What it is, in words", name), ("flash", "Flash", _kib(board.flash_bytes)),
        ("ram", "RAM", _kib(board.ram_bytes)), ("stack", "Stack", _kib(board.stack_bytes)),
    ):  # fmt: skip
        facts[key] = facts[key] or click.prompt(question, default=default)
    return like


@command.command()
@click.argument("name", required=False)
@json_option
def show(name: str | None, as_json: bool) -> None:
    """List the boards, or show one by name, alias or TOML file."""
    from edgec.boards.board import all_boards, load_board

    boards = [load_board(name)] if name else list(all_boards())
    rows = [_row(board) for board in boards]
    if as_json:
        print_json(rows[0] if name else {"boards": rows})
        return
    if name:
        echo_lines(_details(rows[0]))
        return
    columns = (
        Column("board"), Column("core"), number("flash"), number("RAM"),
        Column("runs on", optional=1), Column("what it is", least=20),
    )  # fmt: skip
    table = [
        (
            row["name"] + (f" ({', '.join(row['aliases'])})" if row["aliases"] else ""),
            row["core"],
            _kib(row["flash_bytes"]),
            _kib(row["ram_bytes"]),
            " ".join(row["engines"]),
            row["title"],
        )
        for row in rows
    ]
    echo_lines(format_table(columns, table))


def _details(row: dict[str, Any]) -> list[str]:
    lines = [f"{row['name']}: {row['title']}", ""]
    facts = [
        ("aliases", ", ".join(row["aliases"])),
        ("core", row["core"]),
        ("clock", f"{row['clock_hz'] / 1e6:g} MHz" if row["clock_hz"] else ""),
        ("runs on", ", ".join(row["engines"])),
        *(
            (region["name"], f"0x{region['origin']:08x}, {region['length']:,} bytes")
            for region in row["memory"]
        ),
    ]
    lines += format_table((Column(""), Column("")), [fact for fact in facts if fact[1]])
    width = min(terminal_width(), 100)
    for source in row["sources"]:
        lines += textwrap.wrap(f"source: {source}", width, subsequent_indent="  ")
    return lines


def _kib(count: int) -> str:
    """A size in the words that `--max-ram` takes: `256K`, `4M`."""
    if not count:
        return ""
    return f"{count >> 20}M" if count % (1 << 20) == 0 else f"{count >> 10}K"


def _engines(board: Any) -> list[str]:
    """Names of the engines that run the board's programs; a real board's is `serial`."""
    if board.is_host:
        return ["host"]
    engines = ["core"] if board.core.is_simulated else []
    engines += ["qemu"] if board.qemu is not None else []
    return engines + (["serial"] if board.link is not None and board.runners else [])


def _row(board: Any) -> dict[str, Any]:
    return {
        "name": board.name,
        "aliases": list(board.aliases),
        "title": board.title,
        "core": board.core.name,
        "flash_bytes": 0 if board.is_host else board.flash_bytes,
        "ram_bytes": 0 if board.is_host else board.ram_bytes,
        "qemu": board.qemu is not None,
        "engines": _engines(board),
        "clock_hz": board.clock_hz,
        "memory": [
            {"name": key, "origin": region.origin, "length": region.length}
            for key, region in board.memory.items()
        ],
        "sources": list(board.sources),
    }
