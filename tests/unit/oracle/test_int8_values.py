"""Values of uint8 in ONNX Runtime: as int8 they stand for the same numbers on every CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from trained_builder import TrainedBuilder, convolutions

from edgec.oracle.frameworks import open_oracle
from edgec.oracle.onnx_edits import as_uint8, edit_onnx, int8_values

SHAPE = (1, 3, 8, 8)


def edited(data: bytes) -> tuple[bytes, frozenset[str]]:
    changed, names = edit_onnx(data, [int8_values])
    return changed, names["int8_values"]


def saved(path: Path, dtype: str, limits: tuple[int, int] | None = None) -> Path:
    model = TrainedBuilder(3, SHAPE, dtype, limits)
    return model.save(convolutions(model), path)


def test_nothing_of_uint8_is_left(tmp_path: Path) -> None:
    data, moved = edited(saved(tmp_path / "m.onnx", "uint8", (0, 127)).read_bytes())
    model = onnx.load_model_from_string(data)
    assert not [t for t in model.graph.initializer if t.data_type == TensorProto.UINT8]
    made = {n.output[0] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    assert made & moved and len(moved) == 16  # of QuantizeLinear and Clip


def test_other_models_stay(tmp_path: Path) -> None:
    data = saved(tmp_path / "m.onnx", "int8").read_bytes()
    assert edited(data) == (data, frozenset())
    assert edited(b"no model") == (b"no model", frozenset())


def test_the_same_answers(tmp_path: Path) -> None:
    """With limits of 7 bits no pair of products saturates in 16 bits, on any CPU."""
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = saved(tmp_path / "m.onnx", "uint8", (0, 127))
    options = ort.SessionOptions()
    options.log_severity_level = 3
    plain = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    oracle = open_oracle(path)
    rng = np.random.default_rng(1)
    for _ in range(4):
        x = rng.normal(0, 1.5, SHAPE).astype(np.float32)
        assert np.array_equal(oracle.run([x]).outputs[0], plain.run(None, {"x": x})[0])


def test_tensors_inside_are_what_the_file_says(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    path = saved(tmp_path / "m.onnx", "uint8")
    first = next(n for n in onnx.load(path).graph.node if n.op_type == "QuantizeLinear")
    x = np.random.default_rng(1).normal(0, 1.5, SHAPE).astype(np.float32)
    found = open_oracle(path).run([x], tensors=True).tensors[first.output[0]]
    wanted = np.clip(np.rint(x / np.float32(0.025)) + 100, 0, 255)
    assert found.dtype == np.uint8 and np.array_equal(found, wanted)


def test_as_uint8() -> None:
    stored = np.asarray([-128, -1, 0, 127], np.int8)
    assert as_uint8(stored).tolist() == [0, 127, 128, 255]


def test_two_pairs_keep_their_parameters(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = TrainedBuilder(1, (1, 40), "int8")
    y = model.fake(model.fake("x", 0.03, 60), 0.02, 0)
    path = model.save(y, tmp_path / "m.onnx")
    x = np.linspace(-4, 8, 40, dtype=np.float32)[np.newaxis]
    inner = np.clip(np.rint(x / np.float32(0.03)), -60, 195).astype(np.float32) * np.float32(0.03)
    outer = np.clip(np.rint(inner / np.float32(0.02)), 0, 255).astype(np.float32)
    assert np.array_equal(open_oracle(path).run([x]).outputs[0], outer * np.float32(0.02))
