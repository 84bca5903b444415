"""TOSA text: IREE computes of it what the interpreter computes, integers in every bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from iree_runs import assert_tosa_is_the_same
from onnx_builder import float_network, quantized_network
from tflite_builder import TfliteBuilder

from edgec import ops
from edgec.errors import EdgecError
from edgec.exporters.tosa.function import tosa_text
from edgec.exporters.tosa.steps import find_steps
from edgec.exporters.tosa.text import CannotSay, TosaText
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, State
from edgec.graph.operator import get_op
from edgec.graph.types import Quant, TensorType
from edgec.options import Options
from edgec.pipeline import read_model, simplified

ops.load()


def passed(path: Path) -> Function:
    options = Options()
    return simplified(read_model(path, options), options).main


def tflite_network(path: Path) -> Path:
    """A small residual network: strides that leave rows unread, padding of one side, a softmax."""
    rng, model = np.random.default_rng(7), TfliteBuilder()
    same = {"Padding": 0, "StrideH": 1, "StrideW": 1}

    def value(name: str, *shape: int, scale: float = 0.05, zero: int = -3) -> int:
        return model.tensor(name, shape, "int8", scale=scale, zero_point=zero)

    def weights(name: str, *shape: int, axis: int) -> tuple[int, int]:
        count = shape[axis]
        scales = rng.uniform(0.002, 0.01, count)
        data = rng.integers(-127, 128, shape).astype(np.int8)
        bias = rng.integers(-500, 500, count).astype(np.int32)
        return (
            model.tensor(f"{name}.w", shape, "int8", scale=scales, zero_point=[0] * count,
                         axis=axis, data=data),
            model.tensor(f"{name}.b", (count,), "int32", scale=scales * 0.05,
                         zero_point=[0] * count, data=bias),
        )  # fmt: skip

    x = value("x", 1, 9, 8, 3)
    first = value("first", 1, 5, 4, 8)
    model.operator("CONV_2D", [x, *weights("conv", 8, 3, 3, 3, axis=0)], [first],
                   "Conv2DOptions", **{**same, "StrideH": 2, "StrideW": 2})  # fmt: skip
    second = value("second", 1, 5, 4, 8, scale=0.07, zero=9)
    model.operator("DEPTHWISE_CONV_2D", [first, *weights("deep", 1, 3, 3, 8, axis=3)], [second],
                   "DepthwiseConv2DOptions", **same, DepthMultiplier=1)  # fmt: skip
    total = value("total", 1, 5, 4, 8, scale=0.06)
    model.operator("ADD", [first, second], [total], "AddOptions", FusedActivationFunction=1)
    pooled = value("pooled", 1, 2, 2, 8, scale=0.06)
    model.operator("MAX_POOL_2D", [total], [pooled], "Pool2DOptions", Padding=1,
                   StrideH=2, StrideW=2, FilterHeight=2, FilterWidth=2)  # fmt: skip
    mean = value("mean", 1, 1, 1, 8, scale=0.06)
    model.operator("AVERAGE_POOL_2D", [pooled], [mean], "Pool2DOptions", Padding=1,
                   StrideH=2, StrideW=2, FilterHeight=2, FilterWidth=2)  # fmt: skip
    flat = value("flat", 1, 8, scale=0.06)
    model.operator("RESHAPE", [mean], [flat])
    scores = value("scores", 1, 5, scale=0.1)
    model.operator("FULLY_CONNECTED", [flat, *weights("dense", 5, 8, axis=0)], [scores],
                   "FullyConnectedOptions")  # fmt: skip
    shares = value("shares", 1, 5, scale=1 / 256, zero=-128)
    model.operator("SOFTMAX", [scores], [shares], "SoftmaxOptions", Beta=1.0)
    path.write_bytes(model.build([x], [shares, second]))
    return path


def test_a_network_of_tflite(tmp_path: Path) -> None:
    assert_tosa_is_the_same(passed(tflite_network(tmp_path / "model.tflite")))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full),
                                  pytest.param(3, marks=pytest.mark.full)])  # fmt: skip
def test_a_qdq_network_of_onnx(seed: int, tmp_path: Path) -> None:
    assert_tosa_is_the_same(passed(quantized_network(seed, tmp_path / "model.onnx")))


def test_a_float_network(tmp_path: Path) -> None:
    assert_tosa_is_the_same(passed(float_network(1, tmp_path / "model.onnx")), tolerance=1e-5)


@pytest.mark.parametrize("name", [
    "mlperf_kws_dscnn_int8.tflite", "mlperf_ad_autoencoder_int8.tflite",
    "mlperf_ic_resnet8_int8.tflite",
    pytest.param("mlperf_kws_dscnn_qdq.onnx", marks=pytest.mark.full),
    pytest.param("tflm_micro_speech_int8.tflite", marks=pytest.mark.full),
    pytest.param("tinymaix_cifar10_int8.tflite", marks=pytest.mark.full),
])  # fmt: skip
def test_sample_models(name: str, sample_model: Callable[[str], Path]) -> None:
    function = passed(sample_model(name))
    text = tosa_text(function, name)
    if name.endswith("_int8.tflite"):
        assert "DOUBLE_ROUND" in text and "scale32 = true" in text
    assert_tosa_is_the_same(function, tolerance=0 if name.endswith("tflite") else 1e-6)


def unary(op: str, x: TensorType, **attrs: object) -> Function:
    builder = GraphBuilder("main")
    operator = get_op(op)
    given = operator.attrs_class(**attrs)
    value = builder.op(op, [builder.param("x", x)], given, name="layer")
    return builder.finish([value])


def test_floats_become_integers_where_the_quantizer_says() -> None:
    """A scale whose reciprocal is no float: products with it round otherwise."""
    scale = float(np.float32(0.1))
    function = unary("quantize", TensorType((1, 4000), "float32"),
                     output=Quant((scale,), (3,)), dtype="int8")  # fmt: skip
    halves = (np.arange(-2000, 2000, dtype=np.float32) / 16 * np.float32(scale)).reshape(1, -1)
    near = np.nextafter(halves, np.float32(np.inf))
    assert_tosa_is_the_same(function, samples=[[halves], [near], [-near]])


def test_what_does_not_rise_has_no_steps() -> None:
    with pytest.raises(CannotSay, match="do not rise"):
        find_steps(lambda x: np.where(np.abs(x) > 1, 5, 2))


def test_everything_that_cannot_be_said_is_refused_at_once() -> None:
    builder = GraphBuilder("main")
    x = builder.param("x", TensorType((1, 4), "float64"))
    y = builder.op("exp", [x], name="first")
    z = builder.op("log", [y], name="second")
    with pytest.raises(EdgecError) as refused:
        tosa_text(builder.finish([z]), "model.onnx")
    assert refused.value.message == "model.onnx cannot be written as TOSA"
    assert refused.value.details == (
        "input x: values of float64", "exp first: values of float64",
        "log second: values of float64",
    )  # fmt: skip


def test_integers_that_hang_on_the_last_bit_of_a_float_are_refused() -> None:
    scale = float(np.float32(0.1))
    function = unary("quantize", TensorType((1, 4), "float32"), output=Quant((scale,), (0,)),
                     dtype="int16")  # fmt: skip
    with pytest.raises(EdgecError, match="quantize layer: integers that depend on the last bit"):
        tosa_text(function)
    # A power of two has an exact reciprocal.
    exact = unary("quantize", TensorType((1, 4), "float32"), output=Quant((0.25,), (0,)),
                  dtype="int16")  # fmt: skip
    assert '"tosa.mul"' in tosa_text(exact)


def test_states_are_inputs_and_outputs() -> None:
    builder, type_ = GraphBuilder("main"), TensorType((1, 4), "float32")
    x = builder.param("x", type_)
    zeros = builder.constant("zeros", np.zeros((1, 4), np.float32))
    before = builder.param("before", type_)
    total = builder.op("add", [x, before], get_op("add").attrs_class(), name="total")
    function = builder.finish([total, total], (State(before, total, zeros),))
    one = "tensor<1x4xf32>"
    assert f"@main(%x0: {one}, %x1: {one}) -> ({one}, {one})" in tosa_text(function)


def test_constants_are_what_they_hold() -> None:
    out = TosaText()
    for data in (
        np.array([[1, -2], [3, 4]], np.int8), np.zeros((2, 2), np.float32),
        np.array([True, False]), np.arange(100, dtype=np.int32), np.array(7, np.int32),
    ):  # fmt: skip
        out.constant(data)
    out.constant(np.array([[1, -2], [3, 4]], np.int8))
    words = [line.split("dense<")[1].split("> :")[0] for line in out.lines]
    assert words[:3] == ["[[1, -2], [3, 4]]", '"0x00000000"', "[true, false]"]
    assert words[3].startswith('"0x000000000100000002000000') and words[4] == "7"
    assert len(words) == 5
