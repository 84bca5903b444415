"""integer_root: L2_NORMALIZATION of int8 and RSQRT of int16 in TFLite Micro's bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_cases import Case, In, Out, check, check_by_c, in_builds

from edgec.errors import TypeMismatch
from edgec.graph.operator import get_op
from edgec.graph.types import Quant, TensorType
from edgec.ops.integer_root import IntegerRoot, IntegerRootAttrs

NORM = Out((3, 50), "int8", scale=1 / 128, zero_point=0)
ZEROS = np.full((3, 50), -7, np.int8)
MICRO = [
    Case("L2_NORMALIZATION", [In((3, 50), "int8", low, 9, scale=0.05, zero_point=-7)], [NORM],
         "L2NormOptions")
    for low in (-128, -8)
] + [
    Case("L2_NORMALIZATION", [In((3, 50), "int8", scale=0.05, zero_point=-7, values=ZEROS)], [NORM],
         "L2NormOptions"),
    Case("L2_NORMALIZATION", [In((2, 3, 4, 1), "int8", scale=0.05, zero_point=3)],
         [Out((2, 3, 4, 1), "int8", scale=1 / 128, zero_point=0)], "L2NormOptions"),
    *(Case("RSQRT", [In((3, 50), "int16", 1, most, scale=0.001, zero_point=0)],
           [Out((3, 50), "int16", scale=scale, zero_point=0)])
      for most, scale in ((32767, 0.001), (40, 0.0007))),
]  # fmt: skip


def test_as_tflite_micro(tmp_path: Path) -> None:
    check(MICRO, "tflm", tmp_path)


@pytest.mark.parametrize("cases", in_builds(MICRO), ids=lambda cases: cases[0].kind)
def test_by_c(cases: list[Case], tmp_path: Path) -> None:
    check_by_c(cases, "tflm", tmp_path)


def test_types() -> None:
    op, x = get_op(IntegerRoot), TensorType((2,), "int8", Quant((0.1,), (0,)))
    with pytest.raises(TypeMismatch, match="needs int16"):
        op.infer(IntegerRootAttrs(Quant((0.1,), (0,))), x)
    with pytest.raises(TypeMismatch, match="of rows of"):
        op.infer(IntegerRootAttrs(Quant((0.1,), (0,)), True), x)
