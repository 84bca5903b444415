"""Accumulators are proven to fit, or named with what they can be; inputs that reach it exist."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder

from edgec.frontends import import_model
from edgec.frontends.onnx_writer import to_onnx
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import Interpretation, interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.ops import load
from edgec.ops.conv2d import Conv2dAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.ops.lstm import LstmAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.passes.accumulator_ranges import find_overflows
from edgec.passes.sequence import run_passes
from edgec.pipeline import compile_model
from edgec.quantizer.post_training import Recipe, quantize_function
from edgec.targets.core import find_core

Q = Quant((0.1,), (-128,))
W = Quant((0.01,), (0,))
#: Products of 255 and 127 that int32 holds.
FITTING = (2**31 - 1) // (255 * 127)


def dense(depth: int, low: int = -128, high: int = 127) -> Function:
    """x, limited to low..high, times two rows of weights: all 127, and alternating."""
    load()
    b = GraphBuilder()
    x = b.param("x", TensorType((1, depth), "int8", Q))
    limit = RequantizeAttrs((1.0,), Q, low, high, "tflm")
    x = b.op("requantize", [x], limit, name="limited")
    weights = np.full((2, depth), 127, np.int8)
    weights[1, ::2] = -127
    y = b.op(
        "dense", [x, b.constant("w", weights, W), b.constant("b", np.array([5, -5], np.int32))],
        name="dense",
    )  # fmt: skip
    return b.finish([y])


def test_the_longest_sum_that_fits_and_the_next() -> None:
    assert find_overflows(dense(FITTING - 1)) == ()
    (found,) = find_overflows(dense(FITTING + 1))
    assert (found.node, found.dtype, found.channel) == ("dense", "int32", 0)
    assert (found.low, found.high) == (5, 255 * 127 * (FITTING + 1) + 5)
    # An input that does it: the sum wraps.
    function = dense(FITTING + 1)
    (sums,) = interpret(function, [np.full((1, FITTING + 1), 127, np.int8)])
    assert int(sums[0, 0]) == found.high - 2**32


def test_intervals_of_values_before_prove_what_the_dtype_does_not() -> None:
    assert find_overflows(dense(FITTING + 1, high=126)) == ()
    (found,) = find_overflows(dense(2 * FITTING, high=0))
    assert found.high == 128 * 127 * 2 * FITTING + 5


@pytest.mark.parametrize("is_depthwise", [False, True])
def test_the_interval_is_what_the_worst_inputs_give(is_depthwise: bool) -> None:
    load()
    rng = np.random.default_rng(3)
    b = GraphBuilder()
    shape = (1, 3, 3, 4)
    x = b.param("x", TensorType(shape, "int8", Quant((0.1,), (7,))))
    weights = rng.integers(-127, 128, (3, 3, 4) if is_depthwise else (2, 3, 3, 4)).astype(np.int8)
    bias = np.full(4 if is_depthwise else 2, 2**31 - 1000, np.int32)
    name, attrs = ("depthwise_conv2d", DepthwiseConv2dAttrs()) if is_depthwise else (
        "conv2d", Conv2dAttrs()
    )  # fmt: skip
    operands = [x, b.constant("w", weights, W), b.constant("b", bias)]
    function = b.finish([b.op(name, operands, attrs, name="layer")])
    (found,) = find_overflows(function)
    taps = weights[..., found.channel] if is_depthwise else weights[found.channel]
    worst = np.where(taps > 0, 127, -128).astype(np.int64) - 7
    largest = int((worst * taps.astype(np.int64)).sum()) + int(bias[0])
    if is_depthwise:
        other = np.where(weights > 0, 127, -128).astype(np.int64) - 7
        largest = int((other * weights.astype(np.int64)).sum(axis=(0, 1)).max()) + int(bias[0])
    assert found.high == largest > 2**31


def long_dot(path: Path, depth: int) -> Path:
    """A QDQ model of one Gemm with `depth` inputs, all weights the largest."""
    model = OnnxBuilder(0, (1, depth))
    x = model.qdq("x", 0.1, -128)
    parameters = [model.constant(np.float32(0.01), "s"), model.constant(np.int8(0), "z")]
    stored = model.constant(np.full((1, depth), 127, np.int8), "w")
    weights = model.add("DequantizeLinear", [stored, *parameters])
    y = model.add("Gemm", [x, weights], transB=1)
    return model.save(model.qdq(y, 1000.0, 0), path)


def test_a_build_says_where(tmp_path: Path) -> None:
    core = find_core("cortex-m4")
    compiled = compile_model(long_dot(tmp_path / "long.onnx", FITTING + 1), core)
    assert [overflow.dtype for overflow in compiled.overflows] == ["int32"]
    assert compile_model(long_dot(tmp_path / "short.onnx", 300), core).overflows == ()


def test_what_is_quantized_here_never_overflows(tmp_path: Path) -> None:
    """Also where a channel's weights are tiny beside its bias, whose scale is made of theirs."""
    load()
    rng = np.random.default_rng(1)
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 8), "float32"))
    weights = rng.standard_normal((3, 8)).astype(np.float32)
    weights[1] *= 1e-9
    bias = np.array([0.5, 20.0, -0.5], np.float32)
    y = b.op("dense", [x, b.constant("w", weights), b.constant("b", bias)], name="dense")
    function = b.finish([y])
    samples = [[rng.standard_normal((1, 8)).astype(np.float32)] for _ in range(20)]
    made = quantize_function(function, samples, Recipe())
    integers = run_passes(made.quantized.function, "onnx")
    assert find_overflows(integers) == ()
    (sums,) = interpret(integers, samples[0])
    assert abs(float(sums[0, 1]) - 20.0) < 0.2
    path = tmp_path / "m.onnx"
    path.write_bytes(to_onnx(made.quantized.function, producer_version="0").SerializeToString())
    assert find_overflows(run_passes(import_model(path).main, "onnx")) == ()


