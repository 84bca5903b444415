"""depthwise_conv2d: TFLite Micro's int8 DEPTHWISE_CONV_2D in every bit, also with multipliers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from quantized_cases import add_accumulation, random_activation, random_window
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.types import Quant, TensorType
from edgec.ops.depthwise_conv2d import DepthwiseConv2d, DepthwiseConv2dAttrs
from edgec.options import Options
from edgec.pipeline import compile_module
from edgec.targets.core import host_core


def depthwise_model(seed: int, wide: str = "", weight_bits: int = 8) -> bytes:
    rng = np.random.default_rng(seed)
    height, width, depth = rng.integers(1, [11, 11, 7]).tolist()
    multiplier = int(rng.choice([1, 1, 2, 3, 8]))
    window = random_window(rng, (height, width), 4)
    model = TfliteBuilder()
    operands = add_accumulation(
        model, rng, (1, height, width, depth), (1, *window.kernel, depth * multiplier),
        channel_axis=3, taps=window.kernel[0] * window.kernel[1], per_channel=rng.random() < 0.7,
        bias_axis=int(rng.choice([0, 3])),  # old converters write 3
        wide=wide, weight_bits=weight_bits,
    )  # fmt: skip
    y = model.tensor(
        "y", (1, *window.output, depth * multiplier), "int16" if wide else "int8",
        scale=operands.output_scale, zero_point=operands.output_zero_point,
    )  # fmt: skip
    model.operator(
        "DEPTHWISE_CONV_2D", operands.inputs, [y], "DepthwiseConv2DOptions", **window.options(),
        DepthMultiplier=multiplier, FusedActivationFunction=random_activation(rng),
    )  # fmt: skip
    return model.build([operands.x], [y])


@pytest.mark.parametrize("block", range(12))
def test_random_depthwise_convolutions_equal_tflm(block: int, tmp_path) -> None:
    for seed in range(25 * block, 25 * block + 25):
        assert_same_bits(depthwise_model(seed), tmp_path)


def test_random_int16_depthwise_convolutions_equal_tflm(tmp_path) -> None:
    for seed in range(60):
        assert_same_bits(depthwise_model(seed, "int64"), tmp_path)


def test_rows_whose_windows_lie_in_the_padding(tmp_path: Path) -> None:
    """Of two rows, seen three apart, one sees neither; the layers are looked at row by row."""
    rng = np.random.default_rng(1)
    model = TfliteBuilder()
    operands = add_accumulation(
        model, rng, (1, 2, 1, 4), (1, 2, 1, 8), channel_axis=3, taps=2, per_channel=False
    )
    made = {"scale": operands.output_scale, "zero_point": operands.output_zero_point}
    seen, y = (model.tensor(name, (1, 2, 1, 8), "int8", **made) for name in ("seen", "y"))
    model.operator(
        "DEPTHWISE_CONV_2D", operands.inputs, [seen], "DepthwiseConv2DOptions", DepthMultiplier=2,
        StrideW=1, StrideH=1, DilationWFactor=3, DilationHFactor=3, Padding=0,
    )  # fmt: skip
    model.operator(
        "AVERAGE_POOL_2D", [seen], [y], "Pool2DOptions", StrideW=1, StrideH=1, FilterWidth=3,
        FilterHeight=1, Padding=0,
    )  # fmt: skip
    written = model.build([operands.x], [y])
    assert_same_bits(written, tmp_path)
    (tmp_path / "m.tflite").write_bytes(written)
    module = import_model(tmp_path / "m.tflite")
    most = compile_module(module, host_core(), Options()).program.arena_bytes
    compile_module(module, host_core(), Options(), arena_limit_bytes=most * 4 // 5)


def test_float_meaning_against_direct_sums() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(1, 5, 5, 2)).astype(np.float32)
    weights = rng.normal(size=(3, 2, 6)).astype(np.float32)
    bias = rng.normal(size=6).astype(np.float32)
    attrs = DepthwiseConv2dAttrs(stride=(1, 2), padding=((1, 1), (0, 0)))
    types = [TensorType(a.shape, "float32") for a in (x, weights, bias)]
    output = DepthwiseConv2d().infer(attrs, *types)
    (result,) = DepthwiseConv2d().evaluate(attrs, [x, weights, bias], types, output)
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0), (0, 0)))
    assert result.dtype == np.float32 and result.shape == output[0].shape == (1, 5, 2, 6)
    for _, oh, ow, o in np.ndindex(result.shape):
        window = padded[0, oh : oh + 3, 2 * ow : 2 * ow + 2, o // 3].astype(np.float64)
        expected = (window * weights[:, :, o]).sum() + bias[o]
        assert result[0, oh, ow, o] == pytest.approx(expected, rel=1e-6, abs=4e-6)


def test_infer_refuses_a_fractional_multiplier() -> None:
    x = TensorType((1, 4, 4, 2), "int8", Quant((0.1,), (0,)))
    with pytest.raises(TypeMismatch, match="3 output channels from 2"):
        DepthwiseConv2d().infer(
            DepthwiseConv2dAttrs(), x, TensorType((1, 1, 3), "int8"), TensorType((3,), "int32")
        )


def test_macs_count_every_tap() -> None:
    x = TensorType((1, 4, 4, 2), "int8", Quant((0.1,), (0,)))
    types = [x, TensorType((3, 3, 4), "int8"), TensorType((4,), "int32")]
    assert DepthwiseConv2d().macs(DepthwiseConv2dAttrs(), types) == 2 * 2 * 4 * 9
