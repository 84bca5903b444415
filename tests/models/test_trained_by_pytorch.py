"""Files that PyTorch wrote: its own exporter, after its own quantization-aware training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from built_models import build
from onnx import numpy_helper
from test_same_bits import need_tools
from test_trained_quantization import names

from edgec.graph.ir import Constant
from edgec.oracle.frameworks import open_oracle
from edgec.report.float_layers import float_layer_lines, float_layers
from edgec.runners.engine import open_session

REPO_ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((REPO_ROOT / "tests" / "models" / "trained_by_pytorch").glob("*.onnx"))
CONVERTED = [path for path in FILES if path.stem.endswith("converted")]
INTEGERS = [
    "conv2d", "requantize", "depthwise_conv2d", "requantize", "conv2d", "requantize", "conv2d",
    "requantize", "add", "max_pool2d", "avg_pool2d", "lookup", "lookup", "concat", "dense",
    "requantize",
]  # fmt: skip


def name_of(path: Path) -> str:
    return path.stem


def images() -> tuple[np.ndarray, np.ndarray]:
    with np.load(REPO_ROOT / "examples" / "digits" / "digits_test.npz") as stored:
        return stored["x"].astype(np.float32), stored["y"]


def parameters(path: Path) -> tuple[set[tuple[float, int]], list[np.ndarray]]:
    """Scales and zero points of the file's values, and its integer weights."""
    nodes = onnx.load(path).graph.node
    arrays = {n.output[0]: numpy_helper.to_array(n.attribute[0].t)
              for n in nodes if n.op_type == "Constant"}  # fmt: skip
    for node in nodes:
        if node.op_type == "Cast" and node.input[0] in arrays:
            arrays[node.output[0]] = arrays[node.input[0]]
    values = {
        (float(arrays[n.input[1]]), int(arrays[n.input[2]]) - 128)
        for n in nodes if n.op_type == "QuantizeLinear"
    }  # fmt: skip
    weights = [
        arrays[n.input[0]] for n in nodes
        if n.op_type == "DequantizeLinear" and n.input[0] in arrays
        and arrays[n.input[0]].dtype == np.int8
    ]  # fmt: skip
    return values, weights


def test_the_files_are_there() -> None:
    assert [path.stem for path in FILES] == [
        f"{backend}_{kind}" for backend in ("qnnpack", "x86") for kind in ("converted", "prepared")
    ]


@pytest.mark.parametrize("path", FILES, ids=name_of)
@pytest.mark.parametrize("board", ["host", "mps2_an386"])
def test_bits_and_answers(path: Path, board: str) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    engine = "host" if board == "host" else "core"
    need_tools(engine, "gcc", board)
    _, built = build(path, board)
    oracle, (inputs, labels) = open_oracle(path), images()
    count = len(labels) if board == "host" else 12
    right, other = 0, 0
    with open_session(engine, built) as session:
        assert session.selftest() == 0
        for image, label in zip(inputs[:count], labels, strict=False):
            x = image.reshape(1, 1, 8, 8)
            (found,) = session.run([x]).outputs
            other += int(np.count_nonzero(found != oracle.run([x]).outputs[0]))
            right += int(found.argmax() == label)
    assert right >= 0.98 * count
    # Floats before a quantize round otherwise at a tie: a step here and there.
    assert other <= (0 if path in CONVERTED else 0.01 * 10 * count)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_layers_that_stay_in_floats_are_named(path: Path) -> None:
    compiled, _ = build(path, "host")
    found = float_layers(compiled.imported.main, compiled.module.main)
    assert len(found) == (0 if path in CONVERTED else 4)
    lines = float_layer_lines(found)
    if found:
        assert "4 layers between integers stay in floats" in lines[0] and "1 more" in lines[0]
    else:
        assert lines == []


@pytest.mark.parametrize("path", CONVERTED, ids=name_of)
def test_parameters_are_those_of_the_file(path: Path) -> None:
    compiled, _ = build(path, "host")
    values, weights = parameters(path)
    assert names(compiled) == INTEGERS
    main = compiled.module.main
    stored = [value.type for node in main.nodes for value in node.outputs]
    found = {
        (t.quant.scale[0], t.quant.zero_point[0])
        for t in stored if t.quant is not None and t.dtype == "int8"
    }  # fmt: skip
    assert found == values
    mine = [
        node.inputs[1].data for node in main.nodes
        if node.op.name in ("conv2d", "depthwise_conv2d", "dense")
        and isinstance(node.inputs[1], Constant)
    ]  # fmt: skip
    assert len(mine) == len(weights) == 5
    for array, given in zip(mine, weights, strict=True):
        if array.ndim == 3:  # depthwise
            given = given.transpose(1, 0, 2, 3)
        if given.ndim == 4:
            given = given.transpose(0, 2, 3, 1)
        assert np.array_equal(array.reshape(-1), given.reshape(-1))
