"""First-fit planners: TensorFlow Lite Micro's order for comparison, and first incumbents.

Each places buffers one after the other at the lowest offset that the buffers placed before
permit; they differ in the order only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.memory.instance import Instance, IntArray, make_instance
from edgec.memory.problem import Buffer, Overlap

GREEDY_ORDERS: tuple[str, ...] = ("size", "area", "birth", "youth", "death", "crowd")


def greedy_peak_bytes(buffers: Sequence[Buffer], overlaps: Sequence[Overlap] = ()) -> int:
    """Return the peak of the largest-first greedy, as TensorFlow Lite Micro plans an arena."""
    instance = make_instance(buffers, overlaps)
    return instance.peak_bytes(first_fit(instance, greedy_order(instance, "size")))


def best_greedy(instance: Instance) -> IntArray:
    """Return the offsets, in granules, of the best of all orders; the first among equals."""
    plans = [first_fit(instance, greedy_order(instance, name)) for name in GREEDY_ORDERS]
    return min(plans, key=instance.peak_bytes)


def greedy_order(instance: Instance, name: str) -> list[int]:
    """Return the buffers in one order of GREEDY_ORDERS; buffers with fixed offsets come first."""
    crowd = np.zeros(len(instance), dtype=np.int64)
    for section in instance.sections:
        members = list(section.members)
        crowd[members] = np.maximum(crowd[members], sum(section.weights))
    size = instance.size.tolist()
    keys: dict[str, Callable[[int, Buffer], tuple[int, ...]]] = {
        "size": lambda i, b: (-size[i], b.start),
        "area": lambda i, b: (-size[i] * (b.stop - b.start),),
        "birth": lambda i, b: (b.start, -size[i]),
        "youth": lambda i, b: (-b.start, -size[i]),
        "death": lambda i, b: (-b.stop, -size[i]),
        "crowd": lambda i, b: (-int(crowd[i]), -size[i] * (b.stop - b.start)),
    }
    key = keys[name]
    return sorted(
        range(len(instance)),
        key=lambda i: (instance.buffers[i].fixed_offset is None, *key(i, instance.buffers[i]), i),
    )


def first_fit(instance: Instance, order: Sequence[int]) -> IntArray:
    """Place the buffers in `order`, each as low as those before it permit; return granules.

    Pinned buffers must come first in `order`; two that collide are left to the checker.
    """
    gaps, align = instance.gaps, instance.align.tolist()
    offset = [0] * len(instance)
    is_placed = [False] * len(instance)
    for b in order:
        is_placed[b] = True
        fixed = instance.buffers[b].fixed_offset
        if fixed is not None:
            offset[b] = fixed // instance.granule
            continue
        # Offsets of b that each placed neighbour a forbids: the open interval (from, to).
        forbidden = sorted(
            (offset[a] - below, offset[a] + gaps[a][b])
            for a, below in gaps[b].items()
            if is_placed[a]
        )
        lowest = 0
        for low, high in forbidden:
            if low < lowest < high:
                lowest = -(-high // align[b]) * align[b]
        offset[b] = lowest
    return np.array(offset, dtype=np.int64)
