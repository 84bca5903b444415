"""`--custom-ops FILE.py`: a model with an operator of the user's own, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from custom_op_files import onnx_model, write_declaration


def test_build_and_verify(edgec: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgec.ops.op._DECLARED", {})  # of other tests
    model, declared = onnx_model(tmp_path / "m.onnx"), write_declaration(tmp_path)
    refused = edgec("build", model, "--board", "host", "-o", tmp_path / "none")
    assert refused.status and "com.example.ScaleAndFind" in refused.err
    assert "--custom-ops" in refused.err
    built = edgec("build", model, "--board", "host", "--custom-ops", declared, "-o",
                  tmp_path / "out", "--json")  # fmt: skip
    assert built.status == 0, built.err
    assert (tmp_path / "out" / "m_custom_scale.c").is_file()
    verified = edgec("verify", model, "--board", "host", "--custom-ops", declared, "--json",
                     "--layers")  # fmt: skip
    assert verified.status == 0, verified.err
    report = verified.json
    assert report["reference"] == "edgec" and not report["mismatches"] and report["elements"]
    assert "declared references" in report["note"]


def test_a_file_that_fails(edgec: Callable, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('no')\n")
    ran = edgec("build", onnx_model(tmp_path / "m.onnx"), "--custom-ops", tmp_path / "bad.py",
                "-o", tmp_path / "out")  # fmt: skip
    assert ran.status and "ValueError: no" in ran.err and "Traceback" not in ran.err
