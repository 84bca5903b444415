"""Which operators of a float function become operators on integers."""

from __future__ import annotations

import numpy as np

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.arg_reduce import ArgReduceAttrs
from edgec.ops.cumulate import CumulateAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.quantizer.integer_nodes import IntegerNodes

ops.load()


def test_floats_with_constants_stay_floats() -> None:
    b = GraphBuilder()
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    x = b.param("x", TensorType((3, 8), "float32"))
    y = b.op("mul", [x, b.constant("c0", normal(8))], MulAttrs(), name="of_the_input")
    y = b.op("dense", [y, b.constant("w0", normal(8, 8)), b.constant("b0", normal(8))], name="one")
    y = b.op("add", [y, b.constant("c1", normal(3, 8))], AddAttrs(), name="of_integers")
    kept = b.op("cumulate", [y], CumulateAttrs(1, is_product=True), name="sums")
    z = b.op("mul", [kept, b.constant("c2", normal(8))], MulAttrs(), name="of_floats")
    z = b.op("add", [z, b.constant("c3", normal(8))], AddAttrs(), name="of_floats_too")
    z = b.op("dense", [z, b.constant("w1", normal(8, 8)), b.constant("b1", normal(8))], name="two")
    z = b.op("add", [z, kept], AddAttrs(), name="of_both")
    integer_nodes = IntegerNodes(b.finish([z]))
    found = [node.name for node in integer_nodes.function.nodes if integer_nodes.is_integer(node)]
    assert found == ["of_the_input", "one", "of_integers", "two", "of_both"]


def test_nothing_is_rounded_for_an_order_alone() -> None:
    """Places of the largest input, or of shares that stay in float, are found among floats."""
    b = GraphBuilder()
    x = b.param("x", TensorType((3, 8), "float32"))
    weights = b.constant("w", np.eye(8, dtype=np.float32))
    y = b.op("dense", [x, weights, b.constant("b", np.zeros(8, np.float32))], name="dense")
    shares = b.op("softmax", [y], SoftmaxAttrs(), name="shares")
    found = [b.op("arg_reduce", [v], ArgReduceAttrs(1), name=v.name) for v in (x, y, shares)]
    integer_nodes = IntegerNodes(b.finish(found))
    places = [n for n in integer_nodes.function.nodes if n.op.name == "arg_reduce"]
    assert [integer_nodes.is_integer(node) for node in places] == [False, True, False]
    assert [integer_nodes.refusal(node) for node in places] == [
        "it moves floats at the model's edge", None, "its inputs are in float",
    ]  # fmt: skip
    assert integer_nodes.stored_values() == [x, y]


def test_a_sum_of_two_computes_integers() -> None:
    """Shares that are added are stored for the sum; those that a function takes alone are not."""
    b = GraphBuilder()
    x = b.param("x", TensorType((3, 8), "float32"))
    weights, bias = b.constant("w", np.eye(8, dtype=np.float32)), b.constant("b", np.zeros(8, "f4"))
    first, second = (
        b.op("softmax", [b.op("dense", [x, weights, bias], name=f"dense{n}")], SoftmaxAttrs(),
             name=f"shares{n}")
        for n in range(2)
    )  # fmt: skip
    added = b.op("add", [first, second], AddAttrs(), name="added")
    integer_nodes = IntegerNodes(b.finish([added, b.op("abs", [second], name="alone")]))
    assert all(map(integer_nodes.is_integer, integer_nodes.function.nodes[:5]))
    assert not integer_nodes.is_integer(integer_nodes.function.nodes[5])
