"""avg_pool2d: TFLite Micro's int8 AVERAGE_POOL_2D in every bit, and the float meaning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from against_tflm import assert_same_bits
from one_operator import check_operator
from onnx_builder import OnnxBuilder
from quantized_cases import log_uniform, random_activation, random_window, random_zero_point
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.avg_pool2d import AvgPool2d, AvgPool2dAttrs
from edgec.oracle.frameworks import open_oracle
from edgec.passes.fuse_qdq import fuse_qdq
from edgec.passes.simplify_views import simplify_views
from edgec.passes.sink_transposes import sink_transposes


def pool_model(kind: str, seed: int, dtype: str = "int8") -> bytes:
    rng = np.random.default_rng(seed)
    batch = int(rng.choice([1, 1, 2]))
    height, width, depth = rng.integers(1, [13, 13, 9]).tolist()
    window = random_window(rng, (height, width), 5, dilated=False)
    quant = {
        "scale": log_uniform(rng, 1e-2, 0.5),
        "zero_point": random_zero_point(rng) if dtype == "int8" else 0,
    }
    model = TfliteBuilder()
    x = model.tensor("x", (batch, height, width, depth), dtype, **quant)
    y = model.tensor("y", (batch, *window.output, depth), dtype, **quant)
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


def test_random_int16_pools_equal_tflm(tmp_path) -> None:
    for seed in range(30):
        data = pool_model("AVERAGE_POOL_2D", seed, "int16")
        if seed < 5:
            check_operator(data, tmp_path)  # the loop nests too
        else:
            assert_same_bits(data, tmp_path)


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


def qdq_pool(seed: int, path: Path, **attributes: Any) -> Path:
    """QuantizeLinear, AveragePool, QuantizeLinear with other parameters."""
    rng = np.random.default_rng(seed)
    shape = (1, int(rng.integers(1, 6)), 8, 7)
    builder = OnnxBuilder(seed, shape)
    scale = log_uniform(rng, 0.01, 0.1)
    x = builder.qdq("x", scale, int(rng.integers(-128, 128)))
    kind = "AveragePool" if attributes else "GlobalAveragePool"
    pooled = builder.add(kind, [x], **attributes)
    out_scale = float(np.float32(scale * rng.uniform(0.3, 1.5)))
    return builder.save(builder.qdq(pooled, out_scale, int(rng.integers(-128, 128))), path)


@pytest.mark.parametrize("attributes", [
    {"kernel_shape": [8, 7]},
    {"kernel_shape": [2, 3], "strides": [2, 1]},
    {"kernel_shape": [3, 3], "pads": [1, 0, 1, 2]},
], ids=str)  # fmt: skip
def test_qdq_pools_equal_onnxruntime(attributes: dict[str, Any], tmp_path: Path) -> None:
    for seed in range(15):
        path = qdq_pool(seed, tmp_path / "m.onnx", **attributes)
        imported = import_model(path).main
        function = simplify_views(fuse_qdq(sink_transposes(imported)))
        assert "avg_pool2d" in {n.op.name for n in function.nodes if not n.output.type.is_float}
        oracle = open_oracle(path)
        rng = np.random.default_rng(seed)
        for _ in range(3):
            x = rng.normal(0, 2, function.params[0].type.shape).astype(np.float32)
            (mine,) = interpret(function, [x])
            np.testing.assert_array_equal(mine, oracle.run([x]).outputs[0])
        check_nests(function, [x])


def test_infer_refuses_what_has_no_meaning() -> None:
    type_ = TensorType((1, 4, 4, 2), "int8", Quant((1.0,), (0,)))
    with pytest.raises(TypeMismatch, match="does not fit"):
        AvgPool2d().infer(AvgPool2dAttrs((5, 1), (1, 1)), type_)
    with pytest.raises(TypeMismatch, match="as wide as the window"):
        AvgPool2d().infer(AvgPool2dAttrs((1, 1), (1, 1), padding=((1, 0), (0, 0))), type_)
    with pytest.raises(TypeMismatch, match="int8, int16 or float32"):
        AvgPool2d().infer(AvgPool2dAttrs((1, 1), (1, 1)), TensorType((1, 4, 4, 2), "int32"))
