"""narrow_accumulators: int32 where proven, the same results, int64 where an input needs it."""

from __future__ import annotations

import numpy as np
import pytest

from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.graph.verify import verify_function
from edgec.ops import load
from edgec.ops.requantize import RequantizeAttrs
from edgec.passes.narrow_accumulators import accumulator_bound, narrow_accumulators


def dense(weights: np.ndarray, bias: np.ndarray) -> Function:
    """x [3, K] int16 times the weights [O, K], rescaled to int16."""
    load()
    builder = GraphBuilder()
    quant = Quant((0.01,), (0,))
    x = builder.param("x", TensorType((3, weights.shape[1]), "int16", quant))
    w = builder.constant("w", weights.astype(np.int8), Quant((0.01,), (0,)))
    b = builder.constant("b", bias.astype(np.int64))
    acc = builder.op("dense", [x, w, b], name="dense")
    attrs = RequantizeAttrs((1e-4,), quant, -32768, 32767, "tflm16", "int16")
    return builder.finish([builder.op("requantize", [acc], attrs, name="requantize")])


def accumulators(function: Function) -> str:
    return function.nodes[0].output.type.dtype


def extremes(weights: np.ndarray) -> np.ndarray:
    """Inputs with the largest and smallest sum of the first output, and random ones."""
    rng = np.random.default_rng(1)
    most = np.where(weights[0] > 0, 32767, -32768)
    least = np.where(weights[0] > 0, -32768, 32767)
    return np.stack([most, least, rng.integers(-32768, 32768, weights.shape[1])]).astype(np.int16)


@pytest.mark.parametrize("depth", [16, 516, 517])
def test_narrow_where_no_input_can_overflow(depth: int) -> None:
    weights = np.full((2, depth), -127)
    weights[1] = 1
    function = dense(weights, np.array([-500, 7]))
    narrow = narrow_accumulators(function)
    verify_function(narrow)
    assert accumulators(function) == "int64"
    assert accumulators(narrow) == ("int32" if depth < 517 else "int64")
    x = extremes(weights)
    for before, after in zip(interpret(function, [x]), interpret(narrow, [x]), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_bound_is_tight() -> None:
    weights = np.array([[100, -100, 3], [1, 0, 0]])
    function = dense(weights, np.array([-9, 0]))
    assert accumulator_bound(function.nodes[0]) == 203 * 32768 + 9
    assert accumulator_bound(function.nodes[1]) is None


@pytest.mark.parametrize("bias", [2**31, -(2**31), 2**62])
def test_a_large_bias_stays_in_int64(bias: int) -> None:
    function = narrow_accumulators(dense(np.ones((1, 4)), np.array([bias])))
    assert accumulators(function) == "int64"
