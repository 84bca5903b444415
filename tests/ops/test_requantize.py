"""requantize: the roundings in exact fractions, and TFLite Micro's in every bit, QUANTIZE too."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from against_tflm import assert_same_bits
from one_operator import check_operator
from quantized_cases import log_uniform
from tflite_builder import TfliteBuilder

from edgec.boards.board import load_board
from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.numerics import fixed_point as fp
from edgec.ops.requantize import Requantize, RequantizeAttrs
from edgec.options import Options
from edgec.oracle.verify import verify_model

OUTPUT = Quant((0.5,), (-3,))
ACC = TensorType((2, 4), "int32")
STRIDES = {"StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}


def attrs(**changes) -> RequantizeAttrs:
    fields = {"multiplier": (0.01,), "output": OUTPUT, "minimum": -128, "maximum": 127,
              "rounding": "tflm"}  # fmt: skip
    return RequantizeAttrs(**{**fields, **changes})


def run(chosen: RequantizeAttrs, acc: np.ndarray) -> np.ndarray:
    type_ = TensorType(acc.shape, "int32")
    (result,) = Requantize().evaluate(
        chosen, [acc], [type_], Requantize().infer(chosen, type_)
    )  # fmt: skip
    return result


@pytest.mark.parametrize("rounding", ["tflm", "single", "onnx"])
def test_halves_are_rounded_as_each_framework_does(rounding: str) -> None:
    # A quarter of even numbers: tflm's first step is exact, so that the tie is in its second.
    acc = np.array([[-10, -6, -2, 2, 6, 10, 14]], np.int32)
    expected = {
        "tflm": [-3, -2, -1, 1, 2, 3, 4],  # away from zero
        "single": [-2, -1, 0, 1, 2, 3, 4],  # towards plus infinity
        "onnx": [-2, -2, 0, 0, 2, 2, 4],  # to even
    }[rounding]
    result = run(attrs(multiplier=(0.25,), rounding=rounding), acc)
    assert (result + 3).tolist() == [expected]


@pytest.mark.parametrize("rounding", ["tflm", "single", "onnx"])
def test_random_values_are_within_one_step_of_the_real_product(rounding: str) -> None:
    rng = np.random.default_rng(1)
    acc = rng.integers(-(2**20), 2**20, (200, 4)).astype(np.int32)
    multiplier = tuple(float(m) for m in np.exp(rng.uniform(-14, -9, 4)))
    result = run(attrs(multiplier=multiplier, rounding=rounding, dtype="int16",
                       minimum=-(2**15), maximum=2**15 - 1), acc)  # fmt: skip
    for (row, channel), value in np.ndenumerate(acc):
        real = Fraction(int(value)) * Fraction(multiplier[channel]) - 3
        assert abs(result[row, channel] - real) <= Fraction(1, 2) + Fraction(1, 1000)


def test_ties_in_the_doubling_multiply_go_up() -> None:
    """A half needs no second step of tflm, and the first rounds as gemmlowp's does."""
    acc = np.array([[-5, -3, -1, 1, 3, 5]], np.int32)
    assert (run(attrs(multiplier=(0.5,)), acc) + 3).tolist() == [[-2, -1, 0, 1, 2, 3]]


def test_one_multiplier_serves_all_channels() -> None:
    acc = np.arange(-40, 40, dtype=np.int32).reshape(20, 4)
    shared = run(attrs(multiplier=(0.3,)), acc)
    assert np.array_equal(shared, run(attrs(multiplier=(0.3,) * 4), acc))


def test_clamps_to_the_range_of_the_activation() -> None:
    acc = np.array([[-(2**31), -1000, 0, 1000, 2**31 - 1]], np.int32)
    result = run(attrs(multiplier=(0.1,), minimum=-3, maximum=40), acc)
    assert result.dtype == np.int8
    assert result.tolist() == [[-3, -3, -3, 40, 40]]


@pytest.mark.parametrize("real", [0.0, 2.0**-33, 1e-12])
def test_multipliers_under_the_smallest_give_zero(real: float) -> None:
    acc = np.array([[2**31 - 1, -(2**31)]], np.int32)
    assert run(attrs(multiplier=(real,)), acc).tolist() == [[-3, -3]]