def test_neither_do_very_many_products() -> None:
    load()
    depth = 2 * FITTING
    b = GraphBuilder()
    x = b.param("x", TensorType((1, depth), "float32"))
    weights = b.constant("w", np.ones((1, depth), np.float32))
    y = b.op("dense", [x, weights, b.constant("b", np.zeros(1, np.float32))], name="dense")
    function = b.finish([y])
    samples = [[np.full((1, depth), v, np.float32)] for v in (0.5, 1.0)]
    made = quantize_function(function, samples, Recipe("minmax", reconstruct=False))
    integers = run_passes(made.quantized.function, "onnx")
    assert find_overflows(integers) == ()
    (sums,) = interpret(integers, samples[1])
    assert float(sums[0, 0]) == pytest.approx(depth, rel=0.02)


def recurrent(depth: int, bias: int, zero_point: int = -128) -> Function:
    """An LSTM of one unit whose gates read `depth` inputs by weights of 127."""
    load()
    b = GraphBuilder()
    x = b.param("x", TensorType((1, depth), "int8", Quant((0.1,), (zero_point,))))
    hidden = b.constant("h", np.zeros((1, 1), np.int8), Q)
    cell = b.constant("c", np.zeros((1, 1), np.int16), Quant((2.0**-11,), (0,)))
    weights = b.constant("w", np.full((4, depth), 127, np.int8), W)
    own = b.constant("r", np.full((4, 1), 127, np.int8), W)
    offsets = b.constant("b", np.array([0, 0, bias, 0], np.int32))
    attrs = LstmAttrs((0.1,) * 4, (0.1,) * 4, Q)
    y, _, _ = b.node("lstm", [x, hidden, cell, weights, own, offsets], attrs, name="lstm").outputs
    return b.finish([y])


def test_the_products_of_an_lstm() -> None:
    room = 2**31 - 1 - 255 * 127 * 100
    assert find_overflows(recurrent(100, room)) == ()
    (found,) = find_overflows(recurrent(100, room + 1))
    assert (found.node, found.dtype, found.channel) == ("lstm", "int32", 2)
    assert (found.low, found.high) == (room + 1, 2**31)
    # The other end of the input, where the zero point is on the other side.
    (found,) = find_overflows(recurrent(100, 255 * 127 * 100 - 2**31 - 1, zero_point=127))
    assert found.low == -(2**31) - 1


def remembering(length: int, bias: int = 0, limit: int = 32767) -> Function:
    """An SVDF of two filters that remember `length` features of at most `limit`, times 32767."""
    load()
    b = GraphBuilder()
    memory_quant = Quant((0.1,), (0,))
    x = b.param("x", TensorType((1, 2), "int8", Quant((0.1,), (0,))))
    zeros, weights = np.zeros(2, np.int32), np.diag([127, -127]).astype(np.int8)
    acc = b.op("dense", [x, b.constant("w", weights, W), b.constant("z", zeros)], name="dense")
    attrs = RequantizeAttrs((100.0,), memory_quant, -limit, limit, "tflm", "int16")
    pushed = b.op("requantize", [acc], attrs, name="feature")
    type_ = TensorType((1, 2 * length), "int16", memory_quant)
    memory = b.state("memory", type_, np.zeros((1, 2 * length), np.int16))
    after = b.op("svdf_push", [memory, pushed], name="push")
    time = b.constant("time", np.full((2, length), 32767, np.int16))
    y = b.op("svdf_time", [after, time, b.constant("b", np.array([bias, 0], np.int32))], name="y")
    b.become(memory, after)
    return b.finish([y])


def test_what_a_filter_over_time_remembers_bounds_its_sums() -> None:
    assert find_overflows(remembering(2)) == ()
    (found,) = find_overflows(remembering(3))
    assert (found.node, found.dtype) == ("y", "int32")
    assert found.high == 3 * 32767 * 32767
    assert find_overflows(remembering(300, limit=200)) == ()
    (found,) = find_overflows(remembering(300, 2**31 - 1 - 300 * 200 * 32767 + 1, limit=200))
    assert (found.channel, found.high) == (0, 2**31)


def test_a_filters_worst_input_wraps() -> None:
    function = remembering(3)
    run = Interpretation(function)
    for _ in range(3):
        (sums, *_) = run.run([np.array([[127, 0]], np.int8)])
    assert int(sums[0, 0]) == 3 * 32767 * 32767 - 2**32


def test_the_svdf_of_a_sample_model_is_proven(shared_dir: Path) -> None:
    path = shared_dir / "models" / "tflm_keyword_scrambled_int8.tflite"
    function = run_passes(import_model(path).main, "tflm")
    assert any(node.op.name == "svdf_time" for node in function.nodes)
    assert find_overflows(function) == ()
