"""FULLY_CONNECTED and CONV_2D by computed weights, against LiteRT and by C."""

from __future__ import annotations

from pathlib import Path

from tflite_cases import Case, In, Out, check, check_by_c


def computed() -> list[Case]:
    made = []
    for padding, extent in ((0, 3), (1, 2)):
        fields = {"Padding": padding, "StrideW": 2, "StrideH": 2, "FusedActivationFunction": 1}
        made.append(Case("CONV_2D", [In((1, 5, 5, 2)), In((3, 3, 3, 2)), In((3,))],
                         [Out((1, extent, extent, 3))], "Conv2DOptions", fields,
                         near=1e-6))  # fmt: skip
    made.append(Case("FULLY_CONNECTED", [In((2, 3, 4)), In((5, 4)), In((5,))], [Out((6, 5))],
                     "FullyConnectedOptions", near=1e-6))  # fmt: skip
    return made


CASES = computed()


def test_as_litert(tmp_path: Path) -> None:
    check(CASES, "litert", tmp_path)


def test_by_c(tmp_path: Path) -> None:
    check_by_c(CASES, "litert", tmp_path)
