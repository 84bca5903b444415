"""TFLite's sparse constants made dense.

A sparse tensor stores its elements as a tree: one level for each dimension in traversal order,
blocked dimensions split into an outer and an inner one. A level is dense (every index is there)
or compressed (`segments` say which run of `indices` belongs to each node above). The leaves are
the stored values, in order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.types import Array


@dataclass(frozen=True)
class SparseLevel:
    """One dimension of the tree: `size` indices, or the compressed ones.

    segments, indices: None for a dense level; the children of node n are
    indices[segments[n] : segments[n + 1]].
    """

    size: int
    segments: Array | None = None
    indices: Array | None = None


@dataclass(frozen=True)
class Sparsity:
    """Storage of a tensor: dimensions in traversal order, and which of them are blocked.

    order: numbers below the rank are (outer) dimensions, the others inner dimensions of blocks;
    block_map: the dimension that each block splits.
    """

    order: tuple[int, ...]
    block_map: tuple[int, ...]
    levels: tuple[SparseLevel, ...]


def densify(values: Array, shape: Sequence[int], sparsity: Sparsity) -> Array:
    """The dense array of `shape`, zero where nothing is stored.

    Raises ImportFailed where the description contradicts itself or the number of values.
    """
    rank, blocks = len(shape), len(sparsity.block_map)
    if (
        sorted(sparsity.order) != list(range(rank + blocks))
        or len(sparsity.levels) != rank + blocks
    ):
        raise ImportFailed("its sparsity does not describe all dimensions")
    if len(set(sparsity.block_map)) != blocks or any(
        d not in range(rank) for d in sparsity.block_map
    ):
        raise ImportFailed("its sparsity has blocks of other dimensions")
    extents = _extents(shape, sparsity)
    elements = math.prod(shape)
    coordinates = np.zeros((rank + blocks, 1), np.int64)
    position = np.zeros(1, np.int64)  # of each node among the nodes of its level
    for dimension, level in zip(sparsity.order, sparsity.levels, strict=True):
        parents, position, index = _children(position, level, extents[dimension], elements)
        coordinates = coordinates[:, parents]
        coordinates[dimension] = index
    if position.size > values.size or (position.size and position.max() >= values.size):
        raise ImportFailed(f"its sparsity has {position.size} values, {values.size} are stored")
    place = list(coordinates[:rank])
    for number, dimension in enumerate(sparsity.block_map):
        place[dimension] = place[dimension] * extents[rank + number] + coordinates[rank + number]
    dense = np.zeros(tuple(shape), values.dtype)
    dense[tuple(place)] = values[position]
    return dense


def _extents(shape: Sequence[int], sparsity: Sparsity) -> list[int]:
    """Number of indices of each (outer, then inner) dimension."""
    rank = len(shape)
    extents = [*shape, *(0 for _ in sparsity.block_map)]
    for dimension, level in zip(sparsity.order, sparsity.levels, strict=True):
        if dimension >= rank:
            blocked = sparsity.block_map[dimension - rank]
            if level.segments is not None or level.size < 1 or shape[blocked] % level.size:
                raise ImportFailed(f"its sparsity has blocks of {level.size} in {list(shape)}")
            extents[dimension] = level.size
            extents[blocked] = shape[blocked] // level.size
    return extents


def _children(
    position: Array, level: SparseLevel, extent: int, elements: int
) -> tuple[Array, Array, Array]:
    """(number of the parent, position, index along the dimension) of each node of a level."""
    if level.segments is None or level.indices is None:
        if level.size != extent:
            raise ImportFailed(f"its sparsity has {level.size} indices of {extent}")
        if position.size * extent > elements:
            raise ImportFailed("its sparsity has more values than elements")
        index = np.tile(np.arange(extent), position.size)
        parents = np.repeat(np.arange(position.size), extent)
        return parents, position[parents] * extent + index, index
    segments, indices = level.segments.astype(np.int64), level.indices.astype(np.int64)
    sound = (position.size == 0 or position.max() + 1 < segments.size) and bool(
        np.all(np.diff(segments) >= 0)
    )
    if not sound or segments.size < 1 or segments[0] < 0 or segments[-1] > indices.size:
        raise ImportFailed("its sparsity has segments outside of its indices")
    if indices.size and not (indices.min() >= 0 and indices.max() < extent):
        raise ImportFailed("its sparsity has indices outside of its shape")
    counts = segments[position + 1] - segments[position]
    if counts.sum() > elements:
        raise ImportFailed("its sparsity has more values than elements")
    parents = np.repeat(np.arange(position.size), counts)
    first = np.repeat(segments[position] - (np.cumsum(counts) - counts), counts)
    own = first + np.arange(parents.size)
    return parents, own, indices[own]
