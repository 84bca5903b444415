"""prelu: TFLite Micro's int8 and float PRELU in every bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from quantized_cases import log_uniform, random_zero_point

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.prelu import Prelu, PreluAttrs

Q = Quant((0.1,), (0,))


def model(seed: int, dtype: str) -> bytes:
    rng = np.random.default_rng(seed)
    shape = (1, 4, 5, 6)
    slopes = [(1, 1, 6), (1, 4, 5, 6), (1, 1, 1, 1)][seed % 3]
    if dtype == "int8":
        alpha = rng.integers(-128, 128, slopes).astype(np.int8)
    else:
        alpha = rng.normal(0, 1, slopes).astype(np.float32)
    quants = [(log_uniform(rng, 1e-2, 0.1), random_zero_point(rng)) for _ in range(3)]
    return one_operator(
        "PRELU",
        [Operand(shape, dtype, *quants[0]), Operand(slopes, dtype, *quants[1], alpha)],
        [Operand(shape, dtype, *quants[2])],
    )


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_random_slopes_equal_tflm(dtype: str, tmp_path: Path) -> None:
    for seed in range(20):
        check_operator(model(seed, dtype), tmp_path, seed)


@pytest.mark.parametrize(
    ("attrs", "x", "alpha", "message"),
    [
        (PreluAttrs(Q), TensorType((2,), "int8", Q), TensorType((3, 2), "int8", Q), "by"),
        (PreluAttrs(), TensorType((2,), "int8", Q), TensorType((2,), "int8", Q), "quantized int8"),
        (PreluAttrs(Q), TensorType((2,), "int8"), TensorType((2,), "int8", Q), "per tensor"),
        (
            PreluAttrs(Q, "onnx"),
            TensorType((2,), "int8", Q),
            TensorType((2,), "int8", Q),
            "not defined",
        ),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, x, alpha, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Prelu().infer(attrs, x, alpha)
