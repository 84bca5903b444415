"""gelu and its approximation: near the frameworks, nests in the reference's bits."""

from __future__ import annotations

from pathlib import Path

import pytest
from float_cases import assert_near_tflite, float_values
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model

TOLERANCE = 5e-7


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_onnx(approximate: str, tmp_path: Path) -> None:
    x = float_values((2, 3, 67))
    path = save_node(tmp_path / "m.onnx", "Gelu", x, {}, opset=20, approximate=approximate)
    check_nests(check_against_onnxruntime(path, x, TOLERANCE), [x])


@pytest.mark.parametrize("approximate", [False, True])
def test_tflite(approximate: bool, tmp_path: Path) -> None:
    x = float_values((1, 401))
    model = TfliteBuilder()
    tensors = [model.tensor(name, x.shape, "float32") for name in "xy"]
    model.operator("GELU", tensors[:1], tensors[1:], "GeluOptions", Approximate=approximate)
    (tmp_path / "m.tflite").write_bytes(model.build(tensors[:1], tensors[1:]))
    check_nests(assert_near_tflite(tmp_path / "m.tflite", [x], TOLERANCE, "litert"), [x])


def test_integers_are_refused(tmp_path: Path) -> None:
    model = TfliteBuilder()
    tensors = [model.tensor(name, (3,), "int8", scale=0.1, zero_point=0) for name in "xy"]
    model.operator("GELU", tensors[:1], tensors[1:], "GeluOptions", Approximate=False)
    (tmp_path / "m.tflite").write_bytes(model.build(tensors[:1], tensors[1:]))
    with pytest.raises(ImportFailed) as refused:
        import_model(tmp_path / "m.tflite")
    assert "only float32 is supported yet" in refused.value.details[0]
