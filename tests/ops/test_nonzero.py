"""nonzero: NumPy's places on any dtype, C on any numbers, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.ops.nonzero import Nonzero
from edgec.ops.op import lowered_results


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint64", "bool"])
@pytest.mark.parametrize("shape", [(1,), (7,), (3, 4), (2, 3, 2)])
def test_places_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(len(shape)).integers(0, 2, shape).astype(dtype)
    if dtype.startswith("float"):
        x.flat[0] = np.nan
    types = [TensorType(shape, dtype)]
    outputs = Nonzero().infer(NoAttrs(), *types)
    wanted = np.array(np.nonzero(x))
    for found in (
        Nonzero().evaluate(NoAttrs(), [x], types, outputs),
        lowered_results(Nonzero(), NoAttrs(), [x], types, outputs),
    ):
        places, (count,) = found
        np.testing.assert_array_equal(places[:, :count], wanted)
        assert not places[:, count:].any()


@pytest.mark.parametrize("name", ["test_nonzero_example", "test_compress_1"])
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize(
    "x", [TensorType((), "int8"), TensorType((0, 3), "int8"), TensorType((2,), "float16")]
)
def test_refusals(x: TensorType) -> None:
    with pytest.raises(TypeMismatch, match="elements along axes, and plain numbers"):
        Nonzero().infer(NoAttrs(), x)