def test_multipliers_over_one_shift_to_the_left() -> None:
    acc = np.array([[-7, 7]], np.int32)
    for rounding in ("tflm", "single", "onnx"):
        assert run(attrs(multiplier=(5.0,), rounding=rounding), acc).tolist() == [[-38, 32]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"multiplier": (0.1, 0.2)}, "2 multipliers for 4 channels"),
        ({"minimum": -129}, "does not fit in int8"),
        ({"minimum": 5, "maximum": 4}, "does not fit in int8"),
        ({"rounding": "up"}, "unknown rounding"),
        ({"dtype": "float32"}, "has no meaning"),
        ({"output": Quant((1.0, 2.0), (0, 0), axis=1)}, "one scale"),
    ],
)
def test_infer_refuses_wrong_attributes(changes, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Requantize().infer(attrs(**changes), ACC)
    with pytest.raises(TypeMismatch, match="int32"):
        Requantize().infer(attrs(), TensorType((2, 4), "int8"))


def test_real_products_of_powers_of_two_are_exact() -> None:
    acc = np.arange(-512, 512, 2, dtype=np.int32).reshape(1, -1)
    for rounding in ("tflm", "single", "onnx"):
        result = run(attrs(multiplier=(0.25,), rounding=rounding), acc)
        quarters = acc / 4
        exact = quarters == np.floor(quarters)
        wanted = np.clip(quarters[exact] - 3, -128, 127)
        assert np.array_equal(result[exact], wanted), rounding


def near_ties(multiplier: float, zero_point: int) -> np.ndarray:
    """Accumulators whose products are next to k + 1/2 for every int8 result, and beyond."""
    halves = (np.arange(-131, 131) + 0.5 - zero_point) / multiplier
    found = np.round(halves)[:, None] + np.arange(-3, 4)
    return np.clip(found.ravel(), fp.INT32_MIN + 1, fp.INT32_MAX).astype(np.int32)


@pytest.mark.parametrize(
    ("kind", "reference"),
    [
        ("FULLY_CONNECTED", "tflm"),  # LiteRT's has a multiplier of more than 31 bits
        ("CONV_2D", "tflm"),
        ("CONV_2D", "litert"),
        ("DEPTHWISE_CONV_2D", "tflm"),
        ("DEPTHWISE_CONV_2D", "litert"),
    ],
)
@pytest.mark.parametrize("block", range(4))
def test_near_ties_equal_the_oracles(kind: str, reference: str, block: int, tmp_path) -> None:
    """Weights of zero make the bias the accumulator: here the last bit of a multiplier shows."""
    for seed in range(20 * block, 20 * block + 20):
        rng = np.random.default_rng(seed)
        x_scale, w_scale = (log_uniform(rng, 1e-3, 1.0) for _ in range(2))
        multiplier = log_uniform(rng, 2e-7, 0.5)
        y_scale = float(np.float32(x_scale * w_scale / multiplier))
        zero_point = int(rng.choice([-128, 0, 17]))
        bias = near_ties(x_scale * w_scale / y_scale, zero_point)
        n = bias.size
        model = TfliteBuilder()
        spatial = () if kind == "FULLY_CONNECTED" else (1, 1)
        x = model.tensor("x", (1, *spatial, 1), "int8", scale=x_scale, zero_point=0)
        shape = {"FULLY_CONNECTED": (n, 1), "CONV_2D": (n, 1, 1, 1)}.get(kind, (1, 1, 1, n))
        zeros = np.zeros(shape, np.int8)
        w = model.tensor("w", shape, "int8", scale=w_scale, zero_point=0, data=zeros)
        b = model.tensor("b", (n,), "int32", scale=x_scale * w_scale, zero_point=0, data=bias)
        y = model.tensor("y", (1, *spatial, n), "int8", scale=y_scale, zero_point=zero_point)
        options = {
            "FULLY_CONNECTED": ("FullyConnectedOptions", {}),
            "CONV_2D": ("Conv2DOptions", STRIDES),
            "DEPTHWISE_CONV_2D": ("DepthwiseConv2DOptions", {**STRIDES, "DepthMultiplier": n}),
        }[kind]
        model.operator(kind, [x, w, b], [y], options[0], **options[1])
        assert_same_bits(model.build([x], [y]), tmp_path, seeds=(1,), reference=reference)


@pytest.mark.parametrize("x", ["int8", "int16", "int32"])
@pytest.mark.parametrize("y", ["int8", "int16", "int32"])
def test_integers_to_integers_equal_tflm(x: str, y: str, tmp_path) -> None:
    if (x, y) == ("int32", "int32"):
        return  # TFLite Micro has no such kernel
    for seed in range(8):
        rng = np.random.default_rng(seed)
        scale = log_uniform(rng, 1e-6, 1e-1)
        largest = {"int8": 127.0, "int16": 32767.0, "int32": 2.0**31}
        output = float(np.float32(scale * largest[x] / largest[y] * log_uniform(rng, 0.3, 3.0)))
        points = [int(rng.integers(-128, 128)) if d == "int8" else 0 for d in (x, y)]
        model = TfliteBuilder()
        a = model.tensor("a", (2, 300), x, scale=scale, zero_point=points[0])
        b = model.tensor("b", (2, 300), y, scale=output, zero_point=points[1])
        model.operator("QUANTIZE", [a], [b])
        check_operator(model.build([a], [b]), tmp_path, seed)


@pytest.mark.parametrize("factor", [1.0, 2.0, 128.0, 256.0])
def test_int8_times_a_power_of_two_equals_tflm(factor: float, tmp_path) -> None:
    """A product without a rounding, limited where int16 ends."""
    model = TfliteBuilder()
    a = model.tensor("a", (2, 300), "int8", scale=0.25, zero_point=-7)
    b = model.tensor("b", (2, 300), "int16", scale=0.25 / factor, zero_point=0)
    model.operator("QUANTIZE", [a], [b])
    check_operator(model.build([a], [b]), tmp_path, 0)


@pytest.mark.parametrize("keep", [0, 1])
def test_a_mean_of_everything_to_uint8(keep: int, tmp_path: Path) -> None:
    """A scalar, which one multiplier made an array of one element of."""
    text = f"""<ir_version: 9, opset_import: ["":17]>
    g (float[1,4,3] x) => (uint8[{"1,1,1" if keep else ""}] y)
    <float s = {{0.05}}, uint8 z = {{128}}> {{
        q = QuantizeLinear(x, s, z)
        d = DequantizeLinear(q, s, z)
        m = ReduceMean<keepdims={keep}>(d)
        y = QuantizeLinear(m, s, z)
    }}"""
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    x = np.random.default_rng(2).normal(size=(1, 4, 3)).astype(np.float32)
    result = verify_model(
        path, load_board("host"), Options(), "host", [[x], [-x]], tmp_path / "out"
    )
    assert result.beyond == 0, result.to_dict()["first_difference"]
