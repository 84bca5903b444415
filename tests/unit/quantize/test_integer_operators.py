"""Operators beside layers and sums that quantize to integers, and their bits and distance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx_builder import OnnxBuilder
from quantized_files import qdq_bytes, quantize_model

from edgec import ops
from edgec.api import compile as compile_model
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.oracle.frameworks import open_oracle
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import Recipe, quantize_function
from edgec.quantizer.prepare import prepare

ops.load()

#: [what ONNX calls it, what it becomes, the least decibels in int8].
Make = Callable[[OnnxBuilder, str, str], str]


def largest(b: OnnxBuilder, x: str, y: str) -> str:
    row = b.constant(b.rng.normal(0, 0.4, (1, 12)).astype(np.float32), "row")
    return b.add("Min", [b.add("Max", [x, y]), row])


CASES: dict[str, tuple[Make, set[str], float]] = {
    "max": (largest, {"maximum", "minimum"}, 28),
    "reduce_max": (lambda b, x, y: b.add("ReduceMax", [x], axes=[1]), {"reduce"}, 30),
    "reduce_min": (lambda b, x, y: b.add("ReduceMin", [y], axes=[-1]), {"reduce"}, 30),
    "reduce_mean": (lambda b, x, y: b.add("ReduceMean", [x], axes=[-1]), {"reduce"}, 30),
    "reduce_sum": (lambda b, x, y: b.add("ReduceSum", [x, ints(b, -1)]), {"reduce"}, 30),
    "div": (lambda b, x, y: b.add("Div", [x, b.add("Add", [b.add("Abs", [y]), row(b, 1.0)])]),
            {"quotient"}, 26),
    "div_by_row": (lambda b, x, y: b.add("Div", [x, row(b, 2.0)]), {"mul"}, 28),
    "where": (lambda b, x, y: b.add("Where", [b.add("Greater", [x, y]), x, y]),
              {"lift", "greater", "where"}, 26),
    "masked": (lambda b, x, y: b.add("Where", [below(b, x), x, b.constant(np.float32(0), "zero")]),
               {"less", "where"}, 18),
    "tile": (lambda b, x, y: b.add("Tile", [b.add("ReduceMean", [x], axes=[1]), ints(b, 1, 12)]),
             {"tile"}, 28),
    "gather_nd": (lambda b, x, y: b.add("GatherND", [x, places(b, (4, 12, 2))]), {"gather_nd"}, 28),
    "gather_elements": (
        lambda b, x, y: b.add("GatherElements", [x, places(b, (4, 12))], axis=1),
        {"gather_elements"}, 28),
    "top_k": (lambda b, x, y: ordered(b, x), {"top_k"}, 28),
    "sums": (lambda b, x, y: b.add("CumSum", [x, ints(b, 1)]), {"cumulate"}, 28),
    "sums_before": (
        lambda b, x, y: b.add("CumSum", [x, ints(b, 0)], exclusive=1, reverse=1), {"cumulate"}, 24),
    "unit_rows": (lambda b, x, y: b.add("LpNormalization", [x], axis=-1, p=2),
                  {"integer_norm"}, 28),
    "unit_rows_of_torch": (lambda b, x, y: unit_rows(b, x), {"integer_norm"}, 28),
    "product_of_rows": (lambda b, x, y: b.add("ReduceProd", [close_to_one(b, x)], axes=[0]),
                        {"reduce"}, 26),
    "scatter": (lambda b, x, y: b.add("ScatterND", [x, ints(b, 1, 0, shape=(2, 1)), half(b, y)]),
                {"scatter"}, 28),
    "inverse_root": (lambda b, x, y: b.add("Reciprocal", [b.add("Sqrt", [positive(b, x)])]),
                     set(), 26),
    "prelu": (lambda b, x, y: b.add("PRelu", [x, row(b, 0.1)]), {"prelu"}, 24),
    "resize": (
        lambda b, x, y: b.add("Reshape", [b.add("Resize", [
            b.add("Reshape", [x, ints(b, 1, 1, 4, 12)]), "", "", ints(b, 1, 1, 8, 6)],
            mode="linear"), ints(b, 4, 12)]),
        {"resize"}, 28),
    "by_place": (
        lambda b, x, y: b.add("Gather", [x, b.add("ArgMax", [y], axis=0, keepdims=0)], axis=1),
        {"arg_reduce", "gather_at"}, 20),
}  # fmt: skip


def ints(b: OnnxBuilder, *values: int, shape: tuple[int, ...] = (-1,)) -> str:
    return b.constant(np.asarray(values, np.int64).reshape(shape), "ints")


def number(b: OnnxBuilder, value: float) -> str:
    return b.constant(np.float32(value), "number")


def positive(b: OnnxBuilder, x: str) -> str:
    return b.add("Add", [b.add("Abs", [x]), number(b, 1.0)])


def close_to_one(b: OnnxBuilder, x: str) -> str:
    return b.add("Add", [b.add("Mul", [x, number(b, 0.1)]), number(b, 1.0)])


def half(b: OnnxBuilder, x: str) -> str:
    return b.add("Slice", [x, ints(b, 0), ints(b, 2), ints(b, 0)])


def unit_rows(b: OnnxBuilder, x: str) -> str:
    """torch.nn.functional.normalize, as its exporter writes it."""
    length = b.add("Clip", [b.add("ReduceL2", [x], axes=[-1], keepdims=1), number(b, 1e-12)])
    return b.add("Div", [x, b.add("Expand", [length, ints(b, 4, 12)])])


def places(b: OnnxBuilder, shape: tuple[int, ...]) -> str:
    """Places within four rows."""
    return b.constant(b.rng.integers(-4, 4, shape), "places")


def ordered(b: OnnxBuilder, x: str) -> str:
    largest = b.add("TopK", [x, ints(b, 12)])
    b.nodes[-1].output.append(b.name("places"))
    return largest


def weighted_logarithms(b: OnnxBuilder, x: str, y: str) -> str:
    weights = b.constant(b.rng.normal(0, 0.3, (12, 12)).astype(np.float32), "w")
    return b.add("MatMul", [b.add("LogSoftmax", [x], axis=-1), weights])


def below(b: OnnxBuilder, x: str) -> str:
    return b.add("Less", [x, row(b, 0.0)])


def row(b: OnnxBuilder, least: float) -> str:
    return b.constant(b.rng.uniform(least, least + 1, 12).astype(np.float32), "row")


def network(make: Make, path: Path) -> Path:
    """Two dense layers, the operator on what they make, and a sum with a third."""
    b = OnnxBuilder(5, (4, 10))

    def dense(x: str, inputs: int) -> str:
        weights = b.rng.normal(0, inputs**-0.5, (inputs, 12)).astype(np.float32)
        return b.add("MatMul", [x, b.constant(weights, "w")])

    x, y = dense("x", 10), dense("x", 10)
    made = make(b, x, y)
    return b.save(b.add("Add", [made, dense("x", 10)]), path)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_it_is_in_integers_near_float_and_onnxruntime(
    name: str, dtype: str, tmp_path: Path
) -> None:
    make, wanted, least = CASES[name]
    path = network(make, tmp_path / "m.onnx")
    rng = np.random.default_rng(2)
    samples = [[rng.uniform(-1.7, 1.7, (4, 10)).astype(np.float32)] for _ in range(36)]
    recipe = Recipe("minmax", activations=dtype, equalize="never", reconstruct=False)
    made = quantize_model(path, samples[:24], recipe)
    assert {node.operator for node in made.float_nodes()} == {"quantize", "dequantize"}
    assert wanted <= {node.op.name for node in made.integers.nodes}
    assert made.explain(samples[24:]).output_sqnr_db > least + (12 if dtype == "int16" else 0)
    (tmp_path / "q.onnx").write_bytes(qdq_bytes(made))
    back = run_passes(import_model(tmp_path / "q.onnx").main, "onnx")
    oracle = open_oracle(tmp_path / "q.onnx")
    step = made.integers.nodes[-1].inputs[0].type.scalar_quant()[0]
    for sample in samples[24:30]:
        (mine,) = interpret(back, sample)
        assert np.array_equal(mine, interpret(made.integers, sample)[0])
        off = np.abs(mine - oracle.run(sample).outputs[0]).max() / step
        assert off < (9 if dtype == "int16" else 2.01)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_an_embedding_is_stored_in_integers(dtype: str, tmp_path: Path) -> None:
    """Rows of a constant that computed places pick; ONNX Runtime has the same of the file."""
    b = OnnxBuilder(5, (1, 7), TensorProto.INT64)
    table = b.constant(b.rng.normal(size=(20, 16)).astype(np.float32), "rows")
    weights = b.constant(b.rng.normal(0, 0.3, (16, 5)).astype(np.float32), "w")
    made_of_rows = b.add("MatMul", [b.add("Gather", [table, "x"]), weights])
    path = b.save(made_of_rows, tmp_path / "m.onnx")
    samples = [[b.rng.integers(-20, 20, (1, 7))] for _ in range(30)]
    recipe = Recipe("minmax", activations=dtype, reconstruct=False)
    made = quantize_model(path, samples[:20], recipe)
    assert {node.operator for node in made.float_nodes()} == {"dequantize"}
    assert made.integers.nodes[0].inputs[0].type.dtype == dtype
    assert made.explain(samples[20:]).output_sqnr_db > (42 if dtype == "int16" else 34)
    path.write_bytes(qdq_bytes(made))
    oracle = open_oracle(path)
    back = run_passes(import_model(path).main, "onnx")
    step = made.integers.nodes[-1].inputs[0].type.scalar_quant()[0]
    for sample in samples[20:]:
        (mine,) = interpret(back, sample)
        np.testing.assert_array_equal(mine, interpret(made.integers, sample)[0])
        assert np.abs(mine - oracle.run(sample).outputs[0]).max() < 1.01 * step


def test_an_embedding_that_makes_an_output_stays_in_float(tmp_path: Path) -> None:
    b = OnnxBuilder(5, (1, 7), TensorProto.INT64)
    rows = b.constant(b.rng.normal(size=(20, 16)).astype(np.float32), "rows")
    path = b.save(b.add("Gather", [rows, "x"]), tmp_path / "m.onnx")
    samples = [[b.rng.integers(0, 20, (1, 7))] for _ in range(4)]
    (node,) = quantize_model(path, samples, Recipe("minmax")).float_nodes()
    assert node.reason == "it moves floats at the model's edge"


def test_what_has_int8_alone_stays_in_float_beside_int16(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    samples = [[rng.uniform(-1.7, 1.7, (4, 10)).astype(np.float32)] for _ in range(12)]
    path = network(weighted_logarithms, tmp_path / "m.onnx")
    recipe = Recipe("minmax", equalize="never", reconstruct=False)
    made = quantize_model(path, samples, recipe)
    assert {node.operator for node in made.float_nodes()} == {"quantize", "dequantize"}
    assert made.explain(samples).output_sqnr_db > 26
    wide = quantize_model(path, samples, replace(recipe, activations="int16"))
    reasons = {node.operator: node.reason for node in wide.float_nodes()}
    assert reasons["log_softmax"] == "its integer form exists for int8 only"


def test_constants_far_from_all_else_stay_in_float(tmp_path: Path) -> None:
    """A mask of attention: with a range that holds it nothing would be left of the scores."""
    rng = np.random.default_rng(5)
    samples = [[rng.uniform(-1.7, 1.7, (4, 10)).astype(np.float32)] for _ in range(12)]
    for far in (-1e9, -np.inf):
        path = network(
            lambda b, x, y, far=far: b.add("Softmax", [b.add("Where", [
                below(b, y), x, b.constant(np.float32(far), "far")])], axis=-1),
            tmp_path / "m.onnx",
        )  # fmt: skip
        made = quantize_model(path, samples, Recipe("minmax", equalize="never", reconstruct=False))
        reasons = {node.operator: node.reason for node in made.float_nodes()}
        is_finite = bool(np.isfinite(far))
        why = "selects a constant that may lie far" if is_finite else "reads a constant that is"
        assert reasons["where"].startswith(f"it {why}")
        assert made.explain(samples).output_sqnr_db > 24


def test_c_has_the_bits_of_the_interpreter(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    samples = [[rng.uniform(-1.7, 1.7, (4, 10)).astype(np.float32)] for _ in range(10)]
    for name in ("max", "reduce_max", "reduce_sum", "div", "where", "top_k", "by_place", "logs"):
        make = weighted_logarithms if name == "logs" else CASES[name][0]
        path = network(make, tmp_path / f"{name}.onnx")
        made = quantize_model(path, samples, Recipe("minmax", equalize="never"))
        path.write_bytes(qdq_bytes(made))
        with compile_model(path, board="stm32", engine="core") as compiled:
            for sample in samples[:3]:
                (wanted,) = interpret(made.integers, sample)
                np.testing.assert_array_equal(wanted, compiled.run(*sample))


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_a_squared_difference_is_a_product(dtype: str) -> None:
    """TFLite's operator, which ONNX has not: of two values, and of a value and a constant."""
    b, rng = GraphBuilder(), np.random.default_rng(6)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(0, 0.4, shape).astype(np.float32)

    x = b.param("x", TensorType((4, 10), "float32"))
    first, second = (
        b.op("dense", [x, b.constant("w", normal(12, 10)), b.constant("b", normal(12))], name=name)
        for name in ("first", "second")
    )
    pair = b.op("squared_difference", [first, second], name="pair")
    found = b.op("squared_difference", [first, b.constant("c", normal(12))], name="found")
    samples = [[normal(4, 10) * 3] for _ in range(24)]
    recipe = Recipe("minmax", activations=dtype, equalize="never", reconstruct=False)
    made = quantize_function(
        prepare(b.finish([b.op("add", [pair, found], AddAttrs(), name="sum")])),
        samples[:24],
        recipe,
    )
    assert {node.operator for node in made.float_nodes()} == {"quantize", "dequantize"}
    # Squares reach far: what is not calibrated on is clipped in int8.
    assert made.explain(samples).output_sqnr_db > (40 if dtype == "int16" else 22)
