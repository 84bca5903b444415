"""conv2d: TFLite Micro's int8 CONV_2D in every bit, the float meaning, and type errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from quantized_cases import add_accumulation, random_activation, random_window
from single_node import check_against_onnxruntime, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import Quant, TensorType
from edgec.ops.conv2d import Conv2d, Conv2dAttrs
from edgec.pipeline import compile_model
from edgec.runners.samples import generate_inputs
from edgec.targets.core import find_core


def conv2d_model(seed: int, wide: str = "", weight_bits: int = 8) -> bytes:
    rng = np.random.default_rng(seed)
    batch = int(rng.choice([1, 1, 2]))
    height, width, depth, channels = rng.integers(1, [11, 11, 7, 9]).tolist()
    window = random_window(rng, (height, width), 4)
    model = TfliteBuilder()
    operands = add_accumulation(
        model, rng, (batch, height, width, depth), (channels, *window.kernel, depth),
        channel_axis=0, taps=window.kernel[0] * window.kernel[1] * depth,
        per_channel=rng.random() < 0.7, wide=wide, weight_bits=weight_bits,
    )  # fmt: skip
    y = model.tensor(
        "y", (batch, *window.output, channels), "int16" if wide else "int8",
        scale=operands.output_scale, zero_point=operands.output_zero_point,
    )  # fmt: skip
    model.operator(
        "CONV_2D", operands.inputs, [y], "Conv2DOptions", **window.options(),
        FusedActivationFunction=random_activation(rng),
    )  # fmt: skip
    return model.build([operands.x], [y])


@pytest.mark.parametrize("block", range(12))
def test_random_convolutions_equal_tflm(block: int, tmp_path) -> None:
    for seed in range(25 * block, 25 * block + 25):
        assert_same_bits(conv2d_model(seed), tmp_path)


@pytest.mark.parametrize("wide", ["int32", "int64"])
def test_random_int16_convolutions_equal_tflm(wide: str, tmp_path) -> None:
    for seed in range(40):
        assert_same_bits(conv2d_model(seed, wide), tmp_path)


def test_float_meaning_against_direct_sums() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(2, 6, 5, 3)).astype(np.float32)
    weights = rng.normal(size=(4, 3, 2, 3)).astype(np.float32)
    bias = rng.normal(size=4).astype(np.float32)
    attrs = Conv2dAttrs(stride=(2, 1), dilation=(1, 2), padding=((1, 0), (0, 1)))
    types = [TensorType(a.shape, "float32") for a in (x, weights, bias)]
    output = Conv2d().infer(attrs, *types)
    (result,) = Conv2d().evaluate(attrs, [x, weights, bias], types, output)
    padded = np.pad(x, ((0, 0), (1, 0), (0, 1), (0, 0)))
    assert result.dtype == np.float32 and result.shape == output[0].shape == (2, 3, 4, 4)
    for n, oh, ow, o in np.ndindex(result.shape):
        window = padded[n, 2 * oh : 2 * oh + 3, ow : ow + 3 : 2].astype(np.float64)
        expected = (window * weights[o]).sum() + bias[o]
        assert result[n, oh, ow, o] == pytest.approx(expected, rel=1e-6, abs=4e-6)


def test_accumulators_wrap_as_int32() -> None:
    quant = Quant((1.0,), (-128,))
    types = [
        TensorType((1, 1, 1, 1), "int8", quant),
        TensorType((1, 1, 1, 1), "int8"),
        TensorType((1,), "int32"),
    ]
    arrays = [
        np.full((1, 1, 1, 1), 127, np.int8),
        np.ones((1, 1, 1, 1), np.int8),
        np.array([2**31 - 1], np.int32),
    ]
    output = Conv2d().infer(Conv2dAttrs(), *types)
    (result,) = Conv2d().evaluate(Conv2dAttrs(), arrays, types, output)
    assert result.item() == 2**31 - 1 + 255 - 2**32


INT8 = TensorType((1, 4, 4, 2), "int8", Quant((0.1,), (0,)))
WEIGHTS = TensorType((3, 3, 3, 2), "int8")
BIAS = TensorType((3,), "int32")


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ((INT8.with_shape((1, 4, 4, 5)), WEIGHTS, BIAS), "read 2 channels, the input has 5"),
        ((INT8, WEIGHTS, TensorType((4,), "int32")), r"bias \[4\] for 3 channels"),
        ((INT8.with_shape((1, 2, 4, 2)), WEIGHTS, BIAS), "does not fit"),
        ((TensorType((1, 4, 4, 2), "int8"), WEIGHTS, BIAS), "quantized per tensor"),
        ((INT8, TensorType((3, 3, 3, 2), "int8", Quant((1.0,), (1,))), BIAS), "zero point 0"),
        ((INT8, TensorType((3, 3, 3, 2), "float32"), BIAS), "int8, int8, int32"),
        ((INT8.with_shape((4, 4, 2)), WEIGHTS, BIAS), "rank 4"),
    ],
)
def test_infer_refuses_what_has_no_meaning(types, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Conv2d().infer(Conv2dAttrs(), *types)


def test_macs_count_every_tap() -> None:
    assert Conv2d().macs(Conv2dAttrs(), [INT8, WEIGHTS, BIAS]) == 2 * 2 * 3 * 3 * 3 * 2


@pytest.mark.parametrize("seed", [2, 32, 65, 145])
def test_windows_that_lie_in_padding_compile(seed: int, tmp_path) -> None:
    path = tmp_path / "conv.tflite"
    path.write_bytes(conv2d_model(seed))
    compiled = compile_model(path, find_core("cortex-m4"))
    before, after = compiled.imported.main, compiled.module.main
    x = generate_inputs(seed, [(v.type.shape, v.type.dtype) for v in before.inputs])
    for want, mine in zip(interpret(before, x), interpret(after, x), strict=True):
        np.testing.assert_array_equal(mine, want, strict=True)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("extent", "stride"), [(6, 2), (7, 4), (6, 3), (8, 4), (12, 4)])
def test_same_with_strides_over_the_window(
    mode: str, extent: int, stride: int, tmp_path: Path
) -> None:
    """What the standard and ONNX Runtime agree on is equal, the rest is refused."""
    x = np.arange(extent * extent, dtype=np.float32).reshape(1, 1, extent, extent)
    weights = np.full((1, 1, 1, 1), 2, np.float32)
    path = save_node(
        tmp_path / "m.onnx", "Conv", x, {"w": weights}, auto_pad=mode, strides=[stride, stride]
    )
    if extent % stride == 0 and stride == 4:
        with pytest.raises(ImportFailed) as failure:
            import_model(path)
        assert "give pads instead" in str(failure.value.details)
    else:
        check_against_onnxruntime(path, x)
