"""`--match`: whose rounding a build follows, and whom `verify` compares it with then."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder


def dense_bytes() -> bytes:
    """An int8 layer whose factor LiteRT keeps as a double, TFLite Micro in 31 bits."""
    rng = np.random.default_rng(5)
    model = TfliteBuilder()
    x = model.tensor("x", (64, 32), "int8", scale=0.05, zero_point=3)
    values = rng.integers(-127, 128, (64, 32)).astype(np.int8)
    w = model.tensor("w", (64, 32), "int8", scale=0.02, zero_point=0, data=values)
    y = model.tensor("y", (64, 64), "int8", scale=0.013 / 3, zero_point=-7)
    model.operator("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    return model.build([x], [y])


@pytest.mark.parametrize(("match", "reference"), [("litert", "litert"), ("tflm", "tflm")])
def test_verify_compares_with_who_is_followed(
    match: str, reference: str, tmp_path: Path, edgec: Callable
) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (edgec[verify])")
    (model := tmp_path / "m.tflite").write_bytes(dense_bytes())
    ran = edgec("verify", model, "--board", "host", "--match", match, "--random", 4, "--json")
    assert ran.status == 0, ran.err
    assert ran.json["reference"] == reference
    assert ran.json["mismatches"] == 0 and ran.json["elements"] == 4 * 64 * 64


def hybrid_bytes() -> bytes:
    """Floats by int8 weights, which TFLite Micro refuses."""
    rng = np.random.default_rng(6)
    model = TfliteBuilder()
    x, y = (model.tensor(name, (2, n), "float32") for name, n in (("x", 32), ("y", 8)))
    values = rng.integers(-127, 128, (8, 32)).astype(np.int8)
    w = model.tensor("w", (8, 32), "int8", scale=0.02, zero_point=0, data=values)
    model.operator("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    return model.build([x], [y])


def test_litert_answers_for_what_tflite_micro_refuses(tmp_path: Path, edgec: Callable) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")
    pytest.importorskip("ai_edge_litert", reason="LiteRT is not installed (edgec[verify])")
    (model := tmp_path / "m.tflite").write_bytes(hybrid_bytes())
    ran = edgec("verify", model, "--random", 2, "--json")
    assert ran.status == 0 and ran.json["beyond"] == 0, ran.err
    assert ran.json["reference"] == "litert" and "TFLite Micro refused" in ran.json["note"]
    assert "compared with LiteRT instead" in edgec("verify", model, "--random", 1).out
    assert edgec("verify", model, "--random", 1, "--reference", "tflm").status == 1


def test_what_an_onnx_file_cannot_follow(tmp_path: Path, edgec: Callable) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    ran = edgec("build", tmp_path / "m.onnx", "--match", "litert", "-o", tmp_path / "out")
    assert ran.status == 1
    assert "--match litert is not for ONNX files" in ran.err
