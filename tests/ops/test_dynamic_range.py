"""Dynamic range: LiteRT's hybrid FULLY_CONNECTED, CONV_2D and DEPTHWISE_CONV_2D.

The operations are LiteRT's own in the same order, but its kernels may contract a product and an
addition to one rounding: results may differ in the last bits of a float32.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from quantized_cases import log_uniform, random_window
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.numerics.fixed_point import round_half_away
from edgec.ops.dynamic_range import (
    QuantizeRows,
    QuantizeRowsAttrs,
    RangeOfRows,
    RangeOfRowsAttrs,
    RescaleRows,
    RescaleRowsAttrs,
)
from edgec.oracle.frameworks import open_oracle

#: Between accumulators of up to 2**20 steps and their rescaled values.
TOLERANCE = {"rtol": 1e-6, "atol": 1e-6}


def weights_and_bias(
    model: TfliteBuilder,
    rng: np.random.Generator,
    shape: tuple[int, ...],
    axis: int,
    by_channel: bool,
    bias_chance: float = 1.0,  # LiteRT's CONV_2D has none without
) -> list[int]:
    channels = shape[axis]
    scales = [log_uniform(rng, 1e-3, 0.1) for _ in range(channels if by_channel else 1)]
    data = rng.integers(-127, 128, shape).astype(np.int8)
    found = [model.tensor("w", shape, "int8", scale=scales, axis=axis, data=data)]
    if rng.random() < bias_chance:
        bias = rng.normal(0, 1, channels).astype(np.float32)
        found.append(model.tensor("b", bias.shape, "float32", data=bias))
    return found


def dense_model(seed: int, asymmetric: bool) -> bytes:
    rng = np.random.default_rng(seed)
    rows, depth, channels = rng.integers(1, [5, 90, 20]).tolist()
    model = TfliteBuilder()
    x = model.tensor("x", (rows, depth), "float32")
    operands = weights_and_bias(model, rng, (channels, depth), 0, False, 0.7)
    y = model.tensor("y", (rows, channels), "float32")
    model.operator(
        "FULLY_CONNECTED", [x, *operands], [y], "FullyConnectedOptions",
        FusedActivationFunction=int(rng.choice([0, 1])), AsymmetricQuantizeInputs=asymmetric,
    )  # fmt: skip
    return model.build([x], [y])


def conv_model(seed: int, kind: str, by_channel: bool) -> bytes:
    rng = np.random.default_rng(seed)
    batch, height, width, depth = rng.integers(1, [3, 9, 9, 6]).tolist()
    window = random_window(rng, (height, width), 3)
    model = TfliteBuilder()
    x = model.tensor("x", (batch, height, width, depth), "float32")
    fields = {**window.options(), "FusedActivationFunction": int(rng.choice([0, 1]))}
    if kind == "CONV_2D":
        channels = int(rng.integers(2, 9))
        shape, axis, options = (channels, *window.kernel, depth), 0, "Conv2DOptions"
    else:
        channels = depth * int(rng.integers(1, 3))
        shape, axis, options = (1, *window.kernel, channels), 3, "DepthwiseConv2DOptions"
        fields["DepthMultiplier"] = channels // depth
    operands = weights_and_bias(model, rng, shape, axis, by_channel)
    y = model.tensor("y", (batch, *window.output, channels), "float32")
    model.operator(kind, [x, *operands], [y], options, **fields)
    return model.build([x], [y])


def compare(data: bytes, folder: Path, seed: int) -> None:
    path = folder / "m.tflite"
    path.write_bytes(data)
    function = import_model(path).main
    oracle = open_oracle(path, "litert")
    rng = np.random.default_rng(seed)
    for case in range(3):
        x = rng.normal(0, log_uniform(rng, 0.1, 10), function.params[0].type.shape)
        if case == 1:
            x = np.abs(x) + 1  # one side of 0 only
        x = x.astype(np.float32)
        if case == 2:
            x[0] = 0
        (mine,) = interpret(function, [x])
        (expected,) = oracle.run([x]).outputs
        np.testing.assert_allclose(mine, expected, **TOLERANCE)
    if seed < 4:
        check_nests(function, [x])


@pytest.mark.parametrize("asymmetric", [False, True])
def test_dense_layers_equal_litert(asymmetric: bool, tmp_path: Path) -> None:
    for seed in range(30):
        compare(dense_model(seed, asymmetric), tmp_path, seed)


@pytest.mark.parametrize(
    ("kind", "by_channel"),
    [("CONV_2D", False), ("CONV_2D", True), ("DEPTHWISE_CONV_2D", True)],
)
def test_convolutions_equal_litert(kind: str, by_channel: bool, tmp_path: Path) -> None:
    for seed in range(30):
        compare(conv_model(seed, kind, by_channel), tmp_path, seed)


def test_rounding_is_away_from_zero() -> None:
    values = np.array([0.5, -0.5, 1.5, 2.5, 0.49999997, -2.5, np.nan, np.inf, -1e30], np.float32)
    assert round_half_away(values).tolist() == [1, -1, 2, 3, 0, -3, 0, 1 << 30, -(1 << 30)]


ROWS = TensorType((3, 4), "float32")
RANGE = TensorType((3,), "float32")
ACC = TensorType((3, 2), "int32")
BIAS = TensorType((2,), "float32")


def test_infer() -> None:
    assert RangeOfRows().infer(RangeOfRowsAttrs(), ROWS) == (RANGE,)
    assert QuantizeRows().infer(QuantizeRowsAttrs(), ROWS, RANGE)[0].dtype == "int8"
    assert QuantizeRows().infer(QuantizeRowsAttrs(True), ROWS, RANGE, RANGE)[0].dtype == "int16"
    assert RescaleRows().infer(RescaleRowsAttrs((1.0,)), ACC, BIAS, RANGE)[0].shape == (3, 2)
    for op, attrs, inputs, message in (
        (RangeOfRows(), RangeOfRowsAttrs(), [ACC], "needs float32 of rank 2"),
        (RangeOfRows(), RangeOfRowsAttrs("mean"), [ROWS], "unknown range"),
        (QuantizeRows(), QuantizeRowsAttrs(), [ROWS, RANGE, RANGE], "got 2 ranges"),
        (QuantizeRows(), QuantizeRowsAttrs(), [ROWS, BIAS], "each of 3 rows"),
        (RescaleRows(), RescaleRowsAttrs((1.0,) * 3), [ACC, BIAS, RANGE], "3 scales"),
        (RescaleRows(), RescaleRowsAttrs((1.0,)), [ACC, RANGE, RANGE], "bias for each channel"),
        (RescaleRows(), RescaleRowsAttrs((1.0,)), [ROWS, BIAS, RANGE], "int32 accumulators"),
    ):
        with pytest.raises(TypeMismatch, match=message):
            op.infer(attrs, *inputs)
