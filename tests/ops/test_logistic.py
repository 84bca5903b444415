"""logistic: TFLite Micro's int8 LOGISTIC, every stored value at many scales."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from all_values import check_all_values
from one_operator import Operand, check_operator, one_operator
from quantized_cases import log_uniform, random_zero_point

from edgec.errors import TypeMismatch
from edgec.graph.types import Quant, TensorType
from edgec.ops.logistic import OUTPUT_QUANT, Logistic, LogisticAttrs


@pytest.mark.parametrize("block", range(3))
def test_every_value_equals_tflm(block: int, tmp_path: Path) -> None:
    for seed in range(15 * block, 15 * block + 15):
        rng = np.random.default_rng(seed)
        x = (log_uniform(rng, 1e-4, 1.0), random_zero_point(rng))
        check_all_values("LOGISTIC", x, (1 / 256, -128), tmp_path)


@pytest.mark.parametrize(
    ("attrs", "x", "message"),
    [
        (LogisticAttrs(OUTPUT_QUANT), TensorType((2,), "uint8", Quant((1.0,), (0,))), "needs int8"),
        (LogisticAttrs(), TensorType((2,), "int8", Quant((1.0,), (0,))), "needs an output"),
        (
            LogisticAttrs(Quant((0.5,), (0,))),
            TensorType((2,), "int8", Quant((1.0,), (0,))),
            "output scale",
        ),
        (LogisticAttrs(OUTPUT_QUANT), TensorType((2,), "int8", Quant((1e-9,), (0,))), "under 2"),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, x, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Logistic().infer(attrs, x)


@pytest.mark.parametrize("scale", [2.0**-12, 2.0**-11, 3e-5, 1e-4, 7.7e-4, 0.003, 0.1, 2.0])
def test_int16_equals_tflm(scale: float, tmp_path: Path) -> None:
    data = one_operator(
        "LOGISTIC",
        [Operand((4, 600), "int16", scale)],
        [Operand((4, 600), "int16", 1 / 32768)],
    )
    check_operator(data, tmp_path)
