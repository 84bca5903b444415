"""Scales of TFLite files whose factor no 31-bit multiplier and shift can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from one_operator import Operand, one_operator

from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import find_core

SMALL, LARGE = 1e-7, 1e7


def dense(scale: float, dtype: str = "int8") -> bytes:
    weights = Operand((4, 8), "int8", 0.05, data=np.arange(32, dtype=np.int8).reshape(4, 8))
    bias = Operand.integers([1, -2, 3, 4])
    return one_operator(
        "FULLY_CONNECTED", [Operand((1, 8), dtype, LARGE), weights, bias],
        [Operand((1, 4), dtype, scale)], "FullyConnectedOptions",
    )  # fmt: skip


def pair(kind: str, options: str, scale: float) -> bytes:
    given = Operand((1, 8), scale=LARGE)
    return one_operator(kind, [given, given], [Operand((1, 8), scale=scale)], options)


def one(kind: str, scale: float, *more: Operand) -> bytes:
    return one_operator(kind, [Operand((1, 8), scale=LARGE), *more], [Operand((1, 8), scale=scale)])


TOO_LARGE = {
    "FULLY_CONNECTED": dense(SMALL),
    "MUL": pair("MUL", "MulOptions", SMALL),
    "PRELU": one("PRELU", SMALL, Operand((8,), data=np.arange(8, dtype=np.int8))),
    "QUANTIZE": one("QUANTIZE", SMALL),
    "MEAN": one_operator(
        "MEAN",
        [Operand((1, 8), scale=LARGE), Operand.integers([1])],
        [Operand((1,), scale=SMALL)],
        "ReducerOptions",
    ),
}


@pytest.mark.parametrize("kind", TOO_LARGE)
def test_factors_beyond_the_shift_are_refused_by_the_node(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(TOO_LARGE[kind])
    with pytest.raises(EdgecError) as caught:
        import_model(path)
    said = caught.value.render()
    assert "between scales is too large" in said and "y0" in said, said
    with pytest.raises(EdgecError):
        compile_model(path, find_core("cortex-m4"), Options())


@pytest.mark.parametrize("scale", [3e14, 1e20])
def test_factors_below_the_shift_give_zero_as_in_tflite(scale: float, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro", reason="tflite_micro is not installed (edgec[verify])")
    assert_same_bits(dense(scale), tmp_path)
