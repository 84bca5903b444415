"""The Pareto front of arena bytes against instructions, as a drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from edgec.report.loss_front import Dot, loss_front


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
    fewest = points[0].instructions
    dots = [
        Dot(
            point.arena_bytes,
            point.instructions / fewest - 1,
            f"{point.arena_bytes:,} bytes, {point.instructions / fewest - 1:+.1%} instructions,"
            f" {point.streamed} streamed",
            point.taken,
        )
        for point in points
    ]
    most = max(dot.lost for dot in dots)
    return loss_front(dots, "fewest instructions", f"{most:+.0%}", "Arena against instructions")
