"""copy: the same elements, of any type, in memory of their own."""

from __future__ import annotations

import numpy as np
import pytest
from single_node import check_nests

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "float32"])
def test_copy_is_the_same(dtype: str) -> None:
    b = GraphBuilder()
    type_ = TensorType((2, 3, 5), dtype, Quant((0.5,), (3,)) if dtype == "int8" else None)
    x = b.param("x", type_)
    function = b.finish([b.op("copy", [x], name="copy")])
    assert function.results[0].type == type_
    array = np.random.default_rng(1).integers(-100, 100, type_.shape).astype(dtype)
    (y,) = interpret(function, [array])
    assert y is not array
    np.testing.assert_array_equal(y, array)
    check_nests(function, [array])
