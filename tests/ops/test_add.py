"""add and sub: TFLite Micro's int8 and int16 ADD and SUB in every bit, also broadcast and with
fused activations."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits
from one_operator import check_operator
from quantized_cases import log_uniform, random_activation, random_zero_point
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.add import Add, AddAttrs, Sub

SHAPES = [
    ((3, 50), (3, 50), (3, 50)),
    ((1, 4, 5, 6), (1, 4, 5, 6), (1, 4, 5, 6)),
    ((1, 4, 5, 6), (1, 1, 1, 6), (1, 4, 5, 6)),
    ((1, 4, 1, 6), (1, 1, 5, 1), (1, 4, 5, 6)),
    ((2, 40), (1, 1), (2, 40)),
]


def add_model(seed: int, kind: str = "ADD", dtype: str = "int8") -> bytes:
    rng = np.random.default_rng(seed)
    shapes = SHAPES[int(rng.integers(len(SHAPES)))]
    scales = [log_uniform(rng, 1e-3, 1.0) for _ in range(2)]
    if rng.random() < 0.2:
        scales[1] = scales[0]
    output_scale = float(np.float32(max(scales) * log_uniform(rng, 0.2, 4.0)))
    model = TfliteBuilder()
    a, b, y = (
        model.tensor(name, shape, dtype, scale=scale,
                     zero_point=random_zero_point(rng) if dtype == "int8" else 0)
        for name, shape, scale in zip("aby", shapes, [*scales, output_scale], strict=True)
    )  # fmt: skip
    options = f"{kind.title()}Options"
    model.operator(kind, [a, b], [y], options, FusedActivationFunction=random_activation(rng))
    return model.build([a, b], [y])


@pytest.mark.parametrize("block", range(12))
def test_random_sums_equal_tflm(block: int, tmp_path) -> None:
    for seed in range(25 * block, 25 * block + 25):
        assert_same_bits(add_model(seed), tmp_path)


@pytest.mark.parametrize(("kind", "dtype"), [("ADD", "int16"), ("SUB", "int8"), ("SUB", "int16")])
def test_int16_sums_and_differences_equal_tflm(kind: str, dtype: str, tmp_path) -> None:
    for seed in range(40):
        data = add_model(seed, kind, dtype)
        if seed < 6:
            check_operator(data, tmp_path)  # the loop nests too
        else:
            assert_same_bits(data, tmp_path)


@pytest.mark.parametrize("kind", ["ADD", "SUB"])
@pytest.mark.parametrize("seed", range(5))
def test_all_pairs_of_stored_values_equal_tflm(seed: int, kind: str, tmp_path) -> None:
    from edgec.frontends import import_model
    from edgec.graph.interpret import interpret
    from edgec.oracle.frameworks import open_oracle

    rng = np.random.default_rng(seed)
    model = TfliteBuilder()
    a, b, y = (
        model.tensor(name, (256, 256), "int8", scale=log_uniform(rng, 0.01, 0.2),
                     zero_point=random_zero_point(rng))
        for name in "aby"
    )  # fmt: skip
    model.operator(kind, [a, b], [y], f"{kind.title()}Options")
    path = tmp_path / "pairs.tflite"
    path.write_bytes(model.build([a, b], [y]))
    values = np.arange(-128, 128).astype(np.int8)
    inputs = [np.repeat(values, 256).reshape(256, 256), np.tile(values, (256, 1))]
    (mine,) = interpret(import_model(path).main, inputs)
    assert np.array_equal(mine, open_oracle(path).run(inputs).outputs[0])


def test_constant_operand(tmp_path) -> None:
    model = TfliteBuilder()
    a = model.tensor("a", (2, 3), "int8", scale=0.1, zero_point=2)
    b = model.tensor("b", (3,), "int8", scale=0.2, zero_point=0, data=np.array([1, 2, 3], np.int8))
    y = model.tensor("y", (2, 3), "int8", scale=0.3, zero_point=1)
    model.operator("ADD", [a, b], [y], "AddOptions")
    assert_same_bits(model.build([a], [y]), tmp_path)


def test_float_meaning() -> None:
    a = np.array([[1.5, 2.5]], np.float32)
    b = np.array([[1.0], [2.0]], np.float32)
    types = [TensorType(x.shape, "float32") for x in (a, b)]
    output = Add().infer(AddAttrs(), *types)
    (result,) = Add().evaluate(AddAttrs(), [a, b], types, output)
    assert output[0].shape == (2, 2)
    assert result.tolist() == [[2.5, 3.5], [3.5, 4.5]]
    (result,) = Sub().evaluate(AddAttrs(), [a, b], types, output)
    assert result.tolist() == [[0.5, 1.5], [-0.5, 0.5]]


@pytest.mark.parametrize(
    ("attrs", "a", "b", "message"),
    [
        (AddAttrs(), TensorType((2,), "int8"), TensorType((2,), "int8"), "quantized int8"),
        (AddAttrs(), TensorType((2,), "float32"), TensorType((3,), "float32"), r"\[2\] and \[3\]"),
        (AddAttrs(), TensorType((2,), "float32"), TensorType((2,), "int8"), "float32 and int8"),
        (
            AddAttrs(Quant((1e-9,), (0,))),
            TensorType((2,), "int8", Quant((1.0,), (0,))),
            TensorType((2,), "int8", Quant((1.0,), (0,))),
            "too small",
        ),
        (
            AddAttrs(Quant((1.0,), (0,)), -32768, 32767),
            TensorType((2,), "int16", Quant((1.0,), (3,))),
            TensorType((2,), "int16", Quant((1.0,), (0,))),
            "add of int16 needs zero points of 0",
        ),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, a, b, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Add().infer(attrs, a, b)
