"""Sparse constants: every layout gives the dense array, damaged ones an error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from edgec.errors import ImportFailed
from edgec.frontends.tflite_sparse import SparseLevel, Sparsity, densify


def compress(dense: np.ndarray, order: tuple[int, ...], compressed: set[int]) -> tuple:
    """(values, sparsity) of an array in an order of its axes; the levels in `compressed` are CSR.

    An independent writer: recursion over the axes, as the schema describes the format.
    """
    moved = dense.transpose(order)
    values: list[float] = []
    lists: dict[int, tuple[list[int], list[int]]] = {level: ([0], []) for level in compressed}

    def walk(part: np.ndarray, level: int) -> None:
        if level == len(order):
            values.append(part.item())
            return
        for index in range(part.shape[0]):
            if level in compressed:
                if not part[index].any():
                    continue
                lists[level][1].append(index)
            walk(part[index], level + 1)
        if level in compressed:
            lists[level][0].append(len(lists[level][1]))

    walk(moved, 0)
    levels = tuple(
        SparseLevel(0, *(np.array(part, np.int32) for part in lists[level]))
        if level in compressed
        else SparseLevel(moved.shape[level])
        for level in range(len(order))
    )
    return np.array(values, dense.dtype), Sparsity(order, (), levels)


def sparse_array(shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) * (rng.random(shape) < 0.3)).astype(np.float32)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
@pytest.mark.parametrize("compressed", [{2}, {1, 2}, {0}, {0, 1, 2}, set()], ids=str)
def test_orders_and_compressed_levels(order: tuple[int, ...], compressed: set[int]) -> None:
    dense = sparse_array((4, 3, 5), 1)
    values, sparsity = compress(dense, order, compressed)
    np.testing.assert_array_equal(densify(values, dense.shape, sparsity), dense)


def test_blocks() -> None:
    dense = sparse_array((4, 6), 2)
    split = dense.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3)  # blocks of 2 x 2
    values, tree = compress(np.ascontiguousarray(split), (0, 1, 2, 3), {1})
    sparsity = replace(tree, order=(0, 1, 2, 3), block_map=(0, 1))
    np.testing.assert_array_equal(densify(values, (4, 6), sparsity), dense)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"order": (0, 0)}, "all dimensions"),
        ({"block_map": (0,)}, "all dimensions"),
        ({"levels": (SparseLevel(4), SparseLevel(3))}, "3 indices of 5"),
        ({"levels": (SparseLevel(4), SparseLevel(0, np.array([0, 9]), np.array([1])))}, "segments"),
        (
            {"levels": (SparseLevel(4), SparseLevel(0, np.arange(5), np.array([0, 1, 2, 7])))},
            "indices outside",
        ),
        ({"levels": (SparseLevel(4), SparseLevel(5))}, "20 values"),
    ],
)
def test_what_contradicts_itself_is_refused(change: dict, message: str) -> None:
    values, sparsity = compress(sparse_array((4, 5), 3), (0, 1), {1})
    with pytest.raises(ImportFailed, match=message):
        densify(values, (4, 5), replace(sparsity, **change))
