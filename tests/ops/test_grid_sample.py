"""grid_sample: C on any numbers, places far outside, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from official_cases import check_official_c

from edgec.errors import TypeMismatch
from edgec.graph.types import TensorType
from edgec.ops.grid_sample import PADDINGS, TAPS, GridSample, GridSampleAttrs

CASES = (
    "test_gridsample_bicubic_align_corners_1_additional_1", "test_gridsample_border_padding",
    "test_gridsample_nearest_align_corners_0_additional_1", "test_gridsample_reflection_padding",
    "test_gridsample_volumetric_bilinear_align_corners_0",
)  # fmt: skip
X, GRID = TensorType((1, 2, 3, 4), "float32"), TensorType((1, 5, 6, 2), "float32")


@pytest.mark.parametrize("name", CASES)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


def sampled(attrs: GridSampleAttrs, x: np.ndarray, places: list[float]) -> np.ndarray:
    grid = np.array(places, np.float32).reshape(1, -1, 1)
    types = [TensorType(v.shape, "float32") for v in (x, grid)]
    op = GridSample()
    (found,) = op.evaluate(attrs, [x, grid], types, op.infer(attrs, *types))
    return found.reshape(-1)


@pytest.mark.parametrize("kind", TAPS)
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("extent", [1, 2, 5])
def test_far_places(extent: int, padding: str, kind: str) -> None:
    x = np.full((1, 1, extent), 2, np.float32)
    attrs = GridSampleAttrs(kind, padding, corners=True)
    found = sampled(attrs, x, [-1e30, 1e30, -np.inf, np.inf, 1e9])
    assert np.isin(found[:2], (0,) if padding == "zeros" and extent > 1 else (2,)).all()


def test_places_between_and_at_elements() -> None:
    x = np.array([[[0, 1, 4, 9, 16]]], np.float32)
    places = [-1, -0.5, 0, 0.25, 1]
    found = sampled(GridSampleAttrs("linear", corners=True), x, places)
    np.testing.assert_allclose(found, [0, 1, 4, 6.5, 16], rtol=1e-6)
    found = sampled(GridSampleAttrs("nearest", corners=True), x, places)
    np.testing.assert_array_equal(found, [0, 1, 4, 4, 16])  # 2.5 is rounded to even


@pytest.mark.parametrize(
    ("x", "grid", "attrs", "message"),
    [
        (TensorType((1, 2, 3, 4), "int8"), GRID, GridSampleAttrs(), "both must be float32"),
        (X, TensorType((1, 5, 6, 3), "float32"), GridSampleAttrs(), "a coordinate for each axis"),
        (X, TensorType((2, 5, 6, 2), "float32"), GridSampleAttrs(), "grid_sample of"),
        (X, GRID, GridSampleAttrs("area"), "'area'"),
        (X, GRID, GridSampleAttrs(padding="wrap"), "'wrap'"),
    ],
)
def test_refusals(x: TensorType, grid: TensorType, attrs: GridSampleAttrs, message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        GridSample().infer(attrs, x, grid)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_equals_onnxruntime_around_the_border(mode: str, padding: str) -> None:
    text = f"""<ir_version: 9, opset_import: ["":20]>
    net (float[1,1,5,7] x, float[1,6,6,2] grid) => (float[1,1,6,6] y)
    {{ y = GridSample<mode = "{mode}", padding_mode = "{padding}">(x, grid) }}"""
    model = onnx.parser.parse_model(text).SerializeToString()
    random = np.random.default_rng(2)
    x = random.normal(size=(1, 1, 5, 7)).astype(np.float32)
    grid = (1.5 * random.normal(size=(1, 6, 6, 2))).astype(np.float32)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"x": x, "grid": grid})
    attrs = GridSampleAttrs(mode, padding)
    op, types = GridSample(), [TensorType(v.shape, "float32") for v in (x, grid)]
    (found,) = op.evaluate(attrs, [x, grid], types, op.infer(attrs, *types))
    np.testing.assert_allclose(found, wanted, atol=2e-6)
