"""Numbers of lines as curves in a terminal."""

from __future__ import annotations

import pytest

from edgec.report.plot_lines import MOST_CURVES, Plot, numbers_in


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("rms=0.5 peak: -2e1", {"rms": 0.5, "peak": -20.0}),
        ("1, 2.5,-3", {"1": 1.0, "2": 2.5, "3": -3.0}),
        ("7", {"1": 7.0}),
        ("version=1.2.3 at 0x10", {}),
        ("pc=0x1234", {}),
        ("booted in 12 ms", {}),
        ("x=1e999", {}),
        ("", {}),
    ],
)
def test_what_a_line_says(line: str, found: dict[str, float]) -> None:
    assert numbers_in(line) == found


def test_curves_go_from_the_least_to_the_most_and_keep_the_newest() -> None:
    plot = Plot(60)  # 12 columns for curves
    for value in range(20):
        assert plot.take(f"ramp={value} flat=3")
    assert not plot.take("hello")
    ramp, flat = plot.lines()
    assert ramp.split() == ["ramp", "▁▂▂▃▄▄▅▅▆▇▇█", "8", "19", "19"]
    assert flat.split() == ["flat", "▁" * 12, "3", "3", "3"]
    assert all(len(line) <= 60 for line in plot.lines())


def test_names_are_bounded() -> None:
    plot = Plot(80)
    for number in range(100):
        plot.take(f"name{number}=1")
    assert len(plot.lines()) == MOST_CURVES
