"""`edgec verify` of what is not the same bits: near its framework, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from float_cases import float_network
from uneven_network import pixels, uneven

from edgec.post_training import Recipe, quantize_function


def test_a_float_model_is_verified_layer_by_layer(tmp_path: Path, edgec: Callable) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")
    model = float_network(tmp_path / "m.tflite")
    options = ("verify", model, "--board", "host", "--random", 3, "--layers")
    ran = edgec(*options, "--json")
    assert ran.status == 0 and ran.json["beyond"] == 0 and ran.json["uncovered"] == []
    assert {row["tensor"] for row in ran.json["layers"]} >= {"dense0", "dense1", "y"}
    assert all(row["tolerance"] > 0 for row in ran.json["layers"] if row["tensor"] != "x")
    assert edgec(*options).status == 0


def test_int16_is_near_what_onnx_runtime_computes_in_floats(
    tmp_path: Path, edgec: Callable
) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    for activations, steps in (("int16", {"int16": 12}), ("int8", {})):
        made = quantize_function(uneven(1.0), pixels(30), Recipe("minmax", activations=activations))
        (path := tmp_path / f"{activations}.onnx").write_bytes(made.onnx_bytes())
        options = ("verify", path, "--board", "host", "--random", 8, "--layers")
        ran = edgec(*options, "--json")
        assert ran.status == 0 and ran.json["beyond"] == 0, ran.json["first_difference"]
        assert bool(ran.json["mismatches"]) == bool(steps) and ran.json["rounded_steps"] == steps
        told = "and rounds otherwise: what comes of that may differ"
        assert (f"{told} by up to 12 steps of int16" in edgec(*options).out) == bool(steps)
