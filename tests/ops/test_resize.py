"""resize: RESIZE_NEAREST_NEIGHBOR and RESIZE_BILINEAR as TFLite Micro in every bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.resize import Resize, ResizeAttrs

MODES = [(False, False), (True, False), (False, True)]


def resized(kind: str, seed: int, mode: tuple[bool, bool], dtype: str = "int8") -> bytes:
    rng = np.random.default_rng(seed)
    batch, height, width, channels = rng.integers(1, [3, 9, 9, 6]).tolist()
    size = rng.integers(1, 14, 2).tolist()
    if seed % 4 == 0:
        size = [2 * height, 3 * width]
    options = {
        "RESIZE_BILINEAR": "ResizeBilinearOptions",
        "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions",
    }[kind]
    return one_operator(
        kind,
        [Operand((batch, height, width, channels), dtype), Operand.integers(size)],
        [Operand((batch, *size, channels), dtype)],
        options,
        AlignCorners=mode[0],
        HalfPixelCenters=mode[1],
    )


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("kind", ["RESIZE_NEAREST_NEIGHBOR", "RESIZE_BILINEAR"])
def test_random_sizes_equal_tflm(kind: str, mode: tuple[bool, bool], tmp_path: Path) -> None:
    for seed in range(25):
        check_operator(resized(kind, seed, mode), tmp_path, seed)


@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_nearest_neighbours_of_other_types_equal_tflm(dtype: str, tmp_path: Path) -> None:
    for seed in range(4):
        data = resized("RESIZE_NEAREST_NEIGHBOR", seed, (False, True), dtype)
        check_operator(data, tmp_path, seed)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_float_interpolation_equals_tflm(mode: tuple[bool, bool], tmp_path: Path) -> None:
    for seed in range(15):
        check_operator(resized("RESIZE_BILINEAR", seed, mode, "float32"), tmp_path, seed)


@pytest.mark.parametrize(
    ("attrs", "x", "message"),
    [
        (ResizeAttrs((2, 2), "nearest"), TensorType((2, 2), "int8"), "resize of"),
        (ResizeAttrs((0, 2), "nearest"), TensorType((1, 2, 2, 1), "int8"), "resize of"),
        (ResizeAttrs((2, 2), "cubic"), TensorType((1, 2, 2, 1), "int8"), "unknown method"),
        (
            ResizeAttrs((2, 2), "nearest", True, True),
            TensorType((1, 2, 2, 1), "int8"),
            "aligned corners",
        ),
        (ResizeAttrs((2, 2), "bilinear"), TensorType((1, 2, 2, 1), "int32"), "only int8"),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, x, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Resize().infer(attrs, x)
