"""`edgec verify` of what is not the same bits: near its framework, layer by layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from float_cases import float_network
from onnx_builder import OnnxBuilder
from quantized_files import qdq_bytes, quantize_model
from uneven_network import pixels, uneven

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import Recipe, quantize_function


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
    for activations, steps in (("int16", {"int16": 17}), ("int8", {})):
        made = quantize_function(uneven(1.0), pixels(30), Recipe("minmax", activations=activations))
        (path := tmp_path / f"{activations}.onnx").write_bytes(qdq_bytes(made))
        options = ("verify", path, "--board", "host", "--random", 8, "--layers")
        ran = edgec(*options, "--json")
        assert ran.status == 0 and ran.json["beyond"] == 0, ran.json["first_difference"]
        assert bool(ran.json["mismatches"]) == bool(steps) and ran.json["rounded_steps"] == steps
        told = "and rounds differently: values that depend on them may differ"
        assert (f"{told} by up to 17 steps of int16" in edgec(*options).out) == bool(steps)


def slopes_network(path: Path) -> Path:
    """Convolutions with a PRelu of many slopes, and of one; a view at the end."""
    model = OnnxBuilder(3, (1, 3, 12, 12))

    def floats(*shape: int) -> str:
        return model.constant(model.rng.normal(0, 0.3, shape).astype(np.float32), "w")

    y = model.add("Conv", ["x", floats(9, 3, 3, 3), floats(9)], pads=[1, 1, 1, 1])
    y = model.add("PRelu", [y, floats(9, 1, 1)])
    y = model.add("Conv", [y, floats(5, 9, 1, 1), floats(5)])
    y = model.add("PRelu", [y, floats(1, 1, 1)])
    y = model.add("Conv", [y, floats(4, 5, 3, 3), floats(4)])
    return model.save(model.add("Identity", [y]), path)


def test_prelu_has_the_bits_of_onnx_runtime(tmp_path: Path, edgec: Callable) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    samples = [[np.random.default_rng(n).normal(0, 1, (1, 3, 12, 12)).astype(np.float32)]
               for n in range(12)]  # fmt: skip
    made = quantize_model(slopes_network(tmp_path / "f.onnx"), iter(samples), Recipe("minmax"))
    (path := tmp_path / "m.onnx").write_bytes(qdq_bytes(made))
    direct, back = (run_passes(f, "onnx") for f in (made.integers, import_model(path).main))
    assert {"prelu", "lookup"} <= {n.op.name for n in back.nodes}  # one slope: a table
    assert all(np.array_equal(*interpret(direct, s), *interpret(back, s)) for s in samples)
    ran = edgec("verify", path, "--board", "host", "--random", 8, "--layers", "--json")
    assert ran.status == 0 and ran.json["mismatches"] == 0, ran.json["first_difference"]
    assert ran.json["rounded_steps"] == {}
