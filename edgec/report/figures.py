"""How reports write names and numbers: short, aligned, the same in text and HTML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from edgec.options import Figures
from edgec.report.terminal import visible

#: A compiler's clone of a function: `run.part.0.isra.0` is still `run`.
_CLONES = (".constprop.", ".part.", ".isra.", ".cold")


def picked(thing: object, *names: str) -> dict[str, Any]:
    """Some fields of an object, by their names."""
    return {name: getattr(thing, name) for name in names}


def short_name(name: str) -> str:
    """A source name for people: of names joined by `;` the first, of a path the last two parts."""
    first = name.split(";")[0].strip("/")
    return visible("/".join(first.split("/")[-2:]) or name)


def tight_name(name: str) -> str:
    """The most specific part of a short name: the one with a number, else the first."""
    parts = short_name(name).split("/")
    return next((part for part in parts if any(c.isdigit() for c in part)), parts[0])


def short_function(name: str, model: str) -> str:
    """A C symbol without the model's prefix and the compiler's clone suffixes."""
    for clone in _CLONES:
        name = name.split(clone)[0]
    return name.removeprefix(f"{model}_")


def count(value: int | float | None) -> str:
    """`12,345`, or "" for no figure."""
    return "" if value is None else f"{round(value):,}"


def plural(value: int, noun: str) -> str:
    """`1 step`, `2 steps`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {noun}s"


def signed(value: int | float | None) -> str:
    """`+1,234`, `−1,234`, `0`, or nothing."""
    if value is None:
        return ""
    return f"{round(value):+,}".replace("-", "\N{MINUS SIGN}") if round(value) else "0"


def percent(part: float, whole: float, digits: int = 1) -> str:
    """`12.3 %` of a whole; nothing of no whole."""
    return f"{100 * part / whole:.{digits}f} %" if whole else ""


def signed_percent(before: float, after: float) -> str:
    """Return by how much a figure changed: `−12.5 %`; "" if it was 0 or the change rounds to 0."""
    if not before:
        return ""
    change = round(100 * (after - before) / before, 1)
    return f"{change:+.1f} %".replace("-", "\N{MINUS SIGN}") if change else ""


def ratio(part: float | None, whole: float | None, digits: int = 2) -> str:
    """`3.89`, or nothing where either is absent or the whole is 0."""
    return f"{part / whole:.{digits}f}" if part is not None and whole else ""


def ranges(numbers: Iterable[int]) -> str:
    """`3, 7-9, 12`: sorted numbers with runs put together."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}\N{EN DASH}{b}" for a, b in runs)


def short_title(title: str) -> str:
    """The layer's own name: the last two parts of the first of joined names."""
    name = title.split('"')[1] if '"' in title else title
    return "/".join(name.split(";")[0].split("/")[-2:])


def short_shapes(shapes: str) -> str:
    """`[1,8,8,16] -> [1,4,4,16]` without batches of one: `8x8x16 -> 4x4x16`."""
    return re.sub(r"\[(?:1,\s*)?([\d,\s]*)\]", lambda m: re.sub(r",\s*", "x", m[1]) or "1", shapes)


def decimal(value: float | None, digits: int) -> str:
    """A number with thousands apart; empty for None."""
    return "" if value is None else f"{value:,.{digits}f}"


def build_report(figures: Figures | None) -> dict[str, Any] | None:
    """The object for JSON of the build that a choice was held to, if it was."""
    if figures is None:
        return None
    return picked(figures, "flash_bytes", "ram_bytes", "instructions")


def build_line(build: Mapping[str, int | None]) -> str:
    words = [f"flash {build['flash_bytes']:,}", f"RAM {build['ram_bytes']:,}"]
    if build["instructions"] is not None:
        words.append(f"instructions {build['instructions']:,}")
    return f"built: {', '.join(words)}"
