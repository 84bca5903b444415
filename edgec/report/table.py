"""Tables as data: columns and rows of text, shown on a terminal, as Markdown or as HTML.

On a terminal numbers are never cut. A table is made to fit its width: optional columns go, then
names are shortened. Where the output goes to a file or a pipe, nothing is left out. The template
`templates/table.html.j2` writes HTML.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from edgec.report.terminal import visible

GAP = "  "
#: A bar inside a cell of Markdown.
BAR = "\\|"
#: Width of a table that is not on a terminal: no column is shortened.
UNLIMITED = 1 << 16


@dataclass(frozen=True)
class Column:
    """A column of a table.

    align: text to the left, numbers to the right. least: a longer text may be shortened down to
    this many characters (0: never), losing its `cut` end. optional: the column may be left out;
    of several, the one with the highest number goes first (0: never).
    """

    heading: str
    align: Literal["left", "right"] = "left"
    least: int = 0
    cut: Literal["start", "end"] = "end"
    optional: int = 0

    @property
    def css(self) -> str:
        """The column's classes on a page: numbers, and columns that a narrow page omits."""
        return " ".join(["n"] * (self.align == "right") + ["wide"] * (self.optional > 0))


def number(heading: str, optional: int = 0) -> Column:
    return Column(heading, "right", optional=optional)


@dataclass(frozen=True)
class Table:
    """Columns and, for each row, a text for each of them."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    def text(self, width: int | None = None) -> list[str]:
        return format_table(self.columns, self.rows, width)

    def markdown(self) -> list[str]:
        """Lines of a page of the documentation."""
        rules = ("--:" if column.align == "right" else "---" for column in self.columns)
        return [
            f"| {' | '.join(column.heading for column in self.columns)} |",
            f"|{'|'.join(rules)}|",
            *(f"| {' | '.join(cell.replace('|', BAR) for cell in row)} |" for row in self.rows),
        ]


def terminal_width() -> int:
    """Columns of the terminal, or $COLUMNS, or UNLIMITED for a file or a pipe."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return UNLIMITED
    return shutil.get_terminal_size((80, 24)).columns


def prose(text: str, indent: str = "  ") -> list[str]:
    """A sentence or a list as lines of the terminal's width, broken at spaces alone."""
    return textwrap.wrap(
        visible(text), terminal_width(), subsequent_indent=indent, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def format_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """Lines of a table: headings, a rule, the rows; empty headings throughout print no head.

    width: the desired one, by default the terminal's; the table may be wider if it cannot fit.
    """
    limit = terminal_width() if width is None else width
    kept = list(range(len(columns)))
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = _natural(columns, rows)

    def least() -> int:
        return sum(min(widths[i], columns[i].least or widths[i]) for i in kept) + _gaps(kept)

    while least() > limit:
        going = max(kept, key=lambda i: columns[i].optional)
        if not columns[going].optional:
            break
        kept.remove(going)
    excess = sum(widths[i] for i in kept) + _gaps(kept) - limit
    while excess > 0:
        # Shrink the widest column that may shrink, one character at a time.
        able = [i for i in kept if columns[i].least and widths[i] > columns[i].least]
        if not able:
            break
        widths[max(able, key=lambda i: widths[i])] -= 1
        excess -= 1
    lines = [_line(columns, row, kept, widths) for row in rows]
    if any(columns[i].heading for i in kept):
        heads = _line(columns, [column.heading for column in columns], kept, widths)
        rule = GAP.join(("-" if columns[i].heading else " ") * widths[i] for i in kept)
        lines[:0] = [heads, rule.rstrip()]
    return lines


def _natural(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> list[int]:
    cells = [[column.heading for column in columns], *rows]
    return [max(len(row[i]) for row in cells) for i in range(len(columns))]


def _gaps(kept: Sequence[int]) -> int:
    return len(GAP) * (len(kept) - 1)


def _line(
    columns: Sequence[Column], row: Sequence[str], kept: Sequence[int], widths: Sequence[int]
) -> str:
    cells = []
    for i in kept:
        text = shorten(row[i], widths[i], columns[i].cut)
        cells.append(f"{text:<{widths[i]}}" if columns[i].align == "left" else
                     f"{text:>{widths[i]}}")  # fmt: skip
    return GAP.join(cells).rstrip()


def shorten(text: str, width: int, cut: Literal["start", "end"] = "end") -> str:
    """The text in at most `width` characters, with an ellipsis where something is left out."""
    if len(text) <= width:
        return text
    return f"…{text[len(text) - width + 1 :]}" if cut == "start" else f"{text[: width - 1]}…"
