"""mul: TFLite Micro's int8 and int16 MUL in every bit, also broadcast and with activations."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from quantized_cases import log_uniform, random_activation, random_zero_point
from single_node import check_against_onnxruntime, check_nests, save_node

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.mul import Mul, MulAttrs

Q = Quant((0.1,), (0,))
SHAPES = [
    ((3, 50), (3, 50), (3, 50)),
    ((1, 4, 5, 6), (1, 1, 1, 6), (1, 4, 5, 6)),
    ((1, 4, 1, 6), (1, 1, 5, 1), (1, 4, 5, 6)),
    ((2, 40), (1, 1), (2, 40)),
]


def product(seed: int, dtype: str) -> bytes:
    rng = np.random.default_rng(seed)
    a, b, y = SHAPES[int(rng.integers(len(SHAPES)))]
    full = 128 if dtype == "int8" else 32768
    scales = [log_uniform(rng, 1e-3, 1.0) for _ in range(2)]
    output = float(np.float32(scales[0] * scales[1] * full * log_uniform(rng, 0.1, 2.0)))
    points = [random_zero_point(rng) if dtype == "int8" else 0 for _ in range(3)]
    data = None
    if rng.random() < 0.3:
        data = rng.integers(-full, full, b).astype(dtype)
    return one_operator(
        "MUL",
        [Operand(a, dtype, scales[0], points[0]), Operand(b, dtype, scales[1], points[1], data)],
        [Operand(y, dtype, output, points[2])],
        "MulOptions",
        FusedActivationFunction=random_activation(rng),
    )


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("block", range(4))
def test_random_products_equal_tflm(dtype: str, block: int, tmp_path: Path) -> None:
    for seed in range(15 * block, 15 * block + 15):
        check_operator(product(seed, dtype), tmp_path, seed)


def test_float_products_equal_onnxruntime(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0, 1, (2, 3, 4)).astype(np.float32)
    other = rng.normal(0, 1, (3, 1)).astype(np.float32)
    path = save_node(tmp_path / "m.onnx", "Mul", x, {"other": other})
    check_nests(check_against_onnxruntime(path, x), [x])


@pytest.mark.parametrize(
    ("attrs", "a", "b", "message"),
    [
        (MulAttrs(), TensorType((2,), "int8"), TensorType((2,), "int8"), "quantized int8"),
        (MulAttrs(), TensorType((2,), "float32"), TensorType((3,), "float32"), r"\[2\] and \[3\]"),
        (MulAttrs(), TensorType((2,), "float32"), TensorType((2,), "int8"), "float32 and int8"),
        (
            MulAttrs(Q),
            TensorType((2,), "int16", Quant((0.1,), (1,))),
            TensorType((2,), "int16", Q),
            "zero points of 0",
        ),
        (
            MulAttrs(Q, rounding="onnx"),
            TensorType((2,), "int16", Quant((0.1,), (0,))),
            TensorType((2,), "int16", Quant((0.1,), (0,))),
            "not defined",
        ),
        (
            MulAttrs(Quant((1e-7,), (0,)), rounding="onnx"),
            TensorType((2,), "int8", Q),
            TensorType((2,), "int8", Q),
            "scale is too small",
        ),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, a, b, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Mul().infer(attrs, a, b)
