"""TFLite's complex numbers, against LiteRT and by C."""

from __future__ import annotations

from pathlib import Path

import pytest
from tflite_cases import Case, In, Out, check, check_by_c, in_builds, ints


def complex_numbers() -> list[Case]:
    made = []
    for kind in ("REAL", "IMAG", "COMPLEX_ABS"):
        for length in (4, 8):
            out = (2, length // 2, length // 2 + 1)
            made.append(
                Case(
                    "RFFT2D",
                    [In((2, 3, 5)), ints(length // 2, length)],
                    [Out(out, "complex64")],
                    then=(kind, Out(out)),
                    near=1e-6,
                )
            )
    return made


CASES = complex_numbers()


def test_as_litert(tmp_path: Path) -> None:
    check(CASES, "litert", tmp_path)


@pytest.mark.parametrize("cases", in_builds(CASES), ids=lambda cases: cases[0].kind)
def test_by_c(cases: list[Case], tmp_path: Path) -> None:
    check_by_c(cases, "litert", tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("cases", in_builds(CASES, every=True), ids=lambda cases: cases[0].kind)
def test_all_by_c(cases: list[Case], tmp_path: Path) -> None:
    check_by_c(cases, "litert", tmp_path)
