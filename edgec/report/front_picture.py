"""The Pareto front of arena bytes against instructions, as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from edgec.report.svg import element, number, picture

WIDTH, HEIGHT = 400.0, 200.0  # readable on a phone as it is
LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 16.0, 32.0


@dataclass(frozen=True)
class FrontDot:
    """A point: bytes the hungriest step needs, estimated instructions, segments that stream."""

    arena_bytes: int
    instructions: int
    streamed: int
    taken: bool


def front_chart(points: Sequence[FrontDot]) -> Markup:
    """Points with steps between them: right of a point and above it, nothing better is known.

    At least two points, the fastest first. Instructions are shown as a part of the fewest.
    """
    fastest = points[0].instructions
    most_bytes = max(point.arena_bytes for point in points)
    slowest = max(point.instructions for point in points) / fastest

    def x(point: FrontDot) -> float:
        share = (point.instructions / fastest - 1) / max(slowest - 1, 1e-9)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(size: float) -> float:
        return HEIGHT - BOTTOM - size / most_bytes * (HEIGHT - TOP - BOTTOM)

    children = [
        element("line", x1=LEFT, y1=y(0), x2=WIDTH - RIGHT, y2=y(0), class_="axis"),
        element("line", x1=LEFT, y1=TOP, x2=LEFT, y2=y(0), class_="axis"),
    ]
    path = [f"M{number(x(points[0]))} {number(y(points[0].arena_bytes))}"]
    for point in points[1:]:
        path.append(f"H{number(x(point))}V{number(y(point.arena_bytes))}")
    children.append(element("path", d="".join(path), class_="front"))
    for point in points:
        more = point.instructions / fastest - 1
        title = (
            f"{point.arena_bytes:,} bytes, {more:+.1%} instructions, "
            f"{point.streamed} streamed" + (", taken" if point.taken else "")
        )
        children.append(
            element("circle", element("title", title), cx=x(point), cy=y(point.arena_bytes),
                    r=6.0 if point.taken else 4.0, class_="taken" if point.taken else "point")
        )  # fmt: skip
    for point in (points[0], points[-1]):
        label = f"{point.arena_bytes:,}"
        children.append(element("text", label, x=LEFT - 6, y=y(point.arena_bytes) + 4,
                                class_="end"))  # fmt: skip
    children.append(element("text", "fewest instructions", x=LEFT, y=HEIGHT - 12))
    children.append(
        element("text", f"{slowest - 1:+.0%}", x=WIDTH - RIGHT, y=HEIGHT - 12, class_="end")
    )
    return picture(WIDTH, HEIGHT, "Arena against instructions", *children)
