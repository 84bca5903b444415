"""`docs/operators.toml` says what the operators say: a fresh measurement has all of it."""

from __future__ import annotations

import tomllib

import pytest
from measure_operators import PAGE, Found, ask, measured, text_of

from edgec.graph.builder import GraphBuilder
from edgec.graph.types import Quant, TensorType
from edgec.ops.cumulate import CumulateAttrs


def test_the_type_relation_is_asked() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((2, 3), "float32"))
    builder.op("cumulate", [x], CumulateAttrs(0), name="node")
    found = Found()
    ask(builder.nodes[0], found)
    assert {"float64", "int8", "uint64"} <= found.plain and "bool" not in found.plain
    assert not found.stored, "scales are refused"
    y = builder.param("y", TensorType((2, 3), "int8", Quant((0.5,), (3,))))
    builder.op("reshape", [y], _reshape((6,)), name="moved")
    ask(builder.nodes[1], found)
    assert "int16" in found.stored


def _reshape(shape: tuple[int, ...]) -> object:
    from edgec.ops.reshape import ReshapeAttrs

    return ReshapeAttrs(shape)


@pytest.mark.full
def test_what_the_page_says_is_still_so() -> None:
    fresh = tomllib.loads(text_of(measured()))
    for name, entry in tomllib.loads(PAGE.read_text("utf-8")).items():
        for key, values in entry.items():
            assert set(values) <= set(fresh[name][key]), f"{name}: measure again"
