"""Names from model files cannot act on the terminal."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from edgec.report.table import Column, format_table
from edgec.report.terminal import echo, visible

HOSTILE = "a\x1b]0;title\x07\x9b31m\u202eb\ud800\u2028c\r\n\x00d"


def test_what_would_act_is_shown_as_its_code() -> None:
    assert visible("Größe → 3 ✓") == "Größe → 3 ✓"
    assert visible(HOSTILE) == (r"a\x1b]0;title\x07\x9b31m\u202eb\ud800\u2028c\x0d\x0a\x00d")
    assert visible("a\n\tb", "\n\t") == "a\n\tb"


def test_lines_keep_their_ends(capsys: pytest.CaptureFixture[str]) -> None:
    echo(f"one\n{HOSTILE}")
    echo("two", err=True)
    said = capsys.readouterr()
    assert said.out == "one\n" + visible(HOSTILE, "\n") + "\n" and said.err == "two\n"


def test_a_cell_of_a_table_is_one_line() -> None:
    lines = format_table((Column("name"), Column("more")), [(HOSTILE, "x")], width=200)
    assert len(lines) == 3 and all(line.isprintable() for line in lines)


def test_everything_is_printed_by_one_function(repo_root: Path) -> None:
    assert callable(click.echo)
    found = [
        path.name
        for path in sorted((repo_root / "edgec").rglob("*.py"))
        if re.search(r"\bclick\.(s?echo|secho|echo_via_pager)\b", path.read_text("utf-8"))
    ]
    assert found == ["terminal.py"]
