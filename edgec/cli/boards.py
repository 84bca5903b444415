"""`edgec boards`: the boards that edgec knows."""

from __future__ import annotations

from typing import Any

import click

from edgec.cli.arguments import json_option, print_json


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
    for row in rows:
        alias = f" ({', '.join(row['aliases'])})" if row["aliases"] else ""
        click.echo(
            f"{row['name'] + alias:<28} {row['core']:<11} flash {row['flash_bytes'] // 1024:>6} K"
            f"  ram {row['ram_bytes'] // 1024:>6} K  {'qemu ' if row['qemu'] else '     '}"
            f" {row['title']}"
        )
        if name:
            for region in row["memory"]:
                click.echo(f"  {region['name']:<8} 0x{region['origin']:08x}  {region['length']:,}")
            for source in row["sources"]:
                click.echo(f"  source: {source}")


def _row(board: Any) -> dict[str, Any]:
    return {
        "name": board.name,
        "aliases": list(board.aliases),
        "title": board.title,
        "core": board.core.name,
        "flash_bytes": 0 if board.is_host else board.flash_bytes,
        "ram_bytes": 0 if board.is_host else board.ram_bytes,
        "qemu": board.qemu is not None,
        "clock_hz": board.clock_hz,
        "memory": [
            {"name": key, "origin": region.origin, "length": region.length}
            for key, region in board.memory.items()
        ],
        "sources": list(board.sources),
    }
