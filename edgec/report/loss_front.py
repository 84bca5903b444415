"""A drawing of loss over bytes, with the models that no other model dominates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from edgec.report.svg import element, number, picture

WIDTH, HEIGHT = 400.0, 200.0  # readable on a phone without zooming
LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 16.0, 32.0


@dataclass(frozen=True)
class Dot:
    """A point. lost: the loss in any unit, larger is worse; title: its label."""

    size_bytes: int
    lost: float
    title: str
    taken: bool


def loss_front(dots: Sequence[Dot], least: str, most: str, label: str) -> Markup:
    """The Pareto front: no point lies below and left of a dot.

    least, most: labels at the ends of the axis of losses. label: of the drawing.
    """
    most_bytes: int = max(dot.size_bytes for dot in dots)
    first, last = min(dot.lost for dot in dots), max(dot.lost for dot in dots)

    def x(dot: Dot) -> float:
        return LEFT + (dot.lost - first) / ((last - first) or 1.0) * (WIDTH - LEFT - RIGHT)

    def y(size: float) -> float:
        return HEIGHT - BOTTOM - size / most_bytes * (HEIGHT - TOP - BOTTOM)

    ordered = sorted(dots, key=lambda dot: (dot.lost, dot.size_bytes))
    path = [f"M{number(x(ordered[0]))} {number(y(ordered[0].size_bytes))}"]
    path += [f"H{number(x(dot))}V{number(y(dot.size_bytes))}" for dot in ordered[1:]]
    marks = [
        element("line", x1=LEFT, y1=y(0), x2=WIDTH - RIGHT, y2=y(0), class_="axis"),
        element("line", x1=LEFT, y1=TOP, x2=LEFT, y2=y(0), class_="axis"),
        element("path", d="".join(path), class_="front"),
    ]
    for dot in ordered:
        title = dot.title + (", taken" if dot.taken else "")
        marks.append(
            element("circle", element("title", title), cx=x(dot), cy=y(dot.size_bytes),
                    r=6.0 if dot.taken else 4.0, class_="taken" if dot.taken else "point")
        )  # fmt: skip
    for size in (ordered[0].size_bytes, ordered[-1].size_bytes):
        marks.append(element("text", f"{size:,}", x=LEFT - 6, y=y(size) + 4, class_="end"))
    marks.append(element("text", least, x=LEFT, y=HEIGHT - 12))
    marks.append(element("text", most, x=WIDTH - RIGHT, y=HEIGHT - 12, class_="end"))
    return picture(WIDTH, HEIGHT, label, *marks)
