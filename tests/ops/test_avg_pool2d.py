"""avg_pool2d: TFLite Micro's int8 AVERAGE_POOL_2D in every bit, and the float meaning."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits
from quantized_cases import log_uniform, random_activation, random_window, random_zero_point
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.avg_pool2d import AvgPool2d, AvgPool2dAttrs


def pool_model(kind: str, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    batch = int(rng.choice([1, 1, 2]))
    height, width, depth = rng.integers(1, [13, 13, 9]).tolist()
    window = random_window(rng, (height, width), 5, dilated=False)
    quant = {"scale": log_uniform(rng, 1e-2, 0.5), "zero_point": random_zero_point(rng)}
    model = TfliteBuilder()
    x = model.tensor("x", (batch, height, width, depth), "int8", **quant)
    y = model.tensor("y", (batch, *window.output, depth), "int8", **quant)
    model.operator(
        kind, [x], [y], "Pool2DOptions", **window.options(dilated=False),
        FilterHeight=window.kernel[0], FilterWidth=window.kernel[1],
        FusedActivationFunction=random_activation(rng),
    )  # fmt: skip
    return model.build([x], [y])


@pytest.mark.parametrize("block", range(12))
def test_random_pools_equal_tflm(block: int, tmp_path) -> None:
    for seed in range(25 * block, 25 * block + 25):
        assert_same_bits(pool_model("AVERAGE_POOL_2D", seed), tmp_path)


def test_halves_are_rounded_away_from_zero() -> None:
    x = np.array([-3, -2, 2, 3, 4, 5], np.int8).reshape(1, 1, 6, 1)
    type_ = TensorType(x.shape, "int8", Quant((1.0,), (0,)))
    attrs = AvgPool2dAttrs((1, 2), (1, 2), output=type_.quant)
    (result,) = AvgPool2d().evaluate(attrs, [x], [type_], AvgPool2d().infer(attrs, type_))
    assert result.ravel().tolist() == [-3, 3, 5]


def test_float_padding_is_not_counted() -> None:
    x = np.array([1, 2, 4], np.float32).reshape(1, 1, 3, 1)
    type_ = TensorType(x.shape, "float32")
    attrs = AvgPool2dAttrs((1, 2), (1, 2), padding=((0, 0), (1, 0)))
    (result,) = AvgPool2d().evaluate(attrs, [x], [type_], AvgPool2d().infer(attrs, type_))
    assert result.dtype == np.float32
    assert result.ravel().tolist() == [1, 3]


def test_infer_refuses_what_has_no_meaning() -> None:
    type_ = TensorType((1, 4, 4, 2), "int8", Quant((1.0,), (0,)))
    with pytest.raises(TypeMismatch, match="does not fit"):
        AvgPool2d().infer(AvgPool2dAttrs((5, 1), (1, 1)), type_)
    with pytest.raises(TypeMismatch, match="as wide as the window"):
        AvgPool2d().infer(AvgPool2dAttrs((1, 1), (1, 1), padding=((1, 0), (0, 0))), type_)
    with pytest.raises(TypeMismatch, match="int8 or float32"):
        AvgPool2d().infer(AvgPool2dAttrs((1, 1), (1, 1)), TensorType((1, 4, 4, 2), "int16"))
