"""The front is drawn from its fastest point to its smallest, and says which was taken."""

from __future__ import annotations

import re

from edgec.report.front_picture import FrontDot, front_chart

POINTS = [
    FrontDot(4000, 1000, 0, False),
    FrontDot(2000, 1100, 1, True),
    FrontDot(1000, 1500, 2, False),
]


def test_points_lie_where_their_figures_are() -> None:
    text = str(front_chart(POINTS))
    circles = re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)" r="(\d)" class="(\w+)"', text)
    places = [(float(x), float(y)) for x, y, _, _ in circles]
    assert [kind for *_, kind in circles] == ["point", "taken", "point"]
    (x0, y0), (x1, y1), (x2, y2) = places
    assert x0 < x1 < x2 and y0 < y1 < y2  # more instructions, fewer bytes: right and down
    assert abs((x1 - x0) / (x2 - x0) - 0.2) < 0.01  # 10 % of 50 %
    assert abs((y2 - y1) / (y1 - y0) - 0.5) < 0.01
    assert "2,000 bytes, +10.0% instructions, 1 streamed, taken" in text
