"""Convolutions and dense in float32: near ONNX Runtime, and every nest in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.numerics.ordered_sum import ordered_products, without_negative_zeros

#: Largest difference from ONNX Runtime, which sums in another order.
TOLERANCE = 2e-6


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("seed", range(6))
def test_convolutions(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    depth, outputs = rng.integers(1, [6, 9]).tolist()
    stride, dilation = rng.integers(1, 3, 2).tolist()
    pads = rng.integers(0, 2, 4).tolist()
    x = normal(rng, 1, depth, 7, 6)
    constants = {"w": normal(rng, outputs, depth, 3, 2), "b": normal(rng, outputs)}
    path = save_node(
        tmp_path / "m.onnx", "Conv", x, constants,
        strides=[stride] * 2, dilations=[dilation] * 2, pads=pads,
    )  # fmt: skip
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize("seed", range(6))
def test_depthwise_convolutions(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    channels, each, stride = rng.integers(1, [6, 3, 3]).tolist()
    x = normal(rng, 1, channels, 6, 7)
    constants = {"w": normal(rng, channels * each, 1, 3, 3), "b": normal(rng, channels * each)}
    path = save_node(
        tmp_path / "m.onnx", "Conv", x, constants,
        group=channels, strides=[stride] * 2, pads=rng.integers(0, 2, 4).tolist(),
    )  # fmt: skip
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize(("outputs", "depth"), [(1, 1), (4, 9), (7, 64), (12, 30)])
def test_dense(outputs: int, depth: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(outputs)
    x = normal(rng, 3, depth)
    constants = {"w": normal(rng, outputs, depth), "b": normal(rng, outputs)}
    path = save_node(tmp_path / "m.onnx", "Gemm", x, constants, transB=1)
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize("activation", ["NONE", "RELU", "RELU6", "RELU_N1_TO_1"])
def test_a_tflite_activation_becomes_a_clip(activation: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite_dense(np.eye(4, dtype=np.float32) * 5, activation))
    function = import_model(path).main
    x = np.array([[-2.0, -0.1, 0.1, 2.0]], np.float32)
    (y,) = interpret(function, [x])
    low, high = {"NONE": (-99, 99), "RELU": (0, 99), "RELU6": (0, 6), "RELU_N1_TO_1": (-1, 1)}[
        activation
    ]
    np.testing.assert_array_equal(y, np.clip(x * np.float32(5), low, high))
    check_nests(function, [x])


def test_weights_must_be_finite(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite_dense(np.full((4, 4), np.inf, np.float32)))
    with pytest.raises(ImportFailed) as caught:
        import_model(path)
    assert "the weights w hold an infinity or a NaN" in "\n".join(caught.value.details)


def tflite_dense(weights: np.ndarray, activation: str = "NONE") -> bytes:
    model = TfliteBuilder()
    outputs, depth = weights.shape
    x, y = model.tensor("x", (1, depth), "float32"), model.tensor("y", (1, outputs), "float32")
    w = model.tensor("w", weights.shape, "float32", data=weights)
    kinds = {"NONE": 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}
    model.operator(
        "FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions",
        FusedActivationFunction=kinds[activation],
    )  # fmt: skip
    return model.build([x], [y])


@pytest.mark.parametrize("shape", [(1, 5, 3), (40, 3, 2), (9000, 11, 9)])
def test_sums_are_in_order(shape: tuple[int, int, int]) -> None:
    pixels, depth, outputs = shape
    rng = np.random.default_rng(1)
    x, weights, bias = normal(rng, pixels, depth), normal(rng, outputs, depth), normal(rng, outputs)
    found = ordered_products(x, weights, bias)
    for p, o in ((0, 0), (pixels - 1, outputs - 1), (pixels // 2, outputs // 2)):
        total = bias[o]
        for k in range(depth):
            total = np.float32(total + np.float32(x[p, k] * weights[o, k]))
        assert found[p, o] == total


def test_buffers_of_numpy_are_afterwards_as_they_were() -> None:
    rng = np.random.default_rng(0)
    before = np.setbufsize(4096)
    try:
        ordered_products(normal(rng, 400, 3), normal(rng, 7, 3), normal(rng, 7))
        with pytest.raises(ValueError):
            ordered_products(normal(rng, 400, 3), normal(rng, 7, 4), normal(rng, 7))
        assert np.getbufsize() == 4096
    finally:
        np.setbufsize(before)


def test_a_sum_is_never_a_negative_zero() -> None:
    bias = np.array([-0.0, 0.0, -1.0], np.float32)
    assert not np.signbit(without_negative_zeros(bias)[:2]).any()
    zero = np.full((1, 1), -0.0, np.float32)
    assert not np.signbit(ordered_products(zero, np.ones((3, 1), np.float32), bias))[0, :2].any()


@pytest.mark.parametrize("pads", [[0, 0], [2, 1]], ids=str)
def test_convolutions_over_one_axis(pads: list[int], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    x = normal(rng, 1, 3, 17)
    constants = {"w": normal(rng, 4, 3, 5), "b": normal(rng, 4)}
    path = save_node(
        tmp_path / "m.onnx", "Conv", x, constants, kernel_shape=[5], strides=[2], pads=pads
    )
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize("shape", [(3, 9), (2, 3, 9), (9,)], ids=str)
def test_matmul(shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    x = normal(rng, *shape)
    path = save_node(tmp_path / "m.onnx", "MatMul", x, {"w": normal(rng, 9, 4)})
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])
