"""gru: integers near ONNX Runtime's floats, back from the file, the same bits in loops and C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantized_files import qdq_bytes, quantize_model
from single_node import check_nests

from edgec.api import compile as compile_model
from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.operator import get_op
from edgec.graph.types import Quant, TensorType
from edgec.ops.gru import STATE, Gru, GruAttrs
from edgec.oracle.frameworks import open_oracle
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import Recipe

STEPS, DEPTH, UNITS = 9, 6, 8
RECIPE = Recipe("minmax", equalize="never", reconstruct=False)


def gru_file(path: Path, *, after: bool, last: bool, start: float = 0.0, ways: int = 1) -> Path:
    """A GRU and a product with what it makes: all of its sequence, or its last state."""
    rng = np.random.default_rng(3)
    tensors = {
        "w": rng.normal(0, 0.6, (ways, 3 * UNITS, DEPTH)),
        "b": rng.normal(0, 0.3, (ways, 6 * UNITS)),
        "r": rng.normal(0, 0.5, (ways, 3 * UNITS, UNITS)), "v": rng.normal(0, 0.5, (UNITS, 5)),
        "h": np.full((ways, 1, UNITS), start),
    }  # fmt: skip
    constants = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in tensors.items()]
    made = {"hidden_size": UNITS, "linear_before_reset": int(after)}
    if ways == 2:
        made["direction"] = "bidirectional"
    nodes = [
        helper.make_node("GRU", ["x", "w", "r", "b", "", "h"], ["Y", "H"], "gru", **made),
        helper.make_node("MatMul", ["H" if last else "Y", "v"], ["y"], "product"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, (STEPS, 1, DEPTH))],
                              [value("y", TensorProto.FLOAT, None)], constants)  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    return path


def sequences(count: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(1)
    return [[rng.normal(size=(STEPS, 1, DEPTH)).astype(np.float32)] for _ in range(count)]


@pytest.mark.parametrize(("after", "last", "start", "ways"), [
    (False, False, 0.0, 1), (True, True, 0.5, 1), (False, True, -0.3, 1), (True, False, 0.0, 2),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_it_is_in_integers_near_float_and_onnxruntime(
    after: bool, last: bool, start: float, ways: int, dtype: str, tmp_path: Path
) -> None:
    path = gru_file(tmp_path / "m.onnx", after=after, last=last, start=start, ways=ways)
    samples = sequences(40)
    made = quantize_model(path, samples[:30], replace(RECIPE, activations=dtype))
    assert {node.operator for node in made.float_nodes()} <= {"quantize", "dequantize", "slice"}
    assert [node.op.name for node in made.integers.nodes].count("gru") == ways
    assert made.explain(samples[30:]).output_sqnr_db > (42 if dtype == "int16" else 30)
    (tmp_path / "q.onnx").write_bytes(qdq_bytes(made))
    back, oracle = import_model(tmp_path / "q.onnx").main, open_oracle(tmp_path / "q.onnx")
    integers = run_passes(back, "onnx")
    most = 4 if dtype == "int8" else 128
    step = made.integers.nodes[-1].inputs[0].type.scalar_quant()[0]
    for sample in samples[30:36]:
        (mine,) = interpret(integers, sample)
        assert np.array_equal(mine, interpret(made.integers, sample)[0])
        assert np.abs(mine - oracle.run(sample).outputs[0]).max() < most * step


def test_loops_and_c_have_the_same_bits(tmp_path: Path) -> None:
    samples = sequences(8)
    for after, dtype in ((False, "int8"), (True, "int8"), (False, "int16"), (True, "int16")):
        path = gru_file(tmp_path / "m.onnx", after=after, last=False, start=0.2)
        made = quantize_model(path, samples, replace(RECIPE, activations=dtype))
        path.write_bytes(qdq_bytes(made))
        check_nests(made.integers, samples[0])
        with compile_model(path, board="stm32", engine="core") as compiled:
            for sample in samples[:2]:
                (wanted,) = interpret(made.integers, sample)
                np.testing.assert_array_equal(wanted, compiled.run(*sample))


def test_a_slow_gate_still_moves_the_state() -> None:
    """With z near 1 each step moves the state by less than a step of int8."""
    units, steps = 1, 200
    big = round(8 / (0.01 * 0.01))  # z = logistic(8)
    attrs = GruAttrs((0.0001 * 4096,) * 3, (0.0001 * 4096,) * 3, Quant((1 / 128,), (0,)))
    arrays = [np.zeros((steps, 1), np.int8), np.zeros((1, units), np.int16),
              np.zeros((3, 1), np.int8), np.zeros((3, 1), np.int8),
              np.asarray([0.8 * big / 2, 0, big], np.int32), np.zeros(3, np.int32)]  # fmt: skip
    types = [TensorType(a.shape, str(a.dtype)) for a in arrays]
    types[0] = TensorType((steps, 1), "int8", Quant((0.01,), (0,)))
    types[1] = TensorType((1, 1), "int16", STATE)
    op = get_op(Gru)
    y, state = op.evaluate(attrs, arrays, types, op.infer(attrs, *types))
    z = 1 / (1 + np.exp(-3.2))
    assert abs(int(state[0, 0]) / 32768 - (1 - z**steps)) < 0.01 and y[20, 0, 0] > y[5, 0, 0] > 0


def test_types() -> None:
    with pytest.raises(TypeMismatch, match="gru of"):
        get_op(Gru).infer(GruAttrs((), (), STATE), *[TensorType((1, 2), "int8")] * 6)
