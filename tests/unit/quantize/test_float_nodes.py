"""What stays in float is named, node by node, with why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from small_network import images, network

import edgec
from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.ops.cumulate import CumulateAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function

ops.load()
PLAIN = Recipe("minmax", equalize="never", reconstruct=False)


def reasons(made: PostTraining) -> dict[str, str]:
    """The reason of each node, and that there are just those with a float operand or result."""
    found = made.float_nodes()
    wanted = [
        node.name
        for node in made.integers.nodes
        if any(v.type.is_float for v in (*node.activations, *node.outputs))
    ]
    assert [node.name for node in found] == wanted
    return {node.name: node.reason for node in found}


def odd_operators() -> Function:
    """A dense layer, two operators without an integer form, and what reads them."""
    rng = np.random.default_rng(3)
    b = GraphBuilder()

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.4, shape).astype(np.float32)

    x = b.param("x", TensorType((3, 8), "float32"))
    y = b.op("dense", [x, b.constant("w", normal(8, 8)), b.constant("b", normal(8))], name="dense")
    sums = b.op("cumulate", [y], CumulateAttrs(1, is_product=True), name="sums")
    scaled = b.op("mul", [sums, b.constant("c", normal(8))], MulAttrs(), name="scaled")
    power = b.op("atan2", [y, scaled], name="angle")
    shares = b.op("softmax", [y], SoftmaxAttrs(), name="shares")
    return b.finish([power, shares])


def test_edges_options_and_operators() -> None:
    samples = [[np.random.default_rng(n).normal(size=(3, 8)).astype(np.float32)] for n in range(4)]
    assert reasons(quantize_function(odd_operators(), samples, PLAIN)) == {
        "x.q": "it reads an input in float",
        "dense.dq": "sums, angle, shares read floats",
        "sums": "cumulate has no integer form",
        "scaled": "its inputs are in float, and the next operator rounds once",
        "angle": "atan2 has no integer form for several computed inputs",
        "shares": "its result is an output, and the last bits of it matter",
    }


@pytest.mark.parametrize("options", [{"activations": "float32"}, {"weights": "float16"}])
def test_of_a_model_that_stays_in_float_it_is_all(options: dict[str, str]) -> None:
    found = reasons(quantize_function(network(), images(3), Recipe("minmax", **options)))
    assert set(found.values()) == {"values stay in float, as the options say"}


def test_layers_that_the_user_keeps() -> None:
    found = reasons(quantize_function(network(), images(3), Recipe("minmax", keep_float=("second",),
                                      equalize="never")))  # fmt: skip
    assert found["second"] == "the options keep it in float"
    assert found["relu2"] == "its inputs are in float"
    assert found["x.nhwc"] == "it moves floats at the model's edge"
    assert {"first", "third", "fourth"}.isdisjoint(found)


def test_an_output_that_is_a_constant_stays_one(tmp_path: Path) -> None:
    text = """
    <ir_version: 9, opset_import: ["":17]>
    g (float[3,4] x) => (int64[2] shape, float[3,4] y) {
        shape = Shape(x)
        y = Relu(x)
    }
    """
    path, made = tmp_path / "m.onnx", tmp_path / "q.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    samples = [[np.random.default_rng(n).normal(size=(3, 4)).astype(np.float32)] for n in range(8)]
    edgec.quantize(path, samples, output=made)
    assert not edgec.verify(made).beyond
