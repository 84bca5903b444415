"""Limits after the rounding to integers in what ONNX Runtime is given."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_builder import OnnxBuilder

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle
from edgec.oracle.onnx_edits import edit_onnx, limits_after_rounding
from edgec.passes.sequence import run_passes

SHAPE = (1, 8, 16, 16)


def edited(data: bytes) -> bytes:
    return edit_onnx(data, [limits_after_rounding])[0]


def network(path: Path, limit: str, zero_point: int = 0, layers: int = 1) -> bytes:
    """Convolutions of int8 with a limit between each and its QuantizeLinear."""
    rng = np.random.default_rng(4)
    model = OnnxBuilder(4, SHAPE)
    y = model.qdq("x", 0.02, 3)
    for n in range(layers):
        stored = rng.integers(-127, 128, (8, 8, 3, 3)).astype(np.int8)
        parameters = [model.constant(np.float32(0.0037), f"s{n}"),
                      model.constant(np.int8(0), f"z{n}")]  # fmt: skip
        w = model.add("DequantizeLinear", [model.constant(stored, f"w{n}"), *parameters])
        y = model.add("Conv", [y, w], pads=[1, 1, 1, 1])
        if limit == "Relu":
            y = model.add("Relu", [y])
        else:
            bounds = [model.constant(np.float32(b), f"b{n}{b}") for b in (0.5, 6.0)]
            y = model.add("Clip", [y, *bounds])
        y = model.qdq(y, 0.0817, zero_point)
    return model.save(y, path).read_bytes()


def kinds(data: bytes) -> list[str]:
    return [node.op_type for node in onnx.load_model_from_string(data).graph.node]


@pytest.mark.parametrize(("limit", "zero_point"), [("Relu", 0), ("Clip", 0), ("Clip", -128)])
def test_limits_are_behind_the_rounding(limit: str, zero_point: int, tmp_path: Path) -> None:
    before = network(tmp_path / "m.onnx", limit, zero_point)
    data = edited(before)
    quantized = ["QuantizeLinear", "DequantizeLinear"]
    assert kinds(before)[-4:] == ["Conv", limit, *quantized]
    assert kinds(data)[-6:] == ["Conv", *quantized, limit, *quantized]
    onnx.checker.check_model(onnx.load_model_from_string(data))
    assert edited(data) == data


def test_others_stay(tmp_path: Path) -> None:
    """ONNX Runtime drops a Relu with the least zero point itself; products may be outputs."""
    path = tmp_path / "m.onnx"
    least = network(path, "Relu", -128)
    assert edited(least) == least
    model = onnx.load_model_from_string(network(path, "Relu"))
    (conv,) = (node for node in model.graph.node if node.op_type == "Conv")
    model.graph.output.append(onnx.ValueInfoProto(name=conv.output[0]))
    data = model.SerializeToString()
    assert edited(data) == data
    assert edited(b"no model") == b"no model"


@pytest.mark.parametrize("limit", ["Relu", "Clip"])
def test_layers_have_the_same_bits(limit: str, tmp_path: Path) -> None:
    """Through some layers, whose sums floats round otherwise for some of the elements."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    path = tmp_path / "m.onnx"
    network(path, limit, layers=8)
    oracle, function = open_oracle(path), run_passes(import_model(path).main, "onnx")
    for seed in range(6):
        x = np.random.default_rng(seed).normal(0, 1, SHAPE).astype(np.float32)
        assert np.array_equal(interpret(function, [x])[0], oracle.run([x]).outputs[0])
