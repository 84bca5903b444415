"""`edgec config`: the settings in the `edgec.toml` beside a model, checked."""

from __future__ import annotations

from pathlib import Path

import click

from edgec.cli.arguments import MODEL, json_option, print_json, require_model
from edgec.report.terminal import echo, echo_lines


@click.command()
@click.argument("path", metavar="MODEL|DIR", type=MODEL, default=Path("."))
@json_option
def command(path: Path, as_json: bool) -> None:
    """Show the options that edgec.toml in DIR, or beside MODEL, sets for each command."""
    from edgec.cli.config_file import FILE_NAME, option_words, read_config
    from edgec.report.table import Column, format_table

    require_model(path)
    file = (path if path.is_dir() else path.parent) / FILE_NAME
    found = read_config(file) if file.is_file() else {}
    if as_json:
        print_json({"file": str(file) if found else None, "options": found})
        return
    if not found:
        echo(f"there is no {file}")
        return
    words = option_words()
    rows = [
        (name or "every command", words[key], str(value))
        for name, table in found.items()
        for key, value in table.items()
    ]
    echo_lines(format_table((Column("command"), Column("option"), Column("value")), rows))
