"""check_limits: extents that are cheap to claim and too large to run are refused with words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, one_operator
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.graph.limits import MOST_ELEMENTS
from edgec.options import Options
from edgec.pipeline import compile_model
from edgec.targets.core import host_core


def failure(data: bytes, folder: Path) -> ImportFailed:
    path = folder / "large.tflite"
    path.write_bytes(data)
    with pytest.raises(ImportFailed, match="too large") as caught:
        compile_model(path, host_core(), Options())
    return caught.value


def test_values_with_too_many_elements(tmp_path: Path) -> None:
    shape = (1, 1 << 12, (1 << 12) + 1, 1)
    data = one_operator("ADD", [Operand(shape), Operand(shape)], [Operand(shape)], "AddOptions")
    found = failure(data, tmp_path)
    assert len(found.details) == 3 and f"at most {MOST_ELEMENTS:,}" in found.details[2]


@pytest.mark.parametrize(
    ("extent", "kernel", "words"), [(4000, 31, "windows read"), (4000, 200, "multiply-accumulates")]
)
def test_convolutions_with_too_much_work(
    extent: int, kernel: int, words: str, tmp_path: Path
) -> None:
    model = TfliteBuilder()
    x = model.tensor("x", (1, extent, extent, 1), "int8", scale=0.1, zero_point=0)
    weights = np.ones((1, kernel, kernel, 1), np.int8)
    w = model.tensor("w", weights.shape, "int8", scale=0.1, data=weights)
    y = model.tensor("y", (1, extent, extent, 1), "int8", scale=9.0, zero_point=0)
    model.operator("CONV_2D", [x, w, -1], [y], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1,
                   DilationWFactor=1, DilationHFactor=1)  # fmt: skip
    (detail,) = failure(model.build([x], [y]), tmp_path).details
    assert words in detail
