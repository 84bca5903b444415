"""resample: C on any numbers; its answers are compared by `test_onnx_node_cases.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from official_cases import check_official_c
from single_node import save_node

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.resample import Resample
from edgec.ops.scattered import AxisAttrs

CASES = (
    "test_resize_downsample_scales_cubic_antialias", "test_resize_tf_crop_and_resize_axes_3_2",
    "test_resize_upsample_scales_cubic_A_n0p5_exclude_outside",
    "test_resize_tf_crop_and_resize_extrapolation_value",
)  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_any_rank(mode: str, rank: int, tmp_path: Path) -> None:
    """A constant image stays one, whatever its axes."""
    x = np.full((2, 3, 4, 3, 2)[:rank], 1.5, np.float32)
    sizes = [extent + 2 for extent in x.shape]
    constants = {"roi": np.zeros(0, np.float32), "scales": np.zeros(0, np.float32),
                 "sizes": np.array(sizes, np.int64)}  # fmt: skip
    path = save_node(tmp_path / "m.onnx", "Resize", x, constants, opset=18, mode=mode)
    (found,) = interpret(import_model(path).main, [x])
    assert list(found.shape) == sizes
    np.testing.assert_allclose(found, 1.5, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"mode": "area"}, "mode 'area'"),
        ({"coordinate_transformation_mode": "corner"}, "coordinates 'corner'"),
        ({"nearest_mode": "up"}, "nearest_mode 'up'"),
        ({"axes": [0]}, "2 sizes or scales for 1 axes"),
    ],
)
def test_what_is_unknown(given: dict[str, object], message: str, tmp_path: Path) -> None:
    constants = {"roi": np.zeros(0, np.float32), "scales": np.array([1.0, 2.0], np.float32)}
    x = np.zeros((2, 3), np.float32)
    path = save_node(tmp_path / "m.onnx", "Resize", x, constants, opset=18, **given)
    with pytest.raises(ImportFailed) as refused:
        import_model(path)
    assert message in refused.value.details[0]


@pytest.mark.parametrize(
    ("shapes", "axis"), [(((3, 2), (3, 1)), 0), (((3, 2), (3, 2)), 2), (((3,), (3,)), 0)]
)
def test_refusals(shapes: tuple[tuple[int, ...], ...], axis: int) -> None:
    places, weights = (TensorType(s, d) for s, d in zip(shapes, ("int32", "float32"), strict=True))
    with pytest.raises(TypeMismatch, match="resample"):
        Resample().infer(AxisAttrs(axis), TensorType((4, 4), "float32"), places, weights)
