"""TFLite files as converters make them of networks trained with fake quantization.

Inputs and outputs are floats between a QUANTIZE and a DEQUANTIZE, weights are of -127..127 with a
scale for each channel, and a QUANTIZE between two layers moves from one scale to another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from against_tflm import assert_same_bits
from built_models import build
from test_same_bits import need_tools
from tflite_builder import TfliteBuilder

from edgec.graph.ir import Constant
from edgec.oracle.frameworks import open_oracle
from edgec.runners.engine import open_session
from edgec.runners.samples import generate_inputs

SAME, RELU6 = 0, 3


def network() -> tuple[bytes, list[tuple[np.ndarray, list[float]]], set[tuple[float, int]]]:
    """(file, weights with their scales, parameters of values)."""
    rng = np.random.default_rng(5)
    model = TfliteBuilder()
    weights: list[tuple[np.ndarray, list[float]]] = []
    values: set[tuple[float, int]] = set()

    def value(name: str, shape: tuple[int, ...], scale: float, zero: int) -> int:
        values.add((float(np.float32(scale)), zero))
        return model.tensor(name, shape, "int8", scale=scale, zero_point=zero)

    def convolution(x: int, x_scale: float, shape: tuple[int, ...], y: int, **fields: Any) -> None:
        numbers = rng.integers(-127, 128, shape).astype(np.int8)
        scales = rng.uniform(0.002, 0.01, shape[0]).astype(np.float32)
        weights.append((numbers, scales.tolist()))
        w = model.tensor(f"w{x}", shape, "int8", scale=scales, axis=0, data=numbers)
        bias = rng.integers(-3000, 3000, shape[0]).astype(np.int32)
        b = model.tensor(f"b{x}", shape[:1], "int32", scale=scales * x_scale, data=bias)
        model.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", Padding=SAME, StrideH=1,
                       StrideW=1, **fields)  # fmt: skip

    image = (1, 8, 8, 3)
    wide = (1, 8, 8, 6)
    given = model.tensor("x", image, "float32")
    x = value("x/int8", image, 0.02, -5)
    model.operator("QUANTIZE", [given], [x])
    y = value("conv", wide, 6 / 255, -128)
    convolution(x, 0.02, (6, 3, 3, 3), y, FusedActivationFunction=RELU6)
    z = value("point", wide, 0.03, 4)
    convolution(y, 6 / 255, (6, 1, 1, 6), z)
    other = value("conv/other", wide, 0.028, -100)
    model.operator("QUANTIZE", [y], [other])
    total = value("add", wide, 0.04, -20)
    model.operator("ADD", [z, other], [total], "AddOptions")
    out = model.tensor("y", wide, "float32")
    model.operator("DEQUANTIZE", [total], [out])
    return model.build([given], [out]), weights, values


def test_parameters_and_bits(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite_micro is not installed (edgec[verify])")
    need_tools("host", "gcc", "host")
    data, weights, values = network()
    assert_same_bits(data, tmp_path)
    path = tmp_path / "case.tflite"
    compiled, built = build(path, "host")
    main = compiled.module.main
    found = {
        (v.type.quant.scale[0], v.type.quant.zero_point[0])
        for node in main.nodes
        for v in node.outputs
        if v.type.quant is not None
    }
    assert found == values
    mine = [node.inputs[1] for node in main.nodes if node.op.name == "conv2d"]
    for constant, (numbers, scales) in zip(mine, weights, strict=True):
        assert isinstance(constant, Constant) and constant.type.quant is not None
        assert np.array_equal(constant.data, numbers)
        assert list(constant.type.quant.scale) == scales
    oracle = open_oracle(path)
    with open_session("host", built) as session:
        assert session.selftest() == 0
        for seed in range(1, 4):
            inputs = generate_inputs(seed, [((1, 8, 8, 3), "float32")])
            (answer,), (wanted,) = session.run(inputs).outputs, oracle.run(inputs).outputs
            assert len(np.unique(wanted)) > 20 and np.array_equal(answer, wanted)
