"""fold_constants: nodes on constants alone are computed, and nothing else changes."""

from __future__ import annotations

import numpy as np

import edgec.ops.dense  # noqa: F401  registers what is named here
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Module
from edgec.graph.types import Quant, TensorType
from edgec.graph.verify import verify_function
from edgec.ops.add import AddAttrs
from edgec.ops.transpose import TransposeAttrs
from edgec.options import Options
from edgec.passes.fold_constants import fold_constants
from edgec.pipeline import compile_module
from edgec.targets.core import host_core


def test_a_chain_of_constants_is_computed() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((3, 2), "float32"))
    stored = builder.constant(
        "w", np.arange(6, dtype=np.int8).reshape(2, 3), Quant((0.5, 2.0), (0, 0), axis=0)
    )
    real = builder.op("dequantize", [stored], name="real")
    turned = builder.op("transpose", [real], TransposeAttrs((1, 0)), name="turned")
    y = builder.op("add", [x, turned], AddAttrs(), name="y")
    function = builder.finish([y])
    folded = fold_constants(function)
    verify_function(folded)
    assert [node.op.name for node in folded.nodes] == ["add"]
    given = [np.ones((3, 2), np.float32)]
    np.testing.assert_array_equal(interpret(folded, given)[0], interpret(function, given)[0])


def test_a_constant_result_that_is_read_inside_is_known_there() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((2, 3), "float32"))
    stored = builder.constant("w", np.arange(6, dtype=np.int8).reshape(2, 3), Quant((0.5,), (1,)))
    y = builder.op("dequantize", [stored], name="y")
    twice = builder.op("add", [y, y], AddAttrs(), name="twice")
    z = builder.op("add", [x, twice], AddAttrs(), name="z")
    function = builder.finish([y, z])
    folded = fold_constants(function)
    verify_function(folded)
    assert [node.op.name for node in folded.nodes] == ["copy", "add"]
    given = [np.ones((2, 3), np.float32)]
    for before, after in zip(interpret(function, given), interpret(folded, given), strict=True):
        np.testing.assert_array_equal(before, after)


def test_weights_that_are_a_result_stay_constants_of_their_layer() -> None:
    """They were called computed, which no layer takes."""
    builder = GraphBuilder()
    x = builder.param("x", TensorType((1, 3), "float32"))
    stored = builder.constant("w", np.arange(6, dtype=np.int8).reshape(2, 3), Quant((0.5,), (1,)))
    weights = builder.op("dequantize", [stored], name="weights")
    bias = builder.constant("b", np.ones(2, np.float32))
    y = builder.op("dense", [x, weights, bias], name="y")
    function = builder.finish([y, weights])
    compiled = compile_module(Module({"main": function}), host_core(), Options())
    given = [np.ones((1, 3), np.float32)]
    found = interpret(compiled.module.main, given)
    for before, after in zip(interpret(function, given), found, strict=True):
        np.testing.assert_array_equal(before, after)


def test_a_constant_result_is_a_copy_of_it() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((2,), "float32"))
    stored = builder.constant("w", np.arange(6, dtype=np.int8).reshape(2, 3), Quant((0.5,), (1,)))
    y = builder.op("dequantize", [stored], name="y")
    z = builder.op("add", [x, x], AddAttrs(), name="z")
    function = builder.finish([y, z])
    folded = fold_constants(function)
    verify_function(folded)
    assert [node.op.name for node in folded.nodes] == ["copy", "add"]
    assert folded.results[0].name == y.name
    given = [np.ones(2, np.float32)]
    for before, after in zip(interpret(function, given), interpret(folded, given), strict=True):
        np.testing.assert_array_equal(before, after)
    module = Module({"main": function}, source="constant", format="onnx")
    compiled = compile_module(module, host_core(), Options())
    np.testing.assert_array_equal(compiled.reference(given)[0], interpret(function, given)[0])
