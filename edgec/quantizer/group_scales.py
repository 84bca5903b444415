"""Int4 weights with a scale for each group of inputs: the channel's scale, times 1 to 8.

A group's scale is the channel's scale times a power of two, so each weight is an int8 number in
units of the channel's scale: sums over groups are exact int8 products without rescaling. Stored are
int4 weights and a shift for each group (`edgec.loop.primitives.shifts`).
"""

from __future__ import annotations

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import Array
from edgec.loop.primitives.shifts import LEAST_GROUP
from edgec.quantizer.moments import products_of, weights_of

#: Shifts to choose from, and the range of int4.
SHIFTS = (0, 1, 2, 3)
LOW, HIGH = -8, 7
#: The scales to try, relative to the smallest scale that clips no weight.
SHARES = np.linspace(1.0, 0.4, 25)


def group_of(node: Node, most: int) -> int:
    """Number of inputs of a layer that share a scale: the largest divisor up to `most`.

    0 where all of a channel's do: in depthwise layers, and where there are few inputs.
    """
    if not most or products_of(node).is_depthwise:
        return 0
    depth = weights_of(node).shape[-1]
    sizes = [size for size in range(LEAST_GROUP, min(most, depth) + 1) if depth % size == 0]
    return max(sizes, default=0)


def group_scales(
    rows: Array, group: int, least: Array, covariance: Array | None = None
) -> tuple[Array, Array]:
    """Scales [O] of rows [O, K] of real weights, and the factor of each weight's group.

    They minimize e C e^T, with e a group's rounding errors and C the group's part of the inputs'
    covariance [K, K], or ones. least: the smallest scales [O] with which sums fit.
    """
    parts = rows.astype(np.float64).reshape(len(rows), -1, group)
    largest = np.abs(rows).max(axis=1).astype(np.float64)
    whole = np.where(largest > 0, largest, 1.0) / (HIGH * 2 ** SHIFTS[-1])
    blocks = None
    if covariance is not None:
        count = rows.shape[1] // group
        split = covariance.reshape(count, group, count, group)
        blocks = split[np.arange(count), :, np.arange(count)]
    best = np.full(len(rows), np.inf)
    scales = np.empty(len(rows))
    chosen = np.zeros(parts.shape[:2], np.int64)
    for share in SHARES:
        tried = np.maximum(whole * share, least).astype(np.float32).astype(np.float64)
        costs = np.stack([_costs(parts, tried * 2**n, blocks) for n in SHIFTS])
        shifts = costs.argmin(axis=0)
        total = costs.min(axis=0).sum(axis=1)
        better = total < best
        best[better], scales[better], chosen[better] = total[better], tried[better], shifts[better]
    common = chosen.min(axis=1)  # some group has the channel's own scale
    return scales * 2.0**common, np.repeat(2.0 ** (chosen - common[:, None]), group, axis=1)


def _costs(parts: Array, steps: Array, blocks: Array | None) -> Array:
    """The cost [O, groups] of each group in steps [O]."""
    wide = steps[:, None, None]
    error = np.clip(np.rint(parts / wide), LOW, HIGH) * wide - parts
    if blocks is None:
        return np.asarray(np.sum(error * error, axis=2))
    by_group = error.transpose(1, 0, 2)
    return np.asarray(np.sum(np.matmul(by_group, blocks) * by_group, axis=2).T)
