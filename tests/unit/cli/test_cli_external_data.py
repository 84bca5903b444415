"""ONNX files with weights in a file beside them: built, verified, refused if it is damaged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx_builder import float_network, with_data_beside


def test_they_are_built_and_verified(tmp_path: Path, edgec: Callable) -> None:
    """ONNX Runtime gets them as well, and has the file in another folder no more."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    (folder := tmp_path / "models").mkdir()
    model = with_data_beside(float_network(1, folder / "m.onnx"))
    ran = edgec("verify", model, "--board", "host", "--random", 3, "--json")
    assert ran.status == 0 and ran.json["beyond"] == 0 and ran.json["elements"] > 0


def test_a_truncated_file_of_weights(tmp_path: Path, edgec: Callable) -> None:
    path = with_data_beside(float_network(2, tmp_path / "m.onnx"))
    data = tmp_path / "model.onnx.data"
    data.write_bytes(data.read_bytes()[:-1])
    ran = edgec("build", path, "-o", tmp_path / "out")
    assert ran.status == 1 and "may be truncated" in ran.err
    assert not (tmp_path / "out").exists()
