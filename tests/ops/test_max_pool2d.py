"""max_pool2d: TFLite Micro's int8 MAX_POOL_2D in every bit, and the float meaning."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits
from one_operator import check_operator
from quantized_cases import log_uniform, random_activation, random_window, random_zero_point
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.max_pool2d import MaxPool2d, MaxPool2dAttrs


def pool_model(seed: int, dtype: str = "int8") -> bytes:
    rng = np.random.default_rng(seed)
    height, width, depth = rng.integers(1, [13, 13, 9]).tolist()
    window = random_window(rng, (height, width), 5, dilated=False)
    quant = {
        "scale": log_uniform(rng, 1e-2, 0.5),
        "zero_point": random_zero_point(rng) if dtype == "int8" else 0,
    }
    model = TfliteBuilder()
    x = model.tensor("x", (1, height, width, depth), dtype, **quant)
    y = model.tensor("y", (1, *window.output, depth), dtype, **quant)
    model.operator(
        "MAX_POOL_2D", [x], [y], "Pool2DOptions", **window.options(dilated=False),
        FilterHeight=window.kernel[0], FilterWidth=window.kernel[1],
        FusedActivationFunction=random_activation(rng),
    )  # fmt: skip
    return model.build([x], [y])


@pytest.mark.parametrize("block", range(12))
def test_random_pools_equal_tflm(block: int, tmp_path) -> None:
    for seed in range(25 * block, 25 * block + 25):
        assert_same_bits(pool_model(seed), tmp_path)


def test_random_int16_pools_equal_tflm(tmp_path) -> None:
    for seed in range(30):
        data = pool_model(seed, "int16")
        if seed < 5:
            check_operator(data, tmp_path)  # the loop nests too
        else:
            assert_same_bits(data, tmp_path)


def test_float_padding_never_wins() -> None:
    x = np.full((1, 2, 2, 1), -5, np.float32)
    type_ = TensorType(x.shape, "float32")
    attrs = MaxPool2dAttrs((2, 2), (1, 1), padding=((1, 0), (0, 1)))
    (result,) = MaxPool2d().evaluate(attrs, [x], [type_], MaxPool2d().infer(attrs, type_))
    assert result.dtype == np.float32
    assert result.tolist() == np.full((1, 2, 2, 1), -5.0).tolist()


def test_infer_keeps_quantization_and_checks_the_range() -> None:
    type_ = TensorType((1, 4, 4, 2), "int8", Quant((1.0,), (3,)))
    attrs = MaxPool2dAttrs((2, 2), (2, 2))
    assert MaxPool2d().infer(attrs, type_) == (type_.with_shape((1, 2, 2, 2)),)
    with pytest.raises(TypeMismatch, match="does not fit in int8"):
        MaxPool2d().infer(MaxPool2dAttrs((2, 2), (2, 2), maximum=200), type_)
