"""`edgec boards`: the boards that edgec knows."""

from __future__ import annotations

import textwrap
from typing import Any

import click

from edgec.cli.arguments import json_option, print_json
from edgec.report.table import Column, format_table, number, terminal_width


@click.command()
@click.argument("name", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the boards, or show one by name, alias or TOML file."""
    from edgec.target.board import all_boards, load_board

    boards = [load_board(name)] if name else list(all_boards())
    rows = [_row(board) for board in boards]
    if as_json:
        print_json(rows[0] if name else {"boards": rows})
        return
    if name:
        click.echo("\n".join(_details(rows[0])))
        return
    columns = (
        Column("board"), Column("core"), number("flash"), number("RAM"), Column("runs on"),
        Column("what it is", least=20),
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
    click.echo("\n".join(format_table(columns, table)))


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
        lines.append(textwrap.fill(f"source: {source}", width, subsequent_indent="  "))
    return lines


def _kib(count: int) -> str:
    """A size in the words that `--max-ram` takes: `256K`, `4M`."""
    if not count:
        return ""
    return f"{count >> 20}M" if count % (1 << 20) == 0 else f"{count >> 10}K"


def _engines(board: Any) -> list[str]:
    """Where a program for the board can run; a real board's is `serial`."""
    if board.is_host:
        return ["host"]
    engines = [] if board.core.has("mve") else ["core"]
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
