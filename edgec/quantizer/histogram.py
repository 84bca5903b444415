"""A histogram that grows with its numbers, for ranges that are not known in advance."""

from __future__ import annotations

import math

import numpy as np

from edgec.errors import EdgecError
from edgec.graph.types import Array

#: Bins at most; a range that needs more doubles their width.
MOST_BINS = 4096


class Histogram:
    """Counts of real numbers in bins of one width, a power of two; 0 is an edge between bins.

    lowest, highest: the exact extremes seen, 0 before anything was. Bin b, from `first` on, counts
    width * b <= x < width * (b + 1). Doubling the width merges pairs of bins, which loses nothing
    but resolution, so one pass over the samples is enough.
    """

    def __init__(self) -> None:
        self.lowest = 0.0
        self.highest = 0.0
        self.width = 0.0
        self.first = 0
        self.counts = np.zeros(0, np.int64)

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    @property
    def centres(self) -> Array:
        return np.asarray((self.first + np.arange(len(self.counts)) + 0.5) * self.width)

    def add(self, values: Array) -> None:
        """Count numbers. Raises EdgecError for a NaN or an infinity."""
        flat = np.asarray(values, np.float64).reshape(-1)
        if not flat.size:
            return
        low, high = float(flat.min()), float(flat.max())
        if not (math.isfinite(low) and math.isfinite(high)):
            raise EdgecError(
                "a sample leads to a NaN or an infinity",
                hint="look for a damaged sample, or for one with another scaling",
            )
        seen = self.total > 0
        self.lowest = min(self.lowest, low) if seen else low
        self.highest = max(self.highest, high) if seen else high
        self._make_room(low, high)
        bins = np.floor(flat / self.width).astype(np.int64) - self.first
        self.counts += np.bincount(bins, minlength=len(self.counts))

    def _make_room(self, low: float, high: float) -> None:
        if not self.width:
            largest = max(abs(low), abs(high)) or 1.0
            self.width = 2.0 ** math.ceil(math.log2(largest)) * 4 / MOST_BINS
        while True:
            first, last = math.floor(low / self.width), math.floor(high / self.width)
            if len(self.counts):
                first = min(first, self.first)
                last = max(last, self.first + len(self.counts) - 1)
            if last - first < MOST_BINS:
                break
            self._double()
        wider = np.zeros(last - first + 1, np.int64)
        at = self.first - first
        wider[at : at + len(self.counts)] = self.counts
        self.counts, self.first = wider, first

    def _double(self) -> None:
        self.width *= 2
        if not len(self.counts):
            return
        padded = np.concatenate([np.zeros(self.first % 2, np.int64), self.counts])
        if len(padded) % 2:
            padded = np.append(padded, 0)
        self.counts = padded.reshape(-1, 2).sum(axis=1)
        self.first //= 2


def joined(first: Histogram, second: Histogram) -> Histogram:
    """One histogram with the counts of both."""
    made = Histogram()
    parts = [part for part in (first, second) if part.total]
    if not parts:
        return made
    made.lowest = min(part.lowest for part in parts)
    made.highest = max(part.highest for part in parts)
    made.width = max(part.width for part in parts)
    made._make_room(made.lowest, made.highest)
    for part in parts:
        ratio = made.width / part.width  # a power of two, beyond any integer's range at times
        bins = np.floor((part.first + np.arange(len(part.counts))) / ratio).astype(np.int64)
        np.add.at(made.counts, bins - made.first, part.counts)
    return made
