"""Operators that write their own `evaluate`, for speed: it is what their loops say, in every bit.

The operators come from the registry, so a new one that no model below has fails the last test.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import test_gru_float
import test_matmul
from operator_models import MODELS
from single_node import save_node

import edgec.ops
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Value
from edgec.graph.operator import all_ops
from edgec.graph.types import TensorType
from edgec.ops.op import Op, lowered_results
from edgec.ops.top_k import TopKAttrs
from edgec.passes.sequence import run_passes
from edgec.runners.samples import generate_inputs

Array = np.ndarray
#: Models with such operators: by their names in `operator_models`, and some of one node.
CHOSEN = (
    "network_float", "network_int16", "operators_int16", "network_dynamic_range", "conv2d",
    "conv2d_wide", "depthwise_conv2d", "dense", "transpose_conv2d", "lstm", "lstm_float",
    "svdf", "transformer", "nonzero", "GRU", "RNN", "matmul", "stored_matmul",
    "pair_coupling", "top_k",
)  # fmt: skip
edgec.ops.load()
#: The loops of an operator of the user's are a call of C: tests/ops/test_custom.py compares these.
WRITTEN = {
    op.name
    for op in all_ops()
    if isinstance(op, Op) and type(op).evaluate is not Op.evaluate and not op.is_foreign
}


def compare(function: Function, seed: int) -> set[str]:
    """Assert that every node with its own `evaluate` gives its loops' bits; their operators."""
    inputs = generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in function.params])
    seen: dict[Value, Array] = {}
    interpret(function, inputs, seen.__setitem__)
    found = set()
    for node in function.nodes:
        if node.op.name not in WRITTEN:
            continue
        assert isinstance(node.op, Op)
        arrays = [v.data if isinstance(v, Constant) else seen[v] for v in node.inputs]
        types = [value.type for value in node.outputs]
        derived = lowered_results(node.op, node.attrs, arrays, node.input_types, types)
        for value, array in zip(node.outputs, derived, strict=True):
            assert array.dtype == seen[value].dtype and array.shape == seen[value].shape
            np.testing.assert_array_equal(
                array.reshape(-1).view(np.uint8), seen[value].reshape(-1).view(np.uint8),
                err_msg=f"{node.op.name} node {node.name}",
            )  # fmt: skip
        found.add(node.op.name)
    return found


def function_of(name: str, folder: Path) -> Function:
    if name == "matmul":
        builder = GraphBuilder()
        x, y = (builder.param(n, TensorType((2, 7, 7), "float32")) for n in "xy")
        return builder.finish([builder.op("matmul", [x, y], name="node")])
    if name == "stored_matmul":
        return run_passes(
            test_matmul.quantized_product(("int8",) * 3, (2, 7, 7), (2, 7, 7)), "onnx"
        )
    if name == "pair_coupling":
        builder = GraphBuilder()
        pairs = builder.param("x", TensorType((3, 6), "float32"))
        return builder.finish([builder.op("pair_coupling", [pairs], name="node")])
    if name == "top_k":
        builder = GraphBuilder()
        rows = builder.param("x", TensorType((3, 40), "float32"))
        return builder.finish([*builder.node("top_k", [rows], TopKAttrs(1, 5), name="n").outputs])
    if name in ("GRU", "RNN"):
        x = np.zeros((test_gru_float.STEPS, test_gru_float.BATCH, test_gru_float.DEPTH), np.float32)
        given = test_gru_float.constants(name)
        save_node(folder / "m.onnx", name, x, given, hidden_size=test_gru_float.SIZE)
        return import_model(folder / "m.onnx").main
    return run_passes(import_model(MODELS[name](folder)).main, "tflm")


def test_written_meanings_are_those_of_the_loops(tmp_path: Path) -> None:
    found: set[str] = set()
    for name in CHOSEN:
        for seed in (1, 2):
            found |= compare(function_of(name, tmp_path), seed)
    assert found == WRITTEN
