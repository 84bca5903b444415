"""`edgec verify` of a float model: near its framework, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from float_cases import float_network


def test_a_float_model_is_verified_layer_by_layer(tmp_path: Path, edgec: Callable) -> None:
    pytest.importorskip("tflite_micro", reason="tflite-micro is not installed (edgec[verify])")
    model = float_network(tmp_path / "m.tflite")
    options = ("verify", model, "--board", "host", "--random", 3, "--layers")
    ran = edgec(*options, "--json")
    assert ran.status == 0 and ran.json["beyond"] == 0 and ran.json["uncovered"] == []
    assert {row["tensor"] for row in ran.json["layers"]} >= {"dense0", "dense1", "y"}
    assert all(row["tolerance"] > 0 for row in ran.json["layers"] if row["tensor"] != "x")
    assert edgec(*options).status == 0
