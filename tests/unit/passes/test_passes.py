"""Every pass keeps the meaning, on random ONNX networks; the integer graph equals ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import float_moves, float_network, quantized_network

from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.graph.verify import verify_function
from edgec.ops.dense import Dense
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import TransposeAttrs
from edgec.passes.fuse_qdq import fuse_qdq
from edgec.passes.simplify_views import simplify_views
from edgec.passes.sink_transposes import sink_transposes

SEEDS = range(12)


def random_input(function, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1.5, p.type.shape).astype(np.float32) for p in function.params]


@pytest.mark.parametrize("seed", SEEDS)
def test_sink_transposes_keeps_the_meaning_of_float_networks(seed: int, tmp_path: Path) -> None:
    function = import_model(float_network(seed, tmp_path / "m.onnx")).main
    passed = simplify_views(sink_transposes(function))
    verify_function(passed)
    inputs = random_input(function, seed)
    for before, after in zip(interpret(function, inputs), interpret(passed, inputs), strict=True):
        # A dense over a flattened image sums in the order of the image's new layout.
        np.testing.assert_allclose(before, after, rtol=0, atol=1e-6 * np.abs(before).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_no_transpose_is_left_inside(seed: int, tmp_path: Path) -> None:
    function = import_model(float_network(seed, tmp_path / "m.onnx")).main
    passed = simplify_views(sink_transposes(function))
    left = [node for node in passed.nodes if node.op.name == "transpose"]
    for node in left:  # only at the edges: the file's own layout of inputs and outputs
        assert node.inputs[0] in passed.params or node.output in passed.results


@pytest.mark.parametrize("seed", SEEDS)
def test_transposes_sink_through_what_has_axes(seed: int, tmp_path: Path) -> None:
    function = import_model(float_moves(seed, tmp_path / "m.onnx")).main
    passed = simplify_views(sink_transposes(function))
    verify_function(passed)
    for node in passed.nodes:
        if node.op.name == "transpose":
            assert node.inputs[0] in passed.params or node.output in passed.results
    inputs = random_input(function, seed)
    (before,), (after,) = interpret(function, inputs), interpret(passed, inputs)
    np.testing.assert_allclose(before, after, rtol=0, atol=2e-6 * np.abs(before).max())


@pytest.mark.parametrize("rows", [1, 6, 24])
def test_rows_of_a_dense_keep_their_transpose(rows: int) -> None:
    b = GraphBuilder()
    rng = np.random.default_rng(rows)
    depth = 24 // rows
    x = b.param("x", TensorType((1, 2, 3, 4), "float32"))
    turned = b.op("transpose", [x], TransposeAttrs((0, 2, 3, 1)), name="turned")
    flat = b.op("reshape", [turned], ReshapeAttrs((rows, depth)), name="flat")
    weights = rng.normal(size=(5, depth)).astype(np.float32)
    w, bias = b.constant("w", weights), b.constant("b", np.zeros(5, np.float32))
    function = b.finish([b.op(Dense(), [flat, w, bias], name="out")])
    passed = sink_transposes(function)
    verify_function(passed)
    is_left = any(node.op.name == "transpose" for node in passed.nodes)
    assert is_left == (rows > 1)
    inputs = random_input(function, rows)
    np.testing.assert_allclose(
        interpret(passed, inputs)[0], interpret(function, inputs)[0], atol=1e-5
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_integer_graph_equals_onnx_runtime_in_every_bit(seed: int, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    path = quantized_network(seed, tmp_path / "m.onnx")
    module = import_model(path)
    integer = simplify_views(fuse_qdq(sink_transposes(module.main)))
    verify_function(integer)
    assert not [n for n in integer.nodes if n.op.name == "conv2d" and n.output.type.is_float]
    oracle = open_oracle(path)
    for case in range(8):
        inputs = random_input(module.main, 100 * seed + case)
        expected = oracle.run(inputs, tensors=True)
        seen = {}
        results = interpret(integer, inputs, seen.__setitem__)
        np.testing.assert_array_equal(results[0], expected.outputs[0])
        compared = 0
        for value, array in seen.items():
            if value.origin and value.type.dtype == "int8":
                source = expected.tensors[value.origin.tensor]
                np.testing.assert_array_equal(value.origin.to_source(array), source)
                compared += 1
        assert compared >= 5


def test_fuse_qdq_leaves_what_it_does_not_know_in_float(tmp_path: Path) -> None:
    function = import_model(float_network(0, tmp_path / "m.onnx")).main
    passed = fuse_qdq(sink_transposes(function))
    assert all(n.op.name not in ("requantize", "quantize") for n in passed.nodes)
