"""top_k: order and indices on any dtype, LiteRT's TOPK_V2, C on any numbers, and refusals."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c
from onnx.parser import parse_model

from edgec.api import compile as compile_model
from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.op import lowered_results
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


#: Elements of a row, how many of them are taken, and the most instructions on the M4.
#: Counting what comes before each element took 45,005 and 83,885 for the last two.
ROWS = {"odd": (33, 33, 30_000), "few": (64, 5, 7_500), "all": (64, 64, 60_000)}


@pytest.mark.parametrize("largest", [1, 0])
@pytest.mark.parametrize("name", ROWS)
def test_rows_are_in_order_in_few_instructions(name: str, largest: int, tmp_path: Path) -> None:
    extent, count, most = ROWS[name]
    model = parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]> m (float[2,{extent}] x)
        => (float[2,{count}] y, int64[2,{count}] at) <int64[1] k = {{{count}}}>
        {{ y, at = TopK<largest = {largest}>(x, k) }}"""
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    x = np.random.default_rng(2).integers(-9, 9, (2, extent)).astype(np.float32)
    order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :count]
    with compile_model(path, board="stm32", engine="core") as compiled:
        result = compiled.run_all([x])
    np.testing.assert_array_equal(result.outputs[0], np.take_along_axis(x, order, 1))
    np.testing.assert_array_equal(result.outputs[1], order)
    assert result.instructions < 2 * most


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("axis", [0, 1])
def test_sorted_rows_are_what_the_loops_make(axis: int, largest: bool) -> None:
    """Also where a search finds nothing more, and starts anew."""
    rng = np.random.default_rng(axis)
    numbers = rng.choice(np.array([np.nan, -np.inf, np.inf, 0.0, -0.0, 1, 2], np.float32), (9, 11))
    for x in (numbers, np.full((9, 11), np.nan, np.float32), np.nan_to_num(numbers)):
        for count in range(10):
            attrs, types = TopKAttrs(axis, count, largest), [TensorType((9, 11), "float32")]
            loops = lowered_results(TopK(), attrs, [x], types, TopK().infer(attrs, *types))
            for own, expected in zip(chosen(attrs, x), loops, strict=True):
                assert own.dtype == expected.dtype and own.tobytes() == expected.tobytes()


@pytest.mark.parametrize("count", [2, 9])
def test_nans_leave_the_rest_in_memory(count: int) -> None:
    """What is computed of them is undefined; the others are in order as long as there are some."""
    x = np.array([[np.nan, 3, 1, np.nan, 2, 0, np.nan, 5, 4]], np.float32)
    values, places = chosen(TopKAttrs(1, count), x)
    assert ((places >= 0) & (places < 9)).all()
    if count == 2:
        np.testing.assert_array_equal(values, [[5, 4]])


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
