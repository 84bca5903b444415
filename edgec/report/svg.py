"""Small functions that draw SVG: elements, text that fits, axes, bars and columns.

Colours are classes of the page's style sheet, so that one drawing serves light and dark. All text
is escaped here; drawings hold nothing from outside.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from edgec.report.figures import short_name, tight_name

#: Width of an average character of the page's font, as a part of the font's size.
CHAR_WIDTH = 0.6
#: Degrees by which labels below an axis are turned.
SLANT = 46
#: A drawing wider than its column shrinks to this part, then it scrolls: text stays readable.
SHRINK = 0.86
#: And to this part of it they grow.
GROW = 1.25


def number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def element(tag: str, *children: str, **attributes: str | float) -> Markup:
    """An SVG element. `class_` and `stroke_width` become `class` and `stroke-width`; children that
    are not Markup are escaped.
    """
    words = [tag]
    for name, value in attributes.items():
        text = value if isinstance(value, str) else number(value)
        words.append(f'{name.rstrip("_").replace("_", "-")}="{escape(text)}"')
    inner = Markup("").join(children)
    return Markup(f"<{' '.join(words)}>{inner}</{tag}>")


def picture(width: float, height: float, label: str, *children: str, min_width: int = 0) -> Markup:
    """A drawing that scales to its column but never below `min_width` pixels.

    Nor far above its own width: one of few columns would fill the page with huge letters.
    """
    widest = width * GROW if min_width else width
    style = f"max-width:{number(widest)}px"
    if min_width:
        style = f"min-width:{min_width}px;{style}"
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        role="img",
        aria_label=label,
        style=style,
    )


def fit(text: str, width: float, size: float = 11) -> str:
    """The text, or its two ends around an ellipsis, or nothing where not even four fit."""
    room = int(width / (size * CHAR_WIDTH))
    if len(text) <= room:
        return text
    if room < 4:
        return ""
    head = (room - 1) // 2
    return f"{text[:head]}\N{HORIZONTAL ELLIPSIS}{text[len(text) - (room - 1 - head) :]}"


def fit_name(name: str, width: float, size: float = 11) -> str:
    """A source name that fits: its short form, else its most specific part, cut to size."""
    short = short_name(name)
    return short if fit(short, width, size) == short else fit(tight_name(name), width, size)


def ticks(top: float, wanted: int = 5, *, base: int = 10) -> list[float]:
    """Round numbers from 0 up to `top`; with base 2, bytes in powers of two."""
    if top <= 0:
        return [0.0]
    step = 1.0
    steps = (2.0,) if base == 2 else (2.0, 2.5, 2.0)
    turn = 0
    while top / step > wanted:
        step *= steps[turn % len(steps)]
        turn += 1
    return [step * i for i in range(int(top / step) + 1)]


@dataclass(frozen=True)
class Part:
    """A piece of a stacked bar: label, size, and the style sheet's class."""

    label: str
    value: int
    style: str


def stacked_bar(parts: Sequence[Part], label: str) -> Markup:
    """One bar of the full width; a piece too small to see is still a hair wide."""
    total = sum(part.value for part in parts)
    pieces = []
    left = 0.0
    for part in parts:
        share = 100 * part.value / total if total else 0
        if share:
            pieces.append(
                element(
                    "rect",
                    element("title", f"{part.label}: {part.value:,} ({share:.1f} %)"),
                    x=f"{number(left)}%",
                    y=0.0,
                    width=f"{number(max(share, 0.15))}%",
                    height=30.0,
                    class_=f"fill {part.style}",
                )
            )
        left += share
    return element("svg", *pieces, class_="stack", role="img", aria_label=label)


def small_bar(value: float | None, largest: float, style: str) -> Markup:
    """A bar for a table's cell, as a part of the column's largest."""
    share = 100 * value / largest if value and largest else 0
    rect = element(
        "rect", x=0.0, y=0.0, width=f"{number(share)}%", height=8.0, rx=2.0, class_=f"fill {style}"
    )
    return element("svg", rect if share else "", class_="bar", aria_hidden="true")


def strip(kinds: Sequence[str], label: str) -> Markup:
    """One cell for each place of a row, neighbours of one style drawn as one."""
    cells = []
    start = 0
    for position, kind in enumerate(kinds):
        if position + 1 < len(kinds) and kinds[position + 1] == kind:
            continue
        if kind:
            left, width = 100 * start / len(kinds), 100 * (position + 1 - start) / len(kinds)
            cells.append(
                element("rect", x=f"{number(left)}%", y=0.0, width=f"{number(width)}%",
                        height=14.0, class_=f"fill {kind}")
            )  # fmt: skip
        start = position + 1
    return element("svg", *cells, class_="strip", role="img", aria_label=label)


@dataclass(frozen=True)
class Column:
    """A place of the column chart: source name, tooltip, and one value for each series."""

    name: str
    title: str
    values: tuple[float | None, ...]


def column_chart(columns: Sequence[Column], styles: Sequence[str], unit: str, label: str) -> Markup:
    """Groups of upright bars, one style for each series, labels slanted below."""
    if not columns:
        return Markup("")
    left, top, height, foot = 46.0, 12.0, 190.0, 106.0
    pitch = max(30.0, min(110.0, 900.0 / len(columns)))
    width = left + pitch * len(columns) + 24
    most = max((v for c in columns for v in c.values if v is not None), default=0) or 1.0
    scale = height / most
    base = top + height
    marks: list[str] = []
    for tick in ticks(most):
        y = base - tick * scale
        marks.append(element("line", x1=left, x2=width - 20, y1=y, y2=y, class_="grid"))
        marks.append(
            element("text", f"{number(tick)}{unit}", x=left - 6, y=y + 4, class_="tick end")
        )
    bar = min(26.0, (pitch - 8) / max(1, len(styles)))
    for position, column in enumerate(columns):
        middle = left + pitch * (position + 0.5)
        start = middle - bar * len(styles) / 2
        for series, (value, style) in enumerate(zip(column.values, styles, strict=True)):
            tall = (value or 0) * scale
            marks.append(
                element(
                    "rect",
                    element("title", column.title),
                    x=start + series * bar,
                    y=base - tall,
                    width=bar - 1,
                    height=tall,
                    class_=f"fill {style}",
                )
            )
        marks.append(slanted(position, column.name, middle, base + 14, column.title))
    return picture(width, base + foot, label, *marks, min_width=round(width * SHRINK))


def slanted(position: int, name: str, x: float, y: float, title: str) -> Markup:
    """A numbered name below an axis, turned so that neighbours do not touch.

    It ends at (x, y) and is cut where it would leave the picture on the left.
    """
    room = min(118.0, (x - 4) / math.cos(math.radians(SLANT)))
    return element(
        "text",
        element("title", title),
        f"{position} {fit_name(name, room - 18)}",
        x=x + 3,
        y=y,
        transform=f"rotate({-SLANT} {number(x + 3)} {number(y)})",
        class_="tick end",
    )
