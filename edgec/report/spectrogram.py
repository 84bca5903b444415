"""A spectrogram of a sound: loudness of frequencies over time, for the terminal and for a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

#: Quieter than the loudest part by this many dB is drawn as nothing.
RANGE_DB = 60.0
_SHADES = " \u2591\u2592\u2593\u2588"
_ROWS, _MARGIN = 12, 10


def loudness(samples: Any, rate: int, columns: int, rows: int) -> Any:
    """float64 [rows, columns] from 0 to 1, the highest frequencies first; the loudest part is 1.

    samples: float64 from -1 to 1. Frames overlap by half where there are enough samples.
    """
    length = 1 << max(5, math.ceil(math.log2(rate * 0.032)))
    padded = np.zeros(max(len(samples), length))
    padded[: len(samples)] = samples
    starts = np.linspace(0, len(padded) - length, max(columns, 2 * len(padded) // length))
    frames = padded[starts.astype(np.int64)[:, None] + np.arange(length)] * np.hanning(length)
    power = np.abs(np.fft.rfft(frames)[:, 1:]) ** 2
    power = _reduced(_reduced(power, columns).T, rows).T
    level = 10 * np.log10(np.maximum(power, 1e-20))
    return np.clip((level - max(level.max(), -120.0)) / RANGE_DB + 1, 0, 1).T[::-1]


def _reduced(table: Any, count: int) -> Any:
    """The largest of neighbouring rows, `count` of them."""
    edges = np.linspace(0, len(table), count + 1)
    firsts = np.minimum(edges[:-1].astype(np.int64), len(table) - 1)
    return np.stack([
        table[first : max(first + 1, math.ceil(last))].max(0)
        for first, last in zip(firsts, edges[1:], strict=True)
    ])  # fmt: skip


def spectrogram_lines(samples: Any, rate: int, width: int) -> list[str]:
    """The picture in text, with Hz at the left and seconds below."""
    columns = max(16, min(width, 80) - _MARGIN)
    table = loudness(samples, rate, columns, _ROWS)
    lines = []
    for row, levels in enumerate(table):
        hertz = rate / 2 * (1 - row / _ROWS)
        label = f"{hertz:,.0f} Hz" if row % 4 == 0 else ""
        cells = "".join(_SHADES[round(level * (len(_SHADES) - 1))] for level in levels)
        lines.append(f"{label:>{_MARGIN - 1}} {cells}".rstrip())
    seconds = f"{len(samples) / rate:.2f} s"
    return [*lines, f"{'':>{_MARGIN}}0{seconds:>{columns - 1}}"]
