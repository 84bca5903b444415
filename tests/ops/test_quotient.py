"""quotient: TFLite's DIV of stored integers in every bit, and what it leaves open."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from single_node import check_nests
from tflite_cases import Case, In, Out, check, check_by_c, in_builds

from edgec import ops
from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.operator import get_op
from edgec.graph.types import Quant, TensorType
from edgec.ops.quotient import Quotient, QuotientAttrs

ops.load()
SHAPE = (3, 70)
A = In(SHAPE, "int8", scale=0.05, zero_point=-7)
WIDE = In(SHAPE, "int16", 2048, 32000, scale=0.0004, zero_point=0)
OUT = Out(SHAPE, "int8", scale=0.02, zero_point=5)


def below(shape: tuple[int, ...]) -> In:
    """A divisor below 0."""
    return In(shape, "int8", -120, 90, scale=0.01, zero_point=100)


def above(shape: tuple[int, ...], low: int = -120) -> In:
    """A divisor above 0."""
    return In(shape, "int8", low, 127, scale=0.031, zero_point=-128)


MICRO = [
    Case("DIV", [A, above(SHAPE)], [OUT], "DivOptions"),
    Case("DIV", [A, above((70,))], [OUT], "DivOptions"),
    Case("DIV", [A, below(SHAPE)], [Out(SHAPE, "int8", scale=0.07, zero_point=-3)], "DivOptions"),
    Case("DIV", [A, below((3, 1))], [OUT], "DivOptions", {"FusedActivationFunction": 1}),
]
WIDER = [
    Case("DIV", [WIDE, In(SHAPE, "int16", low, low + 20000, scale=0.0001, zero_point=0)],
         [Out(SHAPE, "int16", scale=2e-3, zero_point=0)], "DivOptions")
    for low in (200, -20500)
]  # fmt: skip


def test_as_tflite_micro(tmp_path: Path) -> None:
    check(MICRO, "tflm", tmp_path)


def test_int16_as_litert(tmp_path: Path) -> None:
    check(WIDER, "litert", tmp_path)


@pytest.mark.parametrize("cases", in_builds([*MICRO, *WIDER]), ids=lambda cases: cases[0].kind)
def test_by_c(cases: list[Case], tmp_path: Path) -> None:
    check_by_c(cases, "tflm", tmp_path)


def test_all_pairs_are_near_the_real_quotient() -> None:
    """By 0 it is the limit; what TFLite shifts by more than 31 bits is 0, and all else half off."""
    b = GraphBuilder()
    x, y, out = Quant((0.04,), (3,)), Quant((0.02,), (-9,)), Quant((0.25,), (1,))
    operands = np.arange(-128, 128, dtype=np.int8)
    values = [b.param(name, TensorType(shape, "int8", quant))
              for name, shape, quant in (("x", (256, 1), x), ("y", (1, 256), y))]  # fmt: skip
    function = b.finish([b.op("quotient", values, QuotientAttrs(out), name="q")])
    given = [operands[:, None], operands[None]]
    (found,) = interpret(function, given)
    with np.errstate(divide="ignore", invalid="ignore"):
        real = (given[0].astype(float) - 3) * 0.04 / ((given[1].astype(float) + 9) * 0.02)
    wanted = np.clip(np.nan_to_num(real / 0.25, posinf=999, neginf=-999) + 1, -128, 127)
    assert np.abs(found - wanted).max() < 0.5001
    assert np.count_nonzero(found == 127) > 1000 and found[131, 119] == 1  # 0 / 0
    check_nests(function, given)


def test_what_has_no_quotient() -> None:
    op, q = get_op(Quotient), Quant((0.1,), (0,))
    a = TensorType((2,), "int8", q)
    with pytest.raises(TypeMismatch, match="int8 or int16"):
        op.infer(QuotientAttrs(q), a, TensorType((2,), "int16", q))
    with pytest.raises(TypeMismatch, match="per tensor"):
        op.infer(QuotientAttrs(Quant((0.1, 0.2), (0, 0), 0)), a, a)
    with pytest.raises(TypeMismatch, match="does not fit"):
        op.infer(QuotientAttrs(q, -300, 127), a, a)
    with pytest.raises(TypeMismatch, match="scale is too small"):
        op.infer(QuotientAttrs(Quant((1e-8,), (0,))), a, a)
    with pytest.raises(TypeMismatch, match="between scales"):
        op.infer(QuotientAttrs(Quant((1e-30,), (0,))), a, a)
