"""SVDF of floats, with its memory, against TFLite Micro and LiteRT, and by C."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_tflite_recurrent import hybrid
from tflite_cases import Case, In, Out, check, check_by_c, const, rng


def svdf(batch: int, units: int, rank: int, length: int, activation: int, bias: bool) -> Case:
    filters = units * rank
    operands = [
        In((batch, 6)), const(rng.uniform(-1, 1, (filters, 6))),
        const(rng.uniform(-1, 1, (filters, length))),
        *([const(rng.uniform(-1, 1, units))] if bias else []),
        In((batch, filters * length), variable=True),
    ]  # fmt: skip
    return Case("SVDF", operands, [Out((batch, units))], "SVDFOptions",
                {"Rank": rank, "FusedActivationFunction": activation}, near=1e-6,
                absent=() if bias else (3,))  # fmt: skip


CASES = [svdf(1, 4, 1, 3, 0, True), svdf(2, 3, 2, 4, 1, True), svdf(1, 2, 2, 1, 0, False)]


@pytest.mark.parametrize("reference", ["tflm", "litert"])
def test_as_the_interpreters(reference: str, tmp_path: Path) -> None:
    """TFLite Micro crashes without a bias."""
    check(CASES if reference == "litert" else CASES[:2], reference, tmp_path)


def test_by_c(tmp_path: Path) -> None:
    check_by_c(CASES, "tflm", tmp_path)


def test_hybrid_as_litert(tmp_path: Path) -> None:
    """By weights of int8: TFLite Micro has no such kernel."""
    check([hybrid(case, way) for case in CASES for way in (False, True)], "litert", tmp_path)
