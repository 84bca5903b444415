"""ONNX Resize and PRelu near ONNX Runtime, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_cases import float_values
from single_node import check_against_onnxruntime, check_nests, save_node

SIZES = [(6, 10), (3, 7), (9, 7), (2, 3), (13, 4)]


def resized(
    path: Path, x: np.ndarray, size: tuple[int, int], *, opset: int = 17, **attributes: Any
) -> Path:
    sizes = np.asarray([*x.shape[:2], *size], np.int64)
    constants = {"roi": None, "scales": None, "sizes": sizes}
    return save_node(path, "Resize", x, constants, opset=opset, **attributes)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    "coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"]
)
def test_bilinear(coordinates: str, size: tuple[int, int], tmp_path: Path) -> None:
    x = float_values((1, 2, 3, 5))
    path = resized(
        tmp_path / "m.onnx", x, size, mode="linear", coordinate_transformation_mode=coordinates
    )
    check_nests(check_against_onnxruntime(path, x, 1e-6), [x])


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(
    ("coordinates", "rounding"),
    [
        ("asymmetric", "floor"),
        ("half_pixel", "round_prefer_ceil"),
        ("align_corners", "round_prefer_ceil"),
    ],
)
def test_nearest(coordinates: str, rounding: str, size: tuple[int, int], tmp_path: Path) -> None:
    x = float_values((2, 3, 3, 5))
    path = resized(
        tmp_path / "m.onnx", x, size, mode="nearest", nearest_mode=rounding,
        coordinate_transformation_mode=coordinates,
    )  # fmt: skip
    check_nests(check_against_onnxruntime(path, x), [x])


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_image_of_the_same_size_keeps_infinities(
    mode: str, coordinates: str, tmp_path: Path
) -> None:
    x = float_values((1, 2, 3, 5))
    x[0, 1, 1, 2:4] = np.inf, np.nan
    path = resized(
        tmp_path / "m.onnx", x, (3, 5), mode=mode, coordinate_transformation_mode=coordinates
    )
    check_against_onnxruntime(path, x)


@pytest.mark.parametrize("opset", [10, 11, 13])
def test_scales(opset: int, tmp_path: Path) -> None:
    x = float_values((1, 2, 3, 5))
    scales = np.asarray([1, 1, 2, 3], np.float32)
    constants = {"scales": scales} if opset == 10 else {"roi": np.zeros(0, np.float32),
                                                        "scales": scales}  # fmt: skip
    path = save_node(tmp_path / "m.onnx", "Resize", x, constants, opset=opset, mode="nearest")
    check_against_onnxruntime(path, x)


@pytest.mark.parametrize("shape", [(4, 1, 1), (1,), (1, 4, 1, 1), (4, 3, 5)], ids=str)
def test_prelu(shape: tuple[int, ...], tmp_path: Path) -> None:
    x = float_values((1, 4, 3, 5))
    slope = np.random.default_rng(2).normal(0, 1, shape).astype(np.float32)
    path = save_node(tmp_path / "m.onnx", "PRelu", x, {"slope": slope})
    check_nests(check_against_onnxruntime(path, x), [x])
