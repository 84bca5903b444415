"""`--custom-ops FILE.py`: a model with an operator of the user's own, from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from custom_op_files import FACTOR, SHAPE, onnx_model, tflite_model, write_declaration


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


def test_quantize(edgec: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator stays in float, and the file names it, with its attributes."""
    monkeypatch.setattr("edgec.ops.op._DECLARED", {})
    declared, samples = write_declaration(tmp_path), tmp_path / "samples.npz"
    np.savez(samples, x=np.random.default_rng(0).normal(size=(4, *SHAPE)).astype(np.float32))
    words = ("--calibration", samples, "--custom-ops", declared, "--observer", "minmax", "--json")
    model, made = onnx_model(tmp_path / "m.onnx"), tmp_path / "q.onnx"
    ran = edgec("quantize", model, *words, "-o", made)
    assert ran.status == 0, ran.err
    assert "scale" in {node["name"] for node in ran.json["float_nodes"]}
    (node,) = [n for n in onnx.load(made).graph.node if n.domain == "com.example"]
    assert (node.op_type, node.attribute[0].f) == ("ScaleAndFind", np.float32(FACTOR))
    verified = edgec("verify", made, "--board", "host", "--custom-ops", declared, "--json")
    assert verified.status == 0 and not verified.json["mismatches"], verified.err
    text = declared.read_text().replace('onnx="com.example.ScaleAndFind", ', "")
    declared.write_text(text)
    refused = edgec("quantize", tflite_model(tmp_path / "m.tflite"), *words, "-o", made)
    assert refused.status and "it has no name there" in refused.err and "onnx=" in refused.err


def test_a_file_that_fails(edgec: Callable, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text("raise ValueError('no')\n")
    ran = edgec("build", onnx_model(tmp_path / "m.onnx"), "--custom-ops", tmp_path / "bad.py",
                "-o", tmp_path / "out")  # fmt: skip
    assert ran.status and "ValueError: no" in ran.err and "Traceback" not in ran.err


def test_explore_and_tune(edgec: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`explore` builds in processes of its own; `tune` searches the other layers."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    monkeypatch.setattr("edgec.ops.op._DECLARED", {})
    model, declared = onnx_model(tmp_path / "m.onnx"), write_declaration(tmp_path)
    words = (model, "--board", "mps2_an386", "--custom-ops", declared, "--optimize", "time")
    explored = edgec("explore", *words, "--json")
    assert explored.status == 0, explored.err
    (point,) = explored.json["points"]
    assert point["fits"] and point["instructions"]
    tuned = edgec("tune", *words, "--trials", "2", "-o", tmp_path / "m.tune.json")
    assert tuned.status == 0, tuned.err
