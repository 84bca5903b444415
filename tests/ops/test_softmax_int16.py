"""softmax_int16: TFLite Micro's SOFTMAX of int16 in every bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from quantized_cases import log_uniform

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.softmax_int16 import SoftmaxInt16, SoftmaxInt16Attrs


def test_random_rows_equal_tflm(tmp_path: Path) -> None:
    for seed in range(30):
        rng = np.random.default_rng(seed)
        shape = (int(rng.integers(1, 5)), int(rng.choice([1, 2, 3, 10, 200])))
        data = one_operator(
            "SOFTMAX",
            [Operand(shape, "int16", log_uniform(rng, 1e-5, 1e-1))],
            [Operand(shape, "int16", 1 / 32768)],
            "SoftmaxOptions",
            Beta=float(rng.choice([1.0, 0.5, 2.0])),
        )
        check_operator(data, tmp_path, seed)


@pytest.mark.parametrize(
    ("beta", "x", "message"),
    [
        (1.0, TensorType((2, 3), "int8", Quant((1.0,), (0,))), "needs int16"),
        (1.0, TensorType((2, 3), "int16"), "quantized per tensor"),
        (1e9, TensorType((2, 3), "int16", Quant((1.0,), (0,))), "out of range"),
        (1.0, TensorType((1, 1 << 17), "int16", Quant((1.0,), (0,))), "over 131072 elements"),
    ],
)
def test_infer_refuses_what_has_no_meaning(beta: float, x: TensorType, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        SoftmaxInt16().infer(SoftmaxInt16Attrs(beta), x)
