"""Pools of floats: near ONNX Runtime and TFLite Micro, every nest in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from float_cases import assert_near_tflite, float_values
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

#: Largest difference as a part of the largest magnitude: sums have another order.
TOLERANCE = 1e-6


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1]], ids=str)
@pytest.mark.parametrize("stride", [1, 2])
def test_onnx(kind: str, pads: list[int], stride: int, tmp_path: Path) -> None:
    x = float_values((1, 3, 7, 6))
    path = save_node(
        tmp_path / "m.onnx", kind, x, {}, kernel_shape=[3, 2], strides=[stride] * 2, pads=pads
    )
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


def test_global_average(tmp_path: Path) -> None:
    x = float_values((1, 5, 7, 6))
    path = save_node(tmp_path / "m.onnx", "GlobalAveragePool", x, {})
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize("kind", ["MAX_POOL_2D", "AVERAGE_POOL_2D"])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("activation", [0, 1])
def test_tflite(kind: str, padding: int, activation: int, tmp_path: Path) -> None:
    model = TfliteBuilder()
    height, width = (4, 3) if padding == 0 else (3, 3)
    x = model.tensor("x", (1, 7, 6, 3), "float32")
    y = model.tensor("y", (1, height, width, 3), "float32")
    model.operator(
        kind, [x], [y], "Pool2DOptions", Padding=padding, StrideW=2, StrideH=2,
        FilterWidth=2, FilterHeight=3, FusedActivationFunction=activation,
    )  # fmt: skip
    (tmp_path / "m.tflite").write_bytes(model.build([x], [y]))
    values = float_values((1, 7, 6, 3))
    check_nests(assert_near_tflite(tmp_path / "m.tflite", [values], TOLERANCE), [values])
