"""Open sizes: what type relations say of them, their text, and functions at one size."""

from __future__ import annotations

import numpy as np
import pytest
from open_functions import ALL, BATCH, MOST

from edgec.errors import ContractError, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.extents import (
    _samples,
    at_largest,
    function_at,
    open_type,
    solved,
    symbols_of,
)
from edgec.graph.interpret import interpret
from edgec.graph.ir import Module
from edgec.graph.parser import parse_module
from edgec.graph.printer import constant_data, print_module
from edgec.graph.provenance import Origin
from edgec.graph.types import TensorType
from edgec.graph.verify import verify_function
from edgec.numerics.term import Var, as_term, floor_div
from edgec.ops.concat import ConcatAttrs
from edgec.ops.control import ScanAttrs
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import SliceAttrs
from edgec.ops.transpose import TransposeAttrs


def test_a_type_holds_its_largest_shape() -> None:
    type_ = open_type("int8", BATCH, as_term(BATCH) * 2 + 1, 3)
    assert type_.shape == (8, 17, 3)
    assert type_.nbytes == 8 * 17 * 3
    assert str(type_) == "int8[batch, batch*2 + 1, 3]"
    assert type_ != TensorType((8, 17, 3), "int8")
    assert type_.with_shape((4,)).extents is None
    with pytest.raises(ValueError, match=r"sizes batch do not lie in 0 to \[7\]"):
        TensorType((7,), "int8", extents=(as_term(BATCH),))


def test_families_of_operators_carry_sizes() -> None:
    b = GraphBuilder()
    x = b.param("x", open_type("float32", BATCH, 4, 6))
    row = b.constant("row", np.ones((6,), np.float32))
    found = {
        "exp": b.op("exp", [x], name="exp"),
        "div": b.op("div", [x, row], name="div"),
        "matmul": b.op("matmul", [x, b.constant("w", np.ones((6, 5), np.float32))], name="mm"),
        "reduce": b.op("reduce", [x], ReduceAttrs((1, 2), "max"), name="reduce"),
        "concat": b.op("concat", [x, x], ConcatAttrs(0), name="concat"),
        "transpose": b.op("transpose", [x], TransposeAttrs((1, 0, 2)), name="transpose"),
        "slice": b.op("slice", [x], SliceAttrs((0, 1, 0), (1, 1, 1), (8, 2, 6)), name="slice"),
        "all": b.op("reduce", [x], ReduceAttrs((0, 1, 2), "max"), name="all"),
    }
    assert {name: str(value.type) for name, value in found.items()} == {
        "exp": "float32[batch, 4, 6]",
        "div": "float32[batch, 4, 6]",
        "matmul": "float32[batch, 4, 5]",
        "reduce": "float32[batch, 1, 1]",
        "concat": "float32[batch*2, 4, 6]",
        "transpose": "float32[4, batch, 6]",
        "slice": "float32[batch, 2, 6]",
        "all": "float32[1, 1, 1]",
    }


def test_two_sizes_in_one_type() -> None:
    length = Var("length", 3, 21)
    b = GraphBuilder()
    x = b.param("x", open_type("float32", BATCH, length, 1, 2))
    w = b.constant("w", np.ones((4, 3, 1, 2), np.float32))
    bias = b.constant("bias", np.zeros(4, np.float32))
    y = b.op("conv2d", [x, w, bias], Conv2dAttrs(), name="conv")
    assert str(y.type) == "float32[batch, length - 2, 1, 4]"
    assert [var.name for var in symbols_of([y.type])] == ["batch", "length"]


def test_strides_divide_sizes() -> None:
    length = Var("length", 3, 21)
    b = GraphBuilder()
    x = b.param("x", open_type("float32", 1, length, 1, 2))
    w = b.constant("w", np.ones((4, 3, 1, 2), np.float32))
    bias = b.constant("bias", np.zeros(4, np.float32))
    y = b.op("conv2d", [x, w, bias], Conv2dAttrs(stride=(2, 1)), name="conv")
    assert [str(term) for term in y.type.extents or ()] == ["1", "(length + 1) // 2 - 1", "1", "4"]


def test_sizes_that_multiply_are_refused() -> None:
    b = GraphBuilder()
    height, width = Var("height", 2, 9), Var("width", 2, 9)
    x = b.param("x", open_type("float32", height, width))
    with pytest.raises(TypeMismatch, match=r"'flat': reshape of .* do not follow from height, wid"):
        b.op("reshape", [x], ReshapeAttrs((64,)), name="flat")


@pytest.mark.parametrize("name", ALL)
def test_text_is_read_back(name: str) -> None:
    module = Module({"main": ALL[name]()})
    text = print_module(module)
    assert "size 'batch' from 1 to 8" in text
    again = parse_module(text, constant_data(module))
    assert print_module(again) == text
    assert again.main.params[0].type == module.main.params[0].type


