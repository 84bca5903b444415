"""dense: TFLite Micro's int8 FULLY_CONNECTED in every bit, with and without batches."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits
from quantized_cases import add_accumulation, random_activation
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.operator import NoAttrs
from edgec.graph.types import Quant, TensorType
from edgec.ops.dense import Dense


def dense_model(seed: int, wide: str = "", weight_bits: int = 8) -> bytes:
    rng = np.random.default_rng(seed)
    depth, channels = rng.integers(1, [70, 20]).tolist()
    leading, keep = ((1,), False) if rng.random() < 0.6 else ((2, 3), bool(rng.random() < 0.5))
    model = TfliteBuilder()
    operands = add_accumulation(
        model, rng, (*leading, depth), (channels, depth), channel_axis=0, taps=depth,
        per_channel=rng.random() < 0.3 and weight_bits == 8,  # TFLite Micro has no other
        wide=wide, weight_bits=weight_bits,
    )  # fmt: skip
    batch = leading if keep else (int(np.prod(leading)),)
    y = model.tensor(
        "y", (*batch, channels), "int16" if wide else "int8",
        scale=operands.output_scale, zero_point=operands.output_zero_point,
    )  # fmt: skip
    if len(operands.inputs) == 2 and rng.random() < 0.5:
        operands.inputs.append(-1)  # an absent bias may be written so
    model.operator(
        "FULLY_CONNECTED", operands.inputs, [y], "FullyConnectedOptions",
        FusedActivationFunction=random_activation(rng), KeepNumDims=keep,
    )  # fmt: skip
    return model.build([operands.x], [y])


@pytest.mark.parametrize("block", range(12))
def test_random_dense_layers_equal_tflm(block: int, tmp_path) -> None:
    for seed in range(25 * block, 25 * block + 25):
        assert_same_bits(dense_model(seed), tmp_path)


def test_random_int16_dense_layers_equal_tflm(tmp_path) -> None:
    for seed in range(60):
        assert_same_bits(dense_model(seed, "int64"), tmp_path)


def test_litert_rounds_once(tmp_path) -> None:
    path = tmp_path / "dense.tflite"
    path.write_bytes(dense_model(0))
    for match, rounding in ((None, "tflm"), ("tflm", "tflm"), ("litert", "single")):
        nodes = import_model(path, match=match).main.nodes
        (found,) = [n.attrs.rounding for n in nodes if n.op.name == "requantize"]
        assert found == rounding


def test_float_meaning() -> None:
    rng = np.random.default_rng(7)
    x, weights = (rng.normal(size=s).astype(np.float32) for s in ((2, 9), (4, 9)))
    bias = rng.normal(size=4).astype(np.float32)
    types = [TensorType(a.shape, "float32") for a in (x, weights, bias)]
    output = Dense().infer(NoAttrs(), *types)
    (result,) = Dense().evaluate(NoAttrs(), [x, weights, bias], types, output)
    expected = x.astype(np.float64) @ weights.T.astype(np.float64) + bias
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_infer_and_macs() -> None:
    x = TensorType((2, 9), "int8", Quant((0.1,), (0,)))
    weights, bias = TensorType((4, 9), "int8"), TensorType((4,), "int32")
    assert Dense().infer(NoAttrs(), x, weights, bias) == (TensorType((2, 4), "int32"),)
    assert Dense().macs(NoAttrs(), [x, weights, bias]) == 2 * 9 * 4
    with pytest.raises(TypeMismatch, match="read 9 values, the input has 8"):
        Dense().infer(NoAttrs(), x.with_shape((2, 8)), weights, bias)
    with pytest.raises(TypeMismatch, match="rank 2"):
        Dense().infer(NoAttrs(), x.with_shape((1, 2, 9)), weights, bias)
