"""simplify_views: what moves nothing goes, what reverses stays."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.concat import ConcatAttrs
from edgec.ops.pad import PadAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import SliceAttrs
from edgec.passes.simplify_views import simplify_views

edgec.ops.load()


@pytest.mark.parametrize(
    ("op", "attrs", "stays"),
    [
        ("slice", SliceAttrs((0, 0), (1, 1), (3, 4)), False),
        ("slice", SliceAttrs((2, 0), (-1, 1), (3, 4)), True),
        ("pad", PadAttrs(((0, 0), (0, 0)), 7), False),
        ("pad", PadAttrs(((0, 0), (0, 1)), 7), True),
        ("concat", ConcatAttrs(1), False),
    ],
)
def test_what_changes_nothing_goes(op: str, attrs: object, stays: bool) -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((3, 4), "int8"))
    moved = builder.op(op, [x], attrs, name="moved")
    flat = builder.op("reshape", [moved], ReshapeAttrs((moved.type.elements,)), name="flat")
    function = builder.finish([flat])
    simple = simplify_views(function)
    assert (op in {node.op.name for node in simple.nodes}) == stays
    data = np.arange(12, dtype=np.int8).reshape(3, 4)
    np.testing.assert_array_equal(interpret(simple, [data])[0], interpret(function, [data])[0])


def test_a_result_stays_a_node() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((3,), "int8"))
    y = builder.op("pad", [x], PadAttrs(((0, 0),)), name="y")
    assert len(simplify_views(builder.finish([y])).nodes) == 1
