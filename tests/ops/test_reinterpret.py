"""reinterpret: a view under another quantization."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.reinterpret import ReinterpretAttrs

X, Y = Quant((0.05,), (-3,)), Quant((0.1,), (7,))


def test_stored_values_stay_and_their_meaning_changes() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((5,), "int8", X))
    y = builder.op("reinterpret", [x], ReinterpretAttrs(Y), name="y")
    assert y.type == TensorType((5,), "int8", Y)
    twice = builder.op("add", [y, y], AddAttrs(Y), name="twice")
    function = builder.finish([y, twice])
    data = np.array([-128, -3, 0, 7, 60], np.int8)
    same, doubled = interpret(function, [data])
    np.testing.assert_array_equal(same, data)
    np.testing.assert_array_equal(doubled, [-128, -13, -7, 7, 113])


@pytest.mark.parametrize("quant", [None, Quant((0.1, 0.2), (0, 0), 0)])
def test_quantization_is_of_the_whole_tensor(quant: Quant | None) -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((2,), "int8", quant))
    with pytest.raises(TypeMismatch, match="per tensor"):
        builder.op("reinterpret", [x], ReinterpretAttrs(Y), name="y")
