"""if, while, scan and call: what the interpreter makes of them, their types, and their text."""

from __future__ import annotations

from dataclasses import replace

import control_functions as functions
import numpy as np
import pytest
from control_functions import CASES, FLAG, ROW, by_numpy, inputs_of

from edgec.errors import ContractError, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Module, State, Value
from edgec.graph.parser import parse_module
from edgec.graph.printer import constant_data, print_module
from edgec.graph.types import Array, Quant, TensorType
from edgec.graph.verify import verify_function, verify_module
from edgec.ops.control import ScanAttrs, WhileAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.passes.sequence import PASSES


@pytest.mark.parametrize("name", CASES)
def test_interpreter_computes_what_numpy_does(name: str) -> None:
    function = CASES[name]()
    verify_function(function)
    for given in inputs_of(name):
        for found, wanted in zip(interpret(function, given), by_numpy(name, given), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_text_is_read_back(name: str) -> None:
    module = Module({"main": CASES[name]()})
    text = print_module(module)
    again = parse_module(text, constant_data(module))
    assert print_module(again) == text
    given = inputs_of(name)[-1]
    for a, b in zip(interpret(module.main, given), interpret(again.main, given), strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_the_chosen_body_runs_and_is_observed() -> None:
    function = CASES["branch"]()
    seen: list[str] = []

    def observe(value: Value, array: Array) -> None:
        seen.append(value.name)

    flag, x = inputs_of("branch")[1]
    interpret(function, [flag, x], observe)
    assert "double" in seen and "square" not in seen


def test_macs_of_bodies_count() -> None:
    units = functions.UNITS
    assert CASES["recurrent"]().macs == functions.STEPS * 2 * units * units
    assert CASES["decoder"]().macs == units * units  # of one round


def test_a_body_is_verified() -> None:
    function = CASES["called"]()
    (first, second) = function.nodes
    (outer,) = first.bodies
    stranger = Value("stranger", ROW)
    bad = replace(outer, nodes=(), results=(stranger,))
    broken = replace(function, nodes=(replace(first, bodies=(bad,)), second))
    with pytest.raises(ContractError, match="function outer: result %stranger is undefined"):
        verify_module(Module({"main": broken}))
    zero = GraphBuilder().constant("zero", np.zeros(ROW.shape, np.float32))
    keeps = replace(outer, states=(State(outer.params[0], outer.results[0], zero),))
    broken = replace(function, nodes=(replace(first, bodies=(keeps,)), second))
    with pytest.raises(ContractError, match="function outer: a body has states"):
        verify_module(Module({"main": broken}))


def test_a_plain_operator_takes_no_body() -> None:
    b = GraphBuilder()
    x = b.param("x", ROW)
    with pytest.raises(TypeMismatch, match="tanh takes no bodies, 1 are given"):
        b.node("tanh", [x], name="t", bodies=(functions.twice(),))


def test_passes_reach_bodies_at_any_depth_and_keep_the_meaning() -> None:
    module = Module({"main": CASES["called"]()})
    seen: list[str] = []

    def change(function: Function, note: str) -> Function:
        seen.append(f"{function.name} {note}")
        return function

    first, second = module.with_every(change, "seen").main.nodes
    assert seen == ["twice seen", "outer seen", "main seen"]  # the shared bodies once
    assert first.bodies[0] is second.bodies[0]


@pytest.mark.parametrize("name", CASES)
def test_every_pass_keeps_the_meaning(name: str) -> None:
    module = Module({"main": CASES[name]()})
    given = inputs_of(name)[-1]
    wanted = interpret(module.main, given)
    for _, run in PASSES:
        module = module.with_every(run, "tflm")
        verify_module(module)
        for a, b in zip(interpret(module.main, given), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def _flat() -> Function:
    b = GraphBuilder("flat")
    x = b.param("x", ROW)
    return b.finish([b.op("reshape", [x], ReshapeAttrs((functions.UNITS,)), name="flat")])


@pytest.mark.parametrize(
    ("problem", "bodies"),
    [
        ("takes 2 bodies, 1 are given", (functions.twice(),)),
        ("the two bodies return different types", (functions.twice(), _flat())),
        ("the types of a body's parameters differ", (functions.twice(), functions.branch())),
    ],
)
def test_bodies_of_if_must_fit(problem: str, bodies: tuple[Function, ...]) -> None:
    b = GraphBuilder()
    flag, x = b.param("flag", FLAG), b.param("x", ROW)
    with pytest.raises(TypeMismatch, match=problem):
        b.node("if", [flag, x], name="if", bodies=bodies)


@pytest.mark.parametrize(
    "type_",
    [
        TensorType((1,), "float32"),
        TensorType((2,), "int32"),
        TensorType((1,), "int8", Quant((1.0,), (3,))),
    ],
)
def test_a_condition_is_one_integer(type_: TensorType) -> None:
    b = GraphBuilder()
    flag, x = b.param("flag", type_), b.param("x", ROW)
    with pytest.raises(TypeMismatch, match="not one integer or bool"):
        b.node("if", [flag, x], name="if", bodies=(functions.twice(), functions.squared()))


def test_what_a_loop_carries_keeps_its_type() -> None:
    b = GraphBuilder()
    left, x = b.param("left", FLAG), b.param("x", ROW)
    bodies = functions.countdown(), functions.decode_step()
    with pytest.raises(TypeMismatch, match="the first results and parameters of the body differ"):
        b.node("while", [left, x, x], WhileAttrs(3), name="loop", bodies=bodies)


@pytest.mark.parametrize(
    ("problem", "attrs"),
    [
        ("scan of 4 steps over", ScanAttrs(4, 1, 1)),
        ("has no meaning", ScanAttrs(0, 1, 1)),
        ("too few", ScanAttrs(5, 3, 1)),
        ("the types of a body's parameters differ", ScanAttrs(5, 1, 0)),
    ],
)
def test_a_scan_must_fit_its_body(problem: str, attrs: ScanAttrs) -> None:
    b = GraphBuilder()
    xs = b.param("xs", TensorType((5, *ROW.shape), "float32"))
    start = b.param("start", ROW)
    with pytest.raises(TypeMismatch, match=problem):
        b.node("scan", [start, xs], attrs, name="s", bodies=(functions.recurrent_step(),))


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (
            "line 4: expected another body before this: function b: result",
            "%y: int8[1]\n= call(%x) node 'n'\nbody 'b' { param %p: int8[1] return %p, %q }",
        ),
        (
            "line 3: call takes 1 bodies, 0 are given",
            "%y: int8[1]\n= call(%x) node 'n'",
        ),
    ],
)
def test_a_text_with_a_wrong_body_says_its_line(problem: str, text: str) -> None:
    whole = f"module {{}} function 'main' {{ param %x: int8[1]\n{text}\nreturn %y }}"
    with pytest.raises(ContractError) as caught:
        parse_module(whole, {})
    assert problem.split(":")[0] in str(caught.value)
