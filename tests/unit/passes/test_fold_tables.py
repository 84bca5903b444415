"""fold_tables: one table for several functions of a value, none where nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from single_node import check_nests

import edgec.ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Value
from edgec.graph.types import Quant, TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.passes.fold_tables import MANY_ELEMENTS, fold_tables

edgec.ops.load()

#: A picture's bytes; times 2; minus 1: the same bytes. Scales as TensorFlow Hub's models have them.
X = Quant((0.003921568859368563,), (-128,))
TWICE, CENTRED = (Quant((0.007843137718737125,), (zero_point,)) for zero_point in (-128, -1))
TWO, ONE = 0.015748031437397003, 0.007874015718698502  # of 127
ALL = np.arange(-128, 128, dtype=np.int8)


def number(builder: GraphBuilder, value: int, scale: float) -> Value:
    return builder.constant("number", np.int8(value), Quant((scale,), (0,)))


def picture(elements: int = 256) -> tuple[GraphBuilder, Value]:
    builder = GraphBuilder()
    return builder, builder.param("x", TensorType((elements,), "int8", X))


def check(function: Function, operators: list[str]) -> None:
    """These operators are left, and every stored value becomes what it was."""
    folded = fold_tables(function)
    assert [node.op.name for node in folded.nodes] == operators
    (x,) = function.params
    data = np.resize(ALL, x.type.shape)
    for got, want in zip(interpret(folded, [data]), interpret(function, [data]), strict=True):
        np.testing.assert_array_equal(got, want)
    assert [v.type for v in folded.results] == [v.type for v in function.results]
    check_nests(folded, [data])


def test_what_keeps_every_stored_value_is_a_view() -> None:
    """Both steps do; views of views are one."""
    builder, x = picture()
    y = builder.op("mul", [x, number(builder, 127, TWO)], MulAttrs(TWICE), name="twice")
    y = builder.op("sub", [y, number(builder, 127, ONE)], AddAttrs(CENTRED), name="centred")
    y = builder.op("add", [y, y], AddAttrs(X), name="end")
    check(builder.finish([y]), ["reinterpret", "add"])


def test_what_leads_back_to_the_same_quantization_is_gone() -> None:
    builder, x = picture()
    y = builder.op("mul", [x, number(builder, 127, TWO)], MulAttrs(TWICE), name="twice")
    y = builder.op("mul", [y, number(builder, 64, 0.5 / 64)], MulAttrs(X), name="half")
    y = builder.op("add", [y, y], AddAttrs(TWICE), name="end")
    check(builder.finish([y]), ["add"])


@pytest.mark.parametrize("elements", [256, MANY_ELEMENTS])
def test_arithmetic_alone_is_a_table_where_elements_are_many(elements: int) -> None:
    builder, x = picture(elements)
    y = builder.op("mul", [number(builder, -77, 0.01), x], MulAttrs(TWICE), name="y")
    check(builder.finish([y]), ["lookup" if elements == MANY_ELEMENTS else "mul"])


def test_a_chain_is_one_table() -> None:
    builder, x = picture()
    y = builder.op("add", [x, number(builder, 3, 0.1)], AddAttrs(TWICE, -128, 60), name="a")
    limits = RequantizeAttrs((1.0,), TWICE, -100, 40, "tflm")
    y = builder.op("requantize", [y], limits, name="b")
    y = builder.op("mul", [y, number(builder, -50, 0.1)], MulAttrs(CENTRED), name="c")
    check(builder.finish([y]), ["lookup"])


def test_a_value_that_others_read_is_still_made() -> None:
    builder, x = picture()
    first = builder.op("add", [x, number(builder, 3, 0.1)], AddAttrs(TWICE), name="a")
    second = builder.op("mul", [first, number(builder, 50, 0.02)], MulAttrs(X), name="b")
    both = builder.op("add", [first, second], AddAttrs(TWICE), name="c")
    check(builder.finish([both]), ["add", "mul", "add"])
    check(builder.finish([first, second]), ["add", "mul"])


def test_results_are_made_by_a_node() -> None:
    builder, x = picture()
    y = builder.op("mul", [x, number(builder, 127, TWO)], MulAttrs(TWICE), name="y")
    check(builder.finish([y]), ["mul"])


def test_functions_of_channels_are_left_alone() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((64, 4), "int8", X))
    each = builder.constant("each", np.arange(4, dtype=np.int8), Quant((0.1,), (0,)))
    y = builder.op("mul", [x, each], MulAttrs(TWICE), name="a")
    attrs = RequantizeAttrs((0.5, 1.0, 0.3, 0.9), X, -128, 127, "tflm")
    check(builder.finish([builder.op("requantize", [y], attrs, name="b")]), ["mul", "requantize"])
