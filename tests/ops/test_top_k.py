"""top_k: order and indices on any dtype, LiteRT's TOPK_V2, C on any numbers, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.top_k import TopK, TopKAttrs


def chosen(attrs: TopKAttrs, x: np.ndarray) -> tuple[np.ndarray, ...]:
    types = [TensorType(x.shape, x.dtype.name)]
    return TopK().evaluate(attrs, [x], types, TopK().infer(attrs, *types))


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "int32"])
def test_equal_ones_keep_their_order(dtype: str, axis: int, largest: bool) -> None:
    x = np.random.default_rng(axis).integers(0, 4, (3, 4, 5)).astype(dtype)
    values, places = chosen(TopKAttrs(axis, 3, largest), x)
    key = -x.astype(np.float64) if largest else x.astype(np.float64)
    order = np.argsort(key, axis=axis, kind="stable").take(range(3), axis=axis)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize(("shape", "axis", "count"), [((5,), 0, 0), ((0, 3), 1, 2), ((1,), 0, 1)])
def test_limits(shape: tuple[int, ...], axis: int, count: int) -> None:
    values, places = chosen(TopKAttrs(axis, count), np.ones(shape, np.float32))
    assert values.shape == places.shape == (*shape[:axis], count, *shape[axis + 1 :])


@pytest.mark.parametrize("name", ["test_top_k_same_values_2d", "test_top_k_smallest"])
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


ATTRS = TopKAttrs(0, 2)


@pytest.mark.parametrize(
    ("attrs", "x", "message"),
    [
        (replace(ATTRS, axis=1), TensorType((3,), "int8"), "along axis 1"),
        (replace(ATTRS, count=4), TensorType((3,), "int8"), "4 of 3 elements"),
        (replace(ATTRS, dtype="int8"), TensorType((3,), "int8"), "to int8"),
        (ATTRS, TensorType((3,), "float16"), "numbers that C has"),
    ],
)
def test_refusals(attrs: TopKAttrs, x: TensorType, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        TopK().infer(attrs, x)
