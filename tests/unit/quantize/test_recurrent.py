"""LSTMs quantized: TFLite Micro's bits, back from the file, loops, last states, and refusals."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantized_files import float_function, qdq_bytes, quantize_model
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Constant, Function, Node
from edgec.loop.interpret import interpret as run_nest
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.passes.fuse_groups import fuse_groups
from edgec.passes.lower_groups import lower_group
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import PostTraining, Recipe, quantize_function
from edgec.quantizer.recurrent import cell_quant, cells_of
from edgec.targets.core import find_core
from edgec.targets.target import target_for

STEPS, DEPTH, UNITS, CLASSES = 6, 5, 7, 3
INTEGERS = {"int8": (-128, 128), "int16": (-32768, 32768)}


def lstm_file(path: Path, output: str = "Y", start: float = 0.0, weight: float = 1.0) -> Path:
    """An ONNX LSTM with a dense layer after its sequence or its last hidden state."""
    rng = np.random.default_rng(3)
    tensors: dict[str, np.ndarray] = {
        "w": weight * rng.normal(0, 0.6, (1, 4 * UNITS, DEPTH)),
        "r": weight * rng.normal(0, 0.4, (1, 4 * UNITS, UNITS)),
        "b": rng.normal(0, 0.3, (1, 8 * UNITS)),
        "h": np.full((1, 1, UNITS), start),
        "c": np.full((1, 1, UNITS), 2 * start),
    }
    width = UNITS * (STEPS if output == "Y" else 1)
    tensors |= {"v": rng.normal(0, 0.5, (width, CLASSES)), "u": rng.normal(0, 0.1, CLASSES)}
    weights = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in tensors.items()]
    weights.append(numpy_helper.from_array(np.asarray([1, width], np.int64), "flat"))
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "b", "", "h", "c"], ["Y", "H", "C"], "lstm",
                         hidden_size=UNITS),
        helper.make_node("Reshape", [output, "flat"], ["rows"], "rows"),
        helper.make_node("Gemm", ["rows", "v", "u"], ["y"], "dense"),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (STEPS, 1, DEPTH))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, CLASSES))], weights,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    onnx.save(model, str(path))
    return path


def sequences(count: int, seed: int = 1) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    return [[rng.normal(size=(STEPS, 1, DEPTH)).astype(np.float32)] for _ in range(count)]


@cache
def made_of(output: str = "Y", start: float = 0.0, dtype: str = "int8") -> PostTraining:
    with tempfile.TemporaryDirectory() as folder:
        path = lstm_file(Path(folder) / "f.onnx", output, start)
        return quantize_model(path, sequences(60), Recipe("minmax", activations=dtype))


def lstm_node(function: Function) -> Node:
    (node,) = [node for node in function.nodes if node.op.name == "lstm"]
    return node


def as_tflite(node: Node) -> bytes:
    """The integers of one LSTM as the TFLite model they are meant to be."""
    x, hidden, cell, weights, recurrent, bias = node.inputs
    model = TfliteBuilder()
    (x_scale,), (x_zero,) = x.type.quant.scale, x.type.quant.zero_point
    dtype = x.type.dtype
    given = model.tensor("x", (1, *x.type.shape), dtype, scale=x_scale, zero_point=x_zero)

    def gates(name: str, value: Constant) -> list[int]:
        scales = np.asarray(value.type.quant.scale).reshape(4, -1)[:, 0]
        stored = value.data.astype("int64") if name + dtype == "bint16" else value.data
        return [
            model.tensor(f"{name}{n}", data.shape, str(data.dtype), scale=float(scale), data=data)
            for n, (scale, data) in enumerate(zip(scales, np.split(stored, 4), strict=True))
        ]

    y_quant = {"scale": node.attrs.hidden.scale[0], "zero_point": node.attrs.hidden.zero_point[0]}
    states = [
        model.tensor("h", hidden.type.shape, dtype, **y_quant, variable=True),
        model.tensor("c", cell.type.shape, "int16", scale=cell.type.quant.scale[0], variable=True),
    ]
    y = model.tensor("y", (1, x.type.shape[0], hidden.type.shape[1]), dtype, **y_quant)
    operands = [*gates("w", weights), *gates("r", recurrent), -1, -1, -1, *gates("b", bias)]
    model.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM", [given, *operands, -1, -1, *states, -1, -1, -1, -1], [y],
        "UnidirectionalSequenceLSTMOptions", FusedActivationFunction=4,
    )  # fmt: skip
    return model.build([given], [y])


@pytest.mark.parametrize("name", ["x", "lstm.y"])
def test_beside_int16_it_is_of_int16(name: str, tmp_path: Path) -> None:
    path = lstm_file(tmp_path / "f.onnx")
    made = quantize_model(path, sequences(20), Recipe("minmax", int16=(name,)))
    kinds = [node.op.name for node in made.integers.nodes]
    assert kinds.count("lstm") == 1 and "lstm_float" not in kinds and "dense" in kinds
    assert lstm_node(made.integers).outputs[0].type.dtype == "int16"
    rows = {row.name: row for row in made.explain(sequences(20, 2)).rows}
    assert rows["lstm.y"].sqnr_db > 36


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_the_bits_of_tflite_micro(dtype: str, tmp_path: Path) -> None:
    node = lstm_node(made_of(dtype=dtype).integers)
    path = tmp_path / "m.tflite"
    path.write_bytes(as_tflite(node))
    constants = [value.data for value in node.inputs[1:]]
    types = tuple(value.type for value in node.outputs)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.integers(*INTEGERS[dtype], node.inputs[0].type.shape).astype(dtype)
        oracle = open_oracle(path, "tflm")  # from the initial state
        (wanted,) = oracle.run([x[np.newaxis]]).outputs
        found = node.op.evaluate(node.attrs, [x, *constants], node.input_types, types)[0]
        np.testing.assert_array_equal(found.ravel(), wanted.ravel())


@pytest.mark.parametrize(
    ("output", "start", "dtype"),
    [("Y", 0.0, "int8"), ("H", 0.0, "int8"), ("Y", 0.25, "int8"), ("Y", 0.25, "int16")],
)
def test_close_to_float_and_back_from_the_file(
    output: str, start: float, dtype: str, tmp_path: Path
) -> None:
    ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed (edgec[verify])")
    made = made_of(output, start, dtype)
    rows = {row.name: row for row in made.explain(sequences(30, 2)).rows}
    assert rows["lstm.y"].operator == "lstm_float"
    assert rows["lstm.y"].sqnr_db > (30 if dtype == "int8" else 40)
    kinds = [node.op.name for node in made.integers.nodes]
    assert kinds.count("lstm") == 1 and "lstm_float" not in kinds
    path = tmp_path / "q.onnx"
    path.write_bytes(qdq_bytes(made))
    back = run_passes(import_model(path).main, "onnx")
    assert "lstm" in [node.op.name for node in back.nodes]
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(str(path), options)
    for sample in sequences(10, 4):
        (ours,), (again,) = interpret(made.integers, sample), interpret(back, sample)
        np.testing.assert_array_equal(ours, again)
        # ONNX Runtime has no integer LSTM: it computes in float on the same weights.
        (theirs,) = session.run(None, {"x": sample[0]})
        assert np.abs(ours - theirs).max() < 0.03 * np.abs(theirs).max() + 0.02


@pytest.mark.parametrize("dtype", ["int8", "int16"])
@pytest.mark.parametrize("core", ["cortex-m0", "cortex-m4"])
def test_loops_from_a_constant_state(core: str, dtype: str) -> None:
    function = made_of(start=0.25, dtype=dtype).integers
    (group,) = [g for g in fuse_groups(function) if g.nodes[0].op.name == "lstm"]
    for sample in sequences(2, 6):
        seen: dict[Any, np.ndarray] = {}
        interpret(function, sample, seen.__setitem__)
        for variant in lower_group(group, target_for(find_core(core), Options())).variants:
            arrays = dict(variant.constants)
            for param, value in zip(variant.function.params, variant.args, strict=True):
                if value is not None and value not in group.outputs:
                    arrays[param.name] = seen[value]
            made = run_nest(variant.function, arrays)
            for param, value in zip(variant.function.params, variant.args, strict=True):
                if value in group.outputs and value in seen:
                    np.testing.assert_array_equal(made[param.name], seen[value])


def test_left_in_float(tmp_path: Path) -> None:
    path = lstm_file(tmp_path / "f.onnx")
    made = quantize_model(path, sequences(20), Recipe("minmax", keep_float=("lstm.y",)))
    kinds = [node.op.name for node in made.integers.nodes]
    assert "lstm_float" in kinds and "lstm" not in kinds
    assert made.explain(sequences(20)).output_sqnr_db > 30.0


def test_cells_of_all_steps_are_seen(tmp_path: Path) -> None:
    function = float_function(lstm_file(tmp_path / "f.onnx", start=0.25))
    (node,) = [node for node in function.nodes if node.op.name == "lstm_float"]
    (x,) = sequences(1)[0]
    states = [value.data for value in node.inputs[1:]]
    cells = cells_of(node, x)
    for step in range(STEPS):
        *_, cell = node.op.evaluate(
            node.attrs, [x[: step + 1], *states], node.input_types,
            (node.outputs[0].type.with_shape((step + 1, 1, UNITS)),),
        )  # fmt: skip
        np.testing.assert_allclose(cells[step], cell, atol=1e-6)


@pytest.mark.parametrize(
    ("largest", "limit", "exponent"),
    [(0.0, 0.0, -15), (0.7, 0.0, -15), (0.9, 0.0, -14), (6.0, 0.0, -12), (7.0, 0.0, -11),
     (7.0, 10.0, -12), (2.0, 10.0, -13), (7.0, 50.0, -11)],
)  # fmt: skip
def test_scales_of_cells(largest: float, limit: float, exponent: int) -> None:
    assert cell_quant(largest, limit).scale == (2.0**exponent,)


def stateful_file(path: Path, clip: float) -> Path:
    rng = np.random.default_rng(2)
    model = TfliteBuilder()
    x = model.tensor("x", (1, STEPS, DEPTH), "float32")

    def constant(name: str, *shape: int) -> int:
        return model.tensor(name, shape, "float32", data=rng.normal(size=shape).astype(np.float32))

    weights = [constant(f"w{g}", UNITS, DEPTH) for g in range(4)]
    own = [constant(f"r{g}", UNITS, UNITS) for g in range(4)]
    biases = [constant(f"b{g}", UNITS) for g in range(4)]
    states = [model.tensor(f"s{n}", (1, UNITS), "float32", variable=True) for n in range(2)]
    y = model.tensor("y", (1, STEPS, UNITS), "float32")
    model.operator(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        [x, *weights, *own, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1], [y],
        "UnidirectionalSequenceLSTMOptions", FusedActivationFunction=4, CellClip=clip,
    )  # fmt: skip
    path.write_bytes(model.build([x], [y]))
    return path


def test_models_with_state_start_anew(tmp_path: Path) -> None:
    path = stateful_file(tmp_path / "m.tflite", clip=30.0)
    with pytest.raises(ImportFailed, match="keeps state") as failure:
        float_function(path)
    assert "--from-start" in str(failure.value.hint)
    function = float_function(path, from_start=True)
    assert not function.states
    samples = [[x.reshape(1, STEPS, DEPTH)] for (x,) in sequences(30)]
    for x in samples[:3]:
        oracle = open_oracle(path)
        np.testing.assert_allclose(
            interpret(function, x)[0], oracle.run(x).outputs[0], atol=2e-6
        )  # fmt: skip
    made = quantize_function(function, samples[10:], Recipe("minmax"))
    assert lstm_node(made.integers).attrs.clip == 0
    assert made.explain(samples[:10]).output_sqnr_db > 30.0
    assert qdq_bytes(made)
    limited = float_function(stateful_file(tmp_path / "c.tflite", clip=1.0), from_start=True)
    made = quantize_function(limited, samples[10:], Recipe("minmax"))
    # What int16 holds is the limit.
    assert lstm_node(made.integers).inputs[2].type.quant.scale == (1.0 / 32768,)
    assert made.explain(samples[:10]).output_sqnr_db > 30.0
    assert qdq_bytes(made)
    (name,) = [node.name for node in limited.nodes if node.op.name == "lstm_float"]
    kept = quantize_function(limited, samples[:5], Recipe("minmax", keep_float=(name,)))
    with pytest.raises(ImportFailed, match="a limit cannot be written") as failure:
        qdq_bytes(kept)
    assert "--activations int8" in failure.value.hint


@pytest.mark.parametrize("change", ["scales", "zero_point", "dtype", "bias"])
def test_other_parameters_stay_in_float(change: str, tmp_path: Path) -> None:
    """What TFLite's LSTM cannot do is computed in float, on the same weights."""
    path = tmp_path / "q.onnx"
    path.write_bytes(qdq_bytes(made_of()))
    model = onnx.load(str(path))
    (lstm,) = [node for node in model.graph.node if node.op_type == "LSTM"]
    above = {name: node for node in model.graph.node for name in node.output}
    place = {"scales": 1, "zero_point": 2, "dtype": 6, "bias": 3}[change]
    operand = above[lstm.input[place]]
    names = {tensor.name: tensor for tensor in model.graph.initializer}
    which = 2 if change == "zero_point" else 1
    tensor = names[operand.input[which]]
    data = numpy_helper.to_array(tensor).copy()
    if change == "dtype":
        data = data * np.float32(0.7)  # no power of two
    else:
        data.reshape(-1)[1] += 1 if change == "zero_point" else data.reshape(-1)[1]
    tensor.CopyFrom(numpy_helper.from_array(data, tensor.name))
    onnx.save(model, str(path))
    kinds = [node.op.name for node in run_passes(import_model(path).main, "onnx").nodes]
    assert "lstm_float" in kinds and "lstm" not in kinds
