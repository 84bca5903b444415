"""softmax: TFLite Micro's int8 SOFTMAX in every bit, and the float meaning."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits, differences
from onnx import helper
from quantized_cases import log_uniform, random_zero_point
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.onnx_backend import run_node
from edgec.ops.softmax import OUTPUT_QUANT, Softmax, SoftmaxAttrs, exp_table


def softmax_model(
    shape: tuple[int, ...], scale: float, zero_point: int, beta: float, dtype: str = "int8"
) -> bytes:
    model = TfliteBuilder()
    x = model.tensor("x", shape, "int8", scale=scale, zero_point=zero_point)
    wide = dtype == "int16"
    y = model.tensor("y", shape, dtype, scale=1.5259e-5 if wide else 1 / 256,
                     zero_point=-32768 if wide else -128)  # fmt: skip
    model.operator("SOFTMAX", [x], [y], "SoftmaxOptions", Beta=beta)
    return model.build([x], [y])


@pytest.mark.parametrize("block", range(12))
def test_random_rows_equal_tflm(block: int, tmp_path) -> None:
    for seed in range(25 * block, 25 * block + 25):
        rng = np.random.default_rng(seed)
        depth = int(rng.choice([1, 2, 3, 10, int(rng.integers(2, 200))]))
        shape = [(4, depth), (1, 2, 3, depth), (depth,)][int(rng.integers(3))]
        scale, beta = log_uniform(rng, 1e-4, 10.0), float(rng.choice([1.0, 1.0, 0.3, 4.0]))
        assert_same_bits(softmax_model(shape, scale, random_zero_point(rng), beta), tmp_path)


@pytest.mark.parametrize("seed", range(12))
def test_random_rows_to_int16_equal_tflm(seed: int, tmp_path) -> None:
    rng = np.random.default_rng(seed)
    shape = (4, int(rng.integers(1, 300)))
    scale = log_uniform(rng, 1e-3, 2.0)
    model = softmax_model(shape, scale, random_zero_point(rng), 1.0, "int16")
    function = assert_same_bits(model, tmp_path).main
    (x,) = function.params
    check_nests(function, [rng.integers(-128, 128, x.type.shape).astype(np.int8)])


@pytest.mark.parametrize("scale", [0.003, 0.02, 0.1446925, 0.7, 3.0])
def test_every_difference_equals_tflm(scale: float, tmp_path) -> None:
    """Rows (127, 127 - d): one row for each of the 256 differences."""
    from edgec.frontends import import_model
    from edgec.oracle.frameworks import open_oracle

    path = tmp_path / "rows.tflite"
    path.write_bytes(softmax_model((256, 2), scale, 0, 1.0))
    x = np.stack([np.full(256, 127), np.arange(-128, 128)], axis=1).astype(np.int8)
    assert differences(import_model(path), open_oracle(path), [x]) == []


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("scale", [0.0004, 0.05, 0.7, 9.0])
def test_pairs_follow_from_their_difference(scale: float, dtype: str, tmp_path) -> None:
    """Every difference of two elements, in loops of their own."""
    d = np.arange(-255, 256)
    x = np.stack([d - d // 2 - 1, -(d // 2) - 1], axis=1).astype(np.int8)
    assert (np.subtract(*x.T.astype(int)) == d).all()
    model = softmax_model((511, 2), scale, 3, 1.0, dtype)
    function = assert_same_bits(model, tmp_path).main
    check_nests(function, [x])
    alone = assert_same_bits(softmax_model((2,), scale, 3, 1.0, dtype), tmp_path).main
    check_nests(alone, [x[17]])


def test_exp_table_is_the_exponential() -> None:
    table = exp_table(1.0, 0.1)
    assert table.shape == (256,) and table[0] == 2**31 - 1
    np.testing.assert_allclose(table / 2**31, np.exp(-0.1 * np.arange(256)), atol=2e-7)
    assert exp_table(1.0, 4.0)[8:].tolist() == [0] * 248  # under diff_min: left out


@pytest.mark.parametrize("depth", [256, 511, 512, 600, 4095])
def test_long_rows_of_equal_values(depth: int) -> None:
    """From 512 on TFLite Micro stops with a failed check; here the result is still right."""
    x = np.full((1, depth), 7, np.int8)
    type_ = TensorType(x.shape, "int8", Quant((0.1,), (0,)))
    attrs = SoftmaxAttrs(output=OUTPUT_QUANT)
    (result,) = Softmax().evaluate(attrs, [x], [type_], Softmax().infer(attrs, type_))
    assert (result == -128 + round(256 / depth)).all()


def test_float_meaning() -> None:
    x = np.array([[1.0, 2.0, 3.0], [1e4, 0.0, 0.0]], np.float32)
    type_ = TensorType(x.shape, "float32")
    attrs = SoftmaxAttrs(beta=2.0)
    (result,) = Softmax().evaluate(attrs, [x], [type_], Softmax().infer(attrs, type_))
    expected = np.exp(2 * x[0]) / np.exp(2 * x[0]).sum()
    assert result.dtype == np.float32
    np.testing.assert_allclose(result[0], expected, rtol=1e-6)
    assert result[1].tolist() == [1, 0, 0]


def test_infer_refuses_what_has_no_meaning() -> None:
    attrs = SoftmaxAttrs(output=OUTPUT_QUANT)
    type_ = TensorType((1, 10), "int8", Quant((0.1,), (0,)))
    assert Softmax().infer(attrs, type_) == (TensorType((1, 10), "int8", OUTPUT_QUANT),)
    with pytest.raises(TypeMismatch, match="1/256"):
        Softmax().infer(SoftmaxAttrs(output=Quant((0.01,), (0,))), type_)
    with pytest.raises(TypeMismatch, match="at most 4095"):
        Softmax().infer(attrs, type_.with_shape((1, 4096)))
    with pytest.raises(TypeMismatch, match="under"):
        Softmax().infer(attrs, TensorType((1, 10), "int8", Quant((1e-9,), (0,))))


@pytest.mark.parametrize("length", [5, 40])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_floats_of_16_bits_are_rounded_as_onnx_does(dtype: str, length: int) -> None:
    x = np.random.default_rng(length).normal(0, 3, (4, length, 3)).astype(dtype)
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    (found,) = run_node(node, [x])
    less = (x - x.max(axis=1, keepdims=True)).astype(np.float32)
    powers = np.exp(less).astype(dtype)
    # ONNX's evaluator rounds a sum of bfloat16 at each step; ours a short one only.
    total = powers.astype(np.float32).sum(axis=1, keepdims=True).astype(dtype)
    if dtype == "bfloat16" and length <= 8:
        total = np.add.reduce(powers, axis=1, keepdims=True)
    np.testing.assert_array_equal(found, powers / total)
