"""roi_align and roi_max: ONNX Runtime's answers for regions of any place, C, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from official_cases import check_official_c
from onnx import TensorProto, helper

from edgec.errors import ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.roi_pool import RoiAlign, RoiAttrs

X = np.random.default_rng(1).normal(size=(2, 3, 6, 7)).astype(np.float32)
#: (x1, y1, x2, y2): inside, across the edge, outside, large, small, turned round.
REGIONS = np.array(
    [
        [1, 1, 9, 8], [-4, 3, 6, 20], [40, 40, 60, 60], [-30, -30, 50, 60], [3, 3, 3.5, 3.2],
        [0, 0, 13.9, 11.9], [2.5, 1.5, 7.5, 9.5],
    ],
    np.float32,
)  # fmt: skip
IMAGES = np.array([0, 1, 1, 0, 1, 0, 1], np.int64)


def save(path: Path, kind: str, inputs: dict[str, np.ndarray], **attributes: Any) -> Path:
    graph = helper.make_graph(
        [helper.make_node(kind, list(inputs), ["y"], **attributes)],
        "test",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in inputs.items()
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8)
    onnx.save(made, path)
    return path


@pytest.mark.parametrize("mode", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("samples", [0, 1, 3])
def test_means_are_those_of_onnxruntime(samples: int, mode: str, tmp_path: Path) -> None:
    inputs = {"x": X, "regions": REGIONS, "images": IMAGES}
    path = save(
        tmp_path / "m.onnx", "RoiAlign", inputs, sampling_ratio=samples, output_height=3,
        output_width=2, spatial_scale=0.5, coordinate_transformation_mode=mode,
    )  # fmt: skip
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, inputs)
    (found,) = interpret(import_model(path).main, list(inputs.values()))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_largest_elements_are_those_of_onnxruntime(tmp_path: Path) -> None:
    regions = np.concatenate([IMAGES[:, None].astype(np.float32), REGIONS], 1)
    inputs = {"x": X, "regions": regions}
    path = save(tmp_path / "m.onnx", "MaxRoiPool", inputs, pooled_shape=[3, 2], spatial_scale=0.5)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, inputs)
    (found,) = interpret(import_model(path).main, list(inputs.values()))
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["test_roialign_mode_max", "test_roialign_aligned_true"])
def test_c_under_sanitizers(name: str, tmp_path: Path) -> None:
    check_official_c(name, tmp_path)


def test_refusals(tmp_path: Path) -> None:
    x, regions = TensorType(X.shape, "float32"), TensorType((7, 4), "float32")
    images = TensorType((7,), "int64")
    for attrs, given, message in [
        (RoiAttrs((3, 2)), (x, regions, TensorType((6,), "int64")), "roi_align of"),
        (RoiAttrs((3, 2)), (x, TensorType((7, 5), "float32"), images), "roi_align of"),
        (RoiAttrs((0, 2)), (x, regions, images), r"to \[0, 2\]"),
    ]:
        with pytest.raises(TypeMismatch, match=message):
            RoiAlign().infer(attrs, *given)
    inputs = {"x": X, "regions": REGIONS, "images": IMAGES}
    path = save(tmp_path / "m.onnx", "RoiAlign", inputs, mode="max")
    with pytest.raises(ImportFailed) as refusal:
        import_model(path)
    assert "needs a sampling_ratio" in str(refusal.value.details)
