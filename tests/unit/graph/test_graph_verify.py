"""The verifier refuses every kind of malformed function, and says which value or node it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from graph_text_cases import KindAttrs, StubOp, stub_op

from edgec.errors import ContractError
from edgec.graph.ir import Constant, Count, Function, Module, Node, State, Value
from edgec.graph.operator import NoAttrs
from edgec.graph.types import TensorType
from edgec.graph.verify import verify_function, verify_module

T = TensorType((2,), "int8")


@pytest.fixture
def stub() -> Iterator[StubOp]:
    with stub_op() as op:
        yield op


@pytest.fixture
def good(stub: StubOp) -> Function:
    x, y = Value("x", T), Value("y", T)
    w = Constant("w", T, data=np.zeros(2, np.int8))
    node = Node(stub, KindAttrs(types=(T,)), (x, w), (y,), "n")
    zero = Constant("zero", T, data=np.zeros(2, np.int8))
    return Function("main", (x,), (node,), (y,), (State(x, y, zero),))


def with_node(function: Function, **changes: object) -> Function:
    return replace(function, nodes=(replace(function.nodes[0], **changes),))


def test_a_good_function_passes(good: Function) -> None:
    verify_function(good)
    verify_module(Module({"main": good}))


def test_a_module_needs_main(good: Function) -> None:
    with pytest.raises(ContractError, match="no function main"):
        verify_module(Module({"other": good}))


def test_every_function_of_a_module_is_checked(good: Function) -> None:
    bad = replace(good, params=(), states=())
    with pytest.raises(ContractError, match="function main: node 'n' reads undefined %x"):
        verify_module(Module({"main": good, "body": bad}))


def test_names_are_unique(good: Function) -> None:
    (node,) = good.nodes
    with pytest.raises(ContractError, match="two values are named x"):
        verify_function(with_node(good, outputs=(Value("x", T),)))
    second = Constant("w", T, data=np.ones(2, np.int8))
    twice = with_node(good, inputs=(*node.inputs, second))
    with pytest.raises(ContractError, match="two values are named w"):
        verify_function(twice)


def test_uses_come_after_definitions(good: Function) -> None:
    with pytest.raises(ContractError, match="'n' reads undefined %later"):
        verify_function(with_node(good, inputs=(Value("later", T),)))
    # Another value of the same name is another value.
    with pytest.raises(ContractError, match="'n' reads undefined %x"):
        verify_function(with_node(good, inputs=(Value("x", T),)))


def test_attributes_belong_to_the_operator(good: Function) -> None:
    with pytest.raises(ContractError, match="'n' has attributes of another operator"):
        verify_function(with_node(good, attrs=NoAttrs()))


def test_types_are_those_of_the_type_relation(good: Function) -> None:
    other = KindAttrs(types=(TensorType((3,), "int8"),))
    with pytest.raises(ContractError, match=r"'n' \(test.stub\) has another output type") as caught:
        verify_function(with_node(good, attrs=other))
    assert caught.value.details == ("%y: int8[2], by its operator int8[3]",)
    with pytest.raises(ContractError, match="node 'n': thirteen does not fit"):
        verify_function(with_node(good, attrs=KindAttrs(types=(T,), factor=13.0)))


def test_results_are_defined(good: Function) -> None:
    with pytest.raises(ContractError, match="result %gone is undefined"):
        verify_function(replace(good, results=(Value("gone", T),), states=()))


def test_states_are_the_last_parameters_and_results_and_keep_their_type(good: Function) -> None:
    (x,), (y,) = good.params, good.results
    (state,) = good.states
    with pytest.raises(ContractError, match="the last parameters are not its states"):
        verify_function(replace(good, states=(replace(state, before=y),)))
    with pytest.raises(ContractError, match="the last results are not its states"):
        verify_function(replace(good, states=(replace(state, after=x),)))
    wide = Value("x", TensorType((4,), "int8"))
    widened = replace(with_node(good, inputs=()), params=(wide,))
    with pytest.raises(ContractError, match="state %x changes its type to int8"):
        verify_function(replace(widened, states=(replace(state, before=wide),)))
    floats = Constant("half", TensorType((2,), "float32"), data=np.zeros(2, np.float32))
    with pytest.raises(ContractError, match=r"state %x is int8\[2\], its initial value float32"):
        verify_function(replace(good, states=(replace(state, initial=floats),)))


def with_body(body: Function) -> Function:
    """A function whose only node has this body."""
    x = Value("x", T)
    node = Node(Holder(), NoAttrs(), (x,), (Value("y", T),), "n", bodies=(body,))
    return Function("main", (x,), (node,), node.outputs)


class Holder(StubOp):
    """An operator with one body, which gives what its input is."""

    name = "holder"
    attrs_class = NoAttrs

    def infer_bodies(self, attrs, bodies, *inputs):  # type: ignore[no-untyped-def]
        return inputs


def test_bodies_are_functions_without_states(good: Function) -> None:
    plain = replace(good, name="body", states=())
    verify_function(with_body(plain))
    with pytest.raises(ContractError, match="function body: a body has states"):
        verify_function(with_body(replace(good, name="body")))
    with pytest.raises(ContractError, match="function body: node 'n' reads undefined %x"):
        verify_function(with_body(replace(plain, params=())))


def test_another_number_of_outputs_is_another_type(good: Function) -> None:
    for outputs in ((), (Value("y", T), Value("z", T))):
        with pytest.raises(ContractError, match="has another output type"):
            verify_function(with_node(good, outputs=outputs))


def test_counts_name_axes_of_outputs_and_come_last() -> None:
    x, n = Value("x", TensorType((2, 3), "int8")), Value("n", TensorType((1,), "int32"))

    def counting(count: Count, number: Value = n) -> Function:
        return Function("main", (x, number), (), (x, number), counts=(count,))

    for axis in (0, 1):
        verify_function(counting(Count(0, axis, 1)))
    for output, axis in ((1, 0), (-1, 0), (0, 2), (0, -1)):
        with pytest.raises(ContractError, match="is of no axis of an output"):
            verify_function(counting(Count(output, axis, 1)))
    for number in (0, 2):
        with pytest.raises(ContractError, match="is not an int32 after the other outputs"):
            verify_function(counting(Count(0, 0, number)))
    for wrong in (TensorType((1,), "int64"), TensorType((2,), "int32")):
        with pytest.raises(ContractError, match="is not an int32 after the other outputs"):
            verify_function(counting(Count(0, 0, 1), Value("n", wrong)))
