"""Operators between dequantize and quantize as integers: the bits of ONNX Runtime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from single_node import check_nests

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.passes.fuse_qdq import fuse_qdq
from edgec.passes.sequence import run_passes

INTS = np.int64


def passed_and_checked(model: OnnxBuilder, output: str, path: Path, seed: int) -> Function:
    """The integer function of a model, which equals ONNX Runtime in every bit."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    path = model.save(output, path)
    passed = fuse_qdq(import_model(path).main)
    oracle = open_oracle(path)
    rng = np.random.default_rng(seed)
    for _ in range(4):
        x = rng.normal(0, 2.0, model.input_shape).astype(np.float32)
        (mine,) = interpret(passed, [x])
        assert np.array_equal(mine, oracle.run([x]).outputs[0])
    check_nests(passed, [x])
    return passed


def names(function: Function) -> list[str]:
    return [node.op.name for node in function.nodes if "quantize" not in node.op.name]


def random_scale(rng: np.random.Generator) -> float:
    return float(np.float32(rng.uniform(0.02, 0.06)))


@pytest.mark.parametrize("seed", range(8))
def test_mul(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    model = OnnxBuilder(seed, (2, 3, 40))
    a = model.qdq("x", random_scale(rng), int(rng.integers(-128, 128)))
    b = model.qdq("x", random_scale(rng), int(rng.integers(-40, 40)))
    product = model.add("Mul", [a, b])
    if seed % 2:
        product = model.add("Relu", [product])
    y = model.qdq(product, random_scale(rng) * 3, int(rng.integers(-128, 128)))
    assert names(passed_and_checked(model, y, tmp_path / "m.onnx", seed)) == ["mul"]


def test_all_pairs_of_a_product(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = OnnxBuilder(seed, (256, 256))
        first, second = (float(np.float32(rng.uniform(0.001, 0.3))) for _ in range(2))
        row = model.constant(np.arange(-128, 128).astype(np.int8).reshape(256, 1), "row")
        parameters = [model.constant(np.float32(first), "s"), model.constant(np.int8(7), "z")]
        a = model.qdq("x", second, int(rng.integers(-128, 128)))
        b = model.add("DequantizeLinear", [row, *parameters])
        output = float(np.float32(first * second * rng.uniform(20, 250)))
        y = model.qdq(model.add("Mul", [a, b]), output, int(rng.integers(-128, 128)))
        path = model.save(y, tmp_path / "m.onnx")
        x = np.tile(np.arange(-300, 300, 600 / 256) * second, (256, 1)).astype(np.float32)
        passed = fuse_qdq(import_model(path).main)
        assert names(passed) == ["mul"]
        assert np.array_equal(interpret(passed, [x])[0], open_oracle(path).run([x]).outputs[0])


def moving(model: OnnxBuilder, kind: str, x: str) -> str:
    def ints(*values: int) -> str:
        return model.constant(np.asarray(values, INTS), "i")

    if kind == "Pad":
        value = model.constant(np.float32(0.7), "v")
        return model.add(kind, [x, ints(0, 1, 0, 2, 0, 0), value])
    if kind == "Slice":
        return model.add(kind, [x, ints(1, 0), ints(3, 4), ints(1, 2), ints(1, 2)])
    return model.add(kind, [x, ints(2, 0, 1)], axis=1)


@pytest.mark.parametrize("kind", ["Pad", "Slice", "Gather"])
def test_what_moves_integers(kind: str, tmp_path: Path) -> None:
    model = OnnxBuilder(1, (2, 3, 5))
    x = model.qdq("x", 0.03, -11)
    parameters = model.nodes[-1].input[1:]
    stored = model.add("QuantizeLinear", [moving(model, kind, x), *parameters])
    y = model.add("DequantizeLinear", [stored, *parameters])
    passed = passed_and_checked(model, y, tmp_path / "m.onnx", 1)
    assert names(passed) == [kind.lower()]


@pytest.mark.parametrize("pads", [(2, 3, 3, 2), (1, 1, 1, 1)], ids=str)
def test_zeros_around_integers(pads: tuple[int, ...], tmp_path: Path) -> None:
    """Padding that a convolution has no room for, and a Pad before it, are of integers."""
    model = OnnxBuilder(1, (1, 3, 5, 6))
    x = model.qdq("x", 0.03, -11)
    weights, bias, _ = model.weights((4, 3, 3, 3), 0.03)
    around = model.constant(np.asarray((0, 0, 1, 0, 0, 0, 0, 2), INTS), "around")
    made = model.add("Conv", [model.add("Pad", [x, around]), weights, bias], pads=pads)
    y = model.qdq(made, 0.2, 3)
    passed = passed_and_checked(model, y, tmp_path / "m.onnx", 1)
    assert set(names(passed)) == {"pad", "transpose", "conv2d"}
    assert all(not v.type.is_float for node in passed.nodes[1:-1] for v in node.outputs)


@pytest.mark.parametrize(("kind", "shape"), [
    ("MatMul", (4, 4)), ("MatMul", (4, 6)), ("ConvTranspose", (4, 4, 3, 3)),
    ("ConvTranspose", (4, 2, 3, 3)),
], ids=str)  # fmt: skip
def test_scales_of_inputs_stay_in_float(kind: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    """They were taken for the outputs' where there are as many of these."""
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    from edgec.oracle.frameworks import open_oracle

    model = OnnxBuilder(1, (3, 4) if len(shape) == 2 else (1, 4, 5, 5))
    stored = model.rng.integers(-127, 128, shape).astype(np.int8)
    weights = model.add("DequantizeLinear", [
        model.constant(stored, "w"), model.constant(np.float32([0.001, 0.002, 0.01, 0.02]), "s"),
        model.constant(np.zeros(4, np.int8), "z"),
    ], axis=0)  # fmt: skip
    made = model.add(kind, [model.qdq("x", 0.03, -11), weights])
    path = model.save(model.qdq(made, 0.2, 3), tmp_path / "m.onnx")
    passed = run_passes(import_model(path).main, "onnx")
    x = model.rng.normal(0, 2.0, model.input_shape).astype(np.float32)
    assert np.array_equal(interpret(passed, [x])[0], open_oracle(path).run([x]).outputs[0])
    check_nests(passed, [x])


def concatenated(model: OnnxBuilder, others: tuple[float, int], with_tail: bool = True) -> str:
    x = model.qdq("x", 0.03, -11)
    parameters = model.nodes[-1].input[1:]
    tail = model.add("DequantizeLinear", [
        model.constant(np.asarray([[[1] * 5, [-7] * 5]] * 2, np.int8), "tail"), *parameters,
    ])  # fmt: skip
    other = model.qdq("x", *others)
    joined = model.add("Concat", [x, other, tail] if with_tail else [x, other], axis=1)
    stored = model.add("QuantizeLinear", [joined, *parameters])
    return model.add("DequantizeLinear", [stored, *parameters])


def test_concat_of_one_scale(tmp_path: Path) -> None:
    model = OnnxBuilder(1, (2, 3, 5))
    y = concatenated(model, (0.03, -11))
    assert names(passed_and_checked(model, y, tmp_path / "m.onnx", 1)) == ["concat"]


@pytest.mark.parametrize("seed", range(6))
def test_concat_of_other_scales(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    model = OnnxBuilder(1, (2, 3, 5))
    y = concatenated(model, (random_scale(rng), int(rng.integers(-128, 128))), with_tail=False)
    passed = passed_and_checked(model, y, tmp_path / "m.onnx", 1)
    assert sorted(names(passed)) == ["concat", "lookup"]


def test_products_beyond_integers_stay_in_float(tmp_path: Path) -> None:
    model = OnnxBuilder(1, (2, 4))
    a: Any = model.qdq("x", 200.0, 0)
    y = model.qdq(model.add("Mul", [a, a]), 0.5, 0)
    passed = fuse_qdq(import_model(model.save(y, tmp_path / "m.onnx")).main)
    assert [node.op.name for node in passed.nodes].count("lookup") == 1  # of one value: a table
