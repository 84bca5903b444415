"""Observers: from a value's statistics to the range of real numbers that its integers cover."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgec.graph.types import Array
from edgec.quantizer.histogram import Histogram

Range = tuple[float, float]

#: The share of numbers that `percentile` leaves out at each end.
TAIL = 1e-4
#: Shares of the whole range that `mse` and `entropy` try.
_SHARES = np.linspace(1.0, 0.2, 81)


def observe_minmax(seen: Histogram, levels: int) -> Range:
    return min(seen.lowest, 0.0), max(seen.highest, 0.0)


def observe_percentile(seen: Histogram, levels: int) -> Range:
    """Return the range without the share TAIL of the numbers at each end."""
    low, high = observe_minmax(seen, levels)
    below = np.cumsum(seen.counts)
    edges = (seen.first + np.arange(len(seen.counts) + 1)) * seen.width
    cut = TAIL * seen.total
    # Of the lowest bin that is not cut away the lower edge, of the highest the upper.
    lower = float(edges[np.searchsorted(below, cut, side="right")])
    upper = float(edges[np.searchsorted(below, seen.total - cut, side="left") + 1])
    return min(max(low, lower), 0.0), max(min(high, upper), 0.0)


def observe_mse(seen: Histogram, levels: int) -> Range:
    """The least sum of squared errors over the histogram."""
    return _best(seen, levels, _squared_error)


def observe_entropy(seen: Histogram, levels: int) -> Range:
    """The least divergence of the quantized distribution from the seen one."""
    return _best(seen, levels, _divergence)


def _best(
    seen: Histogram, levels: int, cost: Callable[[Histogram, float, float, int], float]
) -> Range:
    low, high = observe_minmax(seen, levels)
    candidates = [(low * a, high * a) for a in _SHARES]
    return min(candidates, key=lambda bounds: cost(seen, bounds[0], bounds[1], levels))


def _squared_error(seen: Histogram, low: float, high: float, levels: int) -> float:
    x = seen.centres
    if high <= low:
        return float(np.sum(seen.counts * x * x))
    step = (high - low) / (levels - 1)
    stored = np.clip(np.rint(x / step), round(low / step), round(high / step))
    # Numbers spread over a bin cannot be distinguished, but their error is at least the step's.
    return float(np.sum(seen.counts * (x - stored * step) ** 2))


def _divergence(seen: Histogram, low: float, high: float, levels: int) -> float:
    x, counts = seen.centres, seen.counts.astype(np.float64)
    inside = (x >= low) & (x <= high)
    if high <= low or not inside.any():
        return float("inf")
    first, last = np.flatnonzero(inside)[[0, -1]]
    p = counts[first : last + 1].copy()
    p[0] += counts[:first].sum()
    p[-1] += counts[last + 1 :].sum()
    # Each level spreads its count evenly over the bins of it that are not empty.
    level = np.rint(x[first : last + 1] / ((high - low) / (levels - 1))).astype(np.int64)
    level -= level[0]
    used = counts[first : last + 1] > 0
    sums = np.bincount(level, weights=counts[first : last + 1])
    bins = np.bincount(level, weights=used.astype(np.float64))
    share = np.divide(sums, bins, out=np.zeros_like(sums), where=bins > 0)
    q = np.where(used, share[level], 0.0)
    return _kullback_leibler(p, q)


def _kullback_leibler(p: Array, q: Array) -> float:
    """Divergence of q from p, both counts; bins that q lacks cost as if it had a trace there."""
    total = p.sum()
    if not total or not q.sum():
        return float("inf")
    p, q = p / total, np.maximum(q / q.sum(), 1e-12)
    used = p > 0
    return float(np.sum(p[used] * np.log(p[used] / q[used])))


OBSERVERS: dict[str, Callable[[Histogram, int], Range]] = {
    "minmax": observe_minmax,
    "percentile": observe_percentile,
    "mse": observe_mse,
    "entropy": observe_entropy,
}
"""Every observer by its name: from a histogram and the number of integer levels to a range."""