@pytest.mark.parametrize(
    ("term", "problem"),
    [
        ("rows", "line 4: 'rows' is not a term: rows is not known"),
        ("batch * batch", "line 4: 'batch \\* batch' is not a term: not linear"),
        ("batch // batch", "is not a term: a divisor that is not constant"),
        ("__import__('os')", "is not a term"),
        ("batch + 1", "sizes batch \\+ 1 do not lie in 0 to \\[8\\]"),
    ],
)
def test_a_wrong_term_says_its_line(term: str, problem: str) -> None:
    text = f"""module {{}}
    function 'main' {{
      size 'batch' from 1 to 8
      param %x: int8[8] sizes({term!r})
      return %x
    }}"""
    with pytest.raises(ContractError, match=problem):
        parse_module(text, {})


@pytest.mark.parametrize("name", ALL)
def test_a_function_at_a_size_is_closed(name: str) -> None:
    function = ALL[name]()
    closed = function_at(function, {BATCH: 3})
    verify_function(closed)
    assert all(value.type.extents is None for value in closed.values())
    type_ = function.params[0].type
    x = np.ones((3, *type_.shape[1:]), type_.dtype)
    for a, b in zip(interpret(function, [x]), interpret(closed, [x]), strict=True):
        np.testing.assert_array_equal(a, b)
        assert len(a) == 3
    for rows in (0, MOST + 1):
        with pytest.raises(TypeMismatch, match=f"size batch is {rows}, not 1 to 8"):
            interpret(function, [np.ones((rows, *type_.shape[1:]), type_.dtype)])


def test_sources_have_their_sizes_too() -> None:
    """An origin's shape is closed as its value is, in the source's order of axes."""
    b = GraphBuilder()
    origin = Origin("x", (8, 6, 5), permutation=(0, 2, 1))
    x = b.param("x", open_type("float32", BATCH, 5, 6), origin)
    y = b.op("transpose", [x], TransposeAttrs((2, 1, 0)), name="y",
             origins=[Origin("x", (8, 6, 5), permutation=(1, 2, 0))])  # fmt: skip
    plain = b.param("plain", TensorType((8, 4), "float32"), Origin("plain", (8, 4)))
    other = b.param("other", open_type("float32", BATCH, 4), Origin("other", (32,)))
    kept = b.param("kept", open_type("float32", BATCH, 4), Origin("k", (8, 9), None, None, (1,)))
    closed = function_at(b.finish([y, plain, other, kept]), {BATCH: 3})
    shapes = {p.name: p.origin.shape for p in closed.params if p.origin}
    assert shapes == {"x": (3, 6, 5), "plain": (8, 4), "other": (32,), "kept": (8, 9)}
    (node,) = closed.nodes
    assert node.outputs[0].origin == Origin("x", (3, 6, 5), permutation=(1, 2, 0))
    assert node.outputs[0].type.shape == (6, 5, 3)


def test_the_ends_of_a_range_are_in_it() -> None:
    size = Var("size", 0, 6)
    b = GraphBuilder()
    x = b.param("x", open_type("float32", size, 2))
    w = b.param("w", open_type("float32", as_term(size) * 2 + 1))
    function = b.finish([b.op("exp", [x], name="y"), w])
    assert str(function.nodes[0].output.type) == "float32[size, 2]"
    for rows in (0, 5):
        given = [np.zeros((rows, 2), np.float32), np.zeros(2 * rows + 1, np.float32)]
        assert interpret(function, given)[0].shape == (rows, 2)
    with pytest.raises(TypeMismatch, match="size size is 6, not 0 to 5"):
        interpret(function, [np.zeros((6, 2), np.float32), np.zeros(13, np.float32)])
    assert solved(as_term(size) * 2 + 1, 7) == (size, 3)
    assert solved(as_term(4), 4) is None
    assert solved(as_term(size) + BATCH, 4) is None
    assert solved(floor_div(size, 2), 1) is None
    assert at_largest(function).params[0].type.shape == (5, 2)


def test_a_long_range_is_asked_at_some_sizes_and_both_ends() -> None:
    long, short = Var("long", 10, 110), Var("short", 2, 4)
    asked = _samples((long, short))
    values = {sizes[long] for sizes in asked if sizes[short] == 2}
    assert sorted(values)[:5] == [10, 11, 12, 13, 16] and values <= set(range(10, 110))
    assert values >= {106, 107, 108, 109, 10 + 6 * 7}
    assert {sizes[short] for sizes in asked} == {2, 3}
    assert len(values) == 17 + 3 + 3 and len(asked) == 2 * 23 + 2 * 2


def test_a_body_takes_the_open_sizes_that_it_is_given() -> None:
    body = GraphBuilder("body")
    x = body.param("x", TensorType((8,), "float32"))
    b = GraphBuilder()
    y = b.param("y", open_type("float32", BATCH))
    with pytest.raises(TypeMismatch, match="'c': call: the types of a body's parameters") as caught:
        b.node("call", [y], name="c", bodies=(body.finish([x]),))
    assert caught.value.details == ("takes: float32[8]", "is given: float32[batch]")


def test_a_step_of_a_scan_has_no_open_size() -> None:
    body = GraphBuilder("body")
    body.param("row", TensorType((8,), "float32"))
    b = GraphBuilder()
    y = b.param("y", open_type("float32", Var("time", 1, 5), BATCH))
    with pytest.raises(TypeMismatch, match=r"scan over float32\[time, batch\]: slices of an open"):
        b.node("scan", [y], ScanAttrs(4, 0, 1), name="s", bodies=(body.finish([]),))
