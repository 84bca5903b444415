"""Numbers that a board says, as curves in the terminal: a row for each, the newest at the right."""

from __future__ import annotations

import math
import re
from collections import deque

from edgec.report.table import shorten

_NUMBER = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_NAMED = re.compile(rf"([A-Za-z_][A-Za-z0-9_./]*)\s*[=:]\s*({_NUMBER})(?![A-Za-z0-9_.])")
_ROW = re.compile(rf"\s*{_NUMBER}(?:[\s,;]+{_NUMBER})*\s*")
_BARS = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
#: Curves that are drawn; a board that says more names than this is not plotted further.
MOST_CURVES = 16
_NAME_WIDTH, _FIGURES_WIDTH = 12, 36


def numbers_in(line: str) -> dict[str, float]:
    """The numbers in a line: `rms=0.5 peak: 2`, or a row `0.5, 2` whose columns are named by
    numbers.
    """
    if _ROW.fullmatch(line):
        found = re.findall(_NUMBER, line)
        pairs = [(str(column), text) for column, text in enumerate(found, 1)]
    else:
        pairs = _NAMED.findall(line)
    values = {name: float(text) for name, text in pairs}
    return {name: value for name, value in values.items() if math.isfinite(value)}


class Plot:
    """The newest values of each name. width: columns of the terminal."""

    def __init__(self, width: int) -> None:
        self._length = max(8, width - _NAME_WIDTH - _FIGURES_WIDTH)
        self._curves: dict[str, deque[float]] = {}

    def take(self, line: str) -> bool:
        """Keep the numbers of a line; False if it has none."""
        found = numbers_in(line)
        for name, value in found.items():
            if name in self._curves or len(self._curves) < MOST_CURVES:
                self._curves.setdefault(name, deque(maxlen=self._length)).append(value)
        return bool(found)

    def lines(self) -> list[str]:
        """A row for each name: the curve between its least and most, then least, most and last."""
        return [
            f"{shorten(name, _NAME_WIDTH - 1):<{_NAME_WIDTH}}{_curve(values):<{self._length}}"
            f" {min(values):>11.4g} {max(values):>11.4g} {values[-1]:>11.4g}"
            for name, values in self._curves.items()
        ]


def _curve(values: deque[float]) -> str:
    low, high = min(values), max(values)
    step = (high - low) / (len(_BARS) - 1) or 1.0
    return "".join(_BARS[round((value - low) / step)] for value in values)
