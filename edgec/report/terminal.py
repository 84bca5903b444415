"""Output on a terminal: names come from model files, and must not control it."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

import click

#: Categories of characters that control the terminal instead of being shown: control, format (such
#: as text that runs right to left), surrogates, line and paragraph separators.
_ACTING = ("Cc", "Cf", "Cs", "Zl", "Zp")


def visible(text: str, kept: str = "") -> str:
    """The text with every character that would act on a terminal written as its code.

    kept: characters that may act.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c in kept or unicodedata.category(c) not in _ACTING else _code(c) for c in text
    )


def echo(text: str = "", *, err: bool = False) -> None:
    """Print lines to standard output, or to standard error."""
    click.echo(visible(text, "\n\t"), err=err)


def echo_lines(lines: Iterable[str]) -> None:
    """Print lines, with line breaks inside them escaped; nothing for an empty list."""
    shown = [visible(line, "\t") for line in lines]
    if shown:
        echo("\n".join(shown))


def _code(c: str) -> str:
    return f"\\x{ord(c):02x}" if ord(c) < 256 else f"\\u{ord(c):04x}"
