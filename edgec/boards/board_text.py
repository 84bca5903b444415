"""Checks texts of a board file before they reach C, linker scripts and command lines.

A board file states facts and must not run anything. `docs/boards.md` lists its possible effects on
the computer that builds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgec.errors import BoardError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+ -]*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MACRO = re.compile(r"[A-Z][A-Z0-9_]*")
_ACCESS = re.compile(r"[rwx]{1,3}")
_MACHINE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
#: Allowed options of `[qemu] args`, each with the pattern of its value. None can name a file.
_QEMU_ARGS = {
    "-audiodev": re.compile(r"none,id=[a-z]+"),
    "-bios": re.compile(r"none"),
    "-cpu": re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(,[a-z_.-]+=(true|false|[0-9]+))*"),
    "-m": re.compile(r"[0-9]+[KMG]?"),
    "-smp": re.compile(r"[0-9]+"),
}
_MOST_CONFIG = (1 << 32) - 1


@dataclass(frozen=True)
class _Rule:
    matches: Callable[[str], object]
    words: str


def _is_comment_text(text: str) -> bool:
    return text.isprintable() and not {"*/", "/*"} & _parts(text) and not text.endswith("\\")


_RULES = {
    "name": _Rule(_NAME.fullmatch, "letters, digits, spaces and . _ + -"),
    "region": _Rule(_IDENTIFIER.fullmatch, "letters, digits and underscores, no digit first"),
    "access": _Rule(_ACCESS.fullmatch, "up to three of r, w and x"),
    "machine": _Rule(_MACHINE.fullmatch, "letters, digits and . _ -, without options"),
    "text": _Rule(_is_comment_text,
                  "one line of printable characters, without /* or */, not ending in a backslash"),
    "option": _Rule(
        lambda text: text.isprintable() and not any(w.startswith("-") for w in text.split()),
        "one line of printable characters, and no word of it starts with -",
    ),
}  # fmt: skip


def _parts(text: str) -> set[str]:
    return {*text, *(text[i : i + 2] for i in range(len(text)))}


def checked(kind: str, value: str, where: str) -> str:
    """The value, if it matches the pattern of this kind. Raises BoardError."""
    rule = _RULES[kind]
    if not rule.matches(value):
        raise BoardError(f"{where}: {value!r} is not possible", hint=f"it may have: {rule.words}")
    return value


def checked_config(values: dict[str, int | str], where: str) -> dict[str, int]:
    """The settings of a port, which become macros of C. Raises BoardError."""
    for key, value in values.items():
        if not _MACRO.fullmatch(key):
            raise BoardError(
                f"{where}: {key!r} is not a setting", hint="capitals, digits and underscores"
            )
        if not isinstance(value, int) or not 0 <= value <= _MOST_CONFIG:
            raise BoardError(f"{where}: {key} is {value!r}, not an unsigned 32-bit integer")
    return {key: value for key, value in values.items() if isinstance(value, int)}


def checked_qemu_args(args: Sequence[str], where: str) -> tuple[str, ...]:
    """The arguments for QEMU, in pairs of option and value. Raises BoardError."""
    for option, value in zip(args[::2], [*args[1::2], ""], strict=False):
        if option not in _QEMU_ARGS or not _QEMU_ARGS[option].fullmatch(value):
            raise BoardError(
                f"{where}: args: '{option} {value}' is not possible",
                hint=f"possible are {', '.join(_QEMU_ARGS)}, each with its value (-bios none)",
            )
    return tuple(args)
