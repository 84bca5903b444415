"""Weights of four bits in ONNX Runtime: as bytes it computes them in integers, to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, load_model_from_string, numpy_helper
from onnx.reference import ReferenceEvaluator

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.oracle.frameworks import open_oracle
from edgec.oracle.onnx_edits import edit_onnx, int8_weights
from edgec.passes.sequence import run_passes

CHANNELS, DEPTH = 8, 64
#: A sum times two of these, divided by the third, is half of a whole number every other time.
X_SCALE, W_SCALE, Y_SCALE = 0.1, 0.05, 0.01


def edited(data: bytes) -> bytes:
    return edit_onnx(data, [int8_weights])[0]


def four_bit_convolution(path: Path, groups: int, factor: float = 2.0) -> Path:
    """A 1 by 1 convolution between int8 values; groups of inputs have scales `factor` apart."""
    rng = np.random.default_rng(groups)
    shape = (CHANNELS, DEPTH, 1, 1)
    numbers = rng.integers(-8, 8, shape).reshape(-1).tolist()
    scales = np.full(CHANNELS, W_SCALE, np.float32)
    how = {"axis": 0}
    if groups > 1:
        powers = np.float32(factor) ** rng.integers(0, 3, (CHANNELS, groups, 1, 1))
        scales = (scales.reshape(-1, 1, 1, 1) * powers).astype(np.float32)
        how = {"axis": 1, "block_size": DEPTH // groups}
    constants = [
        helper.make_tensor("w", TensorProto.INT4, shape, numbers),
        numpy_helper.from_array(scales, "w_scale"),
        *(numpy_helper.from_array(np.float32(v), k) for k, v in (("xs", X_SCALE), ("ys", Y_SCALE))),
        numpy_helper.from_array(np.int8(0), "zero"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "xs", "zero"], ["x_q"]),
        helper.make_node("DequantizeLinear", ["x_q", "xs", "zero"], ["x_d"]),
        helper.make_node("DequantizeLinear", ["w", "w_scale"], ["w_d"], **how),
        helper.make_node("Conv", ["x_d", "w_d"], ["sums"], kernel_shape=[1, 1]),
        helper.make_node("QuantizeLinear", ["sums", "ys", "zero"], ["y_q"]),
        helper.make_node("DequantizeLinear", ["y_q", "ys", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, DEPTH, 9, 9))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, CHANNELS, 9, 9))], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("groups", [1, 4])
def test_halves_of_a_step_are_rounded_as_by_integers(groups: int, tmp_path: Path) -> None:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    path = four_bit_convolution(tmp_path / "m.onnx", groups)
    x = np.random.default_rng(1).integers(-3, 4, (1, DEPTH, 9, 9)).astype(np.float32)
    x *= np.float32(X_SCALE)
    (wanted,) = interpret(run_passes(import_model(path).main, "onnx"), [x])
    (found,) = open_oracle(path).run([x]).outputs
    np.testing.assert_array_equal(found, wanted)
    session = ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (in_floats,) = session.run(None, {"x": x})
    assert (in_floats != wanted).any(), "nothing is gained by bytes"


@pytest.mark.parametrize("groups", [1, 4])
def test_every_weight_is_the_same_float(groups: int, tmp_path: Path) -> None:
    data = four_bit_convolution(tmp_path / "m.onnx", groups).read_bytes()
    weights = []
    for each in (data, edited(data)):
        model = load_model_from_string(each)
        node = next(n for n in model.graph.node if n.output[0] == "w_d")
        graph = helper.make_graph(
            [node], "g", [], [helper.make_tensor_value_info("w_d", TensorProto.FLOAT, None)],
            [t for t in model.graph.initializer if t.name in node.input],
        )  # fmt: skip
        alone = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        weights.append(ReferenceEvaluator(alone).run(None, {})[0])
    np.testing.assert_array_equal(*weights)
    assert {t.name: t.data_type for t in model.graph.initializer}["w"] == TensorProto.INT8


def test_what_does_not_fit_stays(tmp_path: Path) -> None:
    """Scales of groups that are no powers of two apart, and files without four bits."""
    data = four_bit_convolution(tmp_path / "m.onnx", 4, factor=1.5).read_bytes()
    assert edited(data) == data
    once = edited(four_bit_convolution(tmp_path / "m.onnx", 1).read_bytes())
    assert edited(once) == once
    assert edited(b"no model") == b"no model"
