"""transpose: every permutation, of every element type, with quantization that follows its axis."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.provenance import Origin
from edgec.graph.types import Quant, TensorType
from edgec.ops.transpose import Transpose, TransposeAttrs, transposed


@pytest.mark.parametrize("permutation", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("dtype", ["float32", "int8", "int32"])
def test_equals_onnxruntime(permutation: tuple[int, ...], dtype: str, tmp_path: Path) -> None:
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)
    path = save_node(tmp_path / "m.onnx", "Transpose", x, {}, perm=list(permutation))
    check_nests(check_against_onnxruntime(path, x), [x])


def test_without_perm_the_axes_are_reversed(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.float32).reshape(1, 2, 3, 4)
    path = save_node(tmp_path / "m.onnx", "Transpose", x, {})
    assert check_against_onnxruntime(path, x).results[0].type.shape == (4, 3, 2, 1)


def test_quantization_follows_its_axis() -> None:
    x = TensorType((2, 3), "int8", Quant((0.5, 0.25, 1.0), (0, 1, 2), axis=1))
    (y,) = Transpose().infer(TransposeAttrs((1, 0)), x)
    assert y == TensorType((3, 2), "int8", Quant((0.5, 0.25, 1.0), (0, 1, 2), axis=0))


def test_provenance_follows() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((1, 2, 3, 4), "int8"), Origin("x", (1, 2, 3, 4)))
    y = transposed(builder, x, (0, 2, 3, 1), "y")
    array = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    assert y.origin is not None
    there = y.origin.from_source(array, y.type.shape)
    np.testing.assert_array_equal(there, array.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(y.origin.to_source(there), array)
    back = transposed(builder, y, (0, 3, 1, 2), "z")
    assert back.origin == x.origin


@pytest.mark.parametrize("permutation", [(0,), (0, 0), (0, 2), (1, 0, 2)])
def test_what_is_no_permutation_is_refused(permutation: tuple[int, ...]) -> None:
    with pytest.raises(TypeMismatch, match="does not fit"):
        Transpose().infer(TransposeAttrs(permutation), TensorType((2, 3), "int8"))
