"""prelu: TFLite Micro's int8 and float PRELU in every bit, and ONNX Runtime's between QDQ nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from one_operator import Operand, check_operator, one_operator
from onnx_builder import OnnxBuilder
from onnx_on_boards import PLACES, check_c_against_onnxruntime, onnx_runtime
from quantized_cases import log_uniform, random_zero_point
from single_node import check_nests

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Array, Quant, TensorType
from edgec.ops import prelu as prelu_module
from edgec.ops.prelu import Prelu, PreluAttrs
from edgec.ops.slope_line import find_slope_line
from edgec.ops.table import OPERANDS
from edgec.passes.fuse_qdq import fuse_qdq

Q = Quant((0.1,), (0,))


def model(seed: int, dtype: str) -> bytes:
    rng = np.random.default_rng(seed)
    shape = (1, 4, 5, 6)
    slopes = [(1, 1, 6), (1, 4, 5, 6), (1, 1, 1, 1)][seed % 3]
    if dtype == "int8":
        alpha = rng.integers(-128, 128, slopes).astype(np.int8)
    else:
        alpha = rng.normal(0, 1, slopes).astype(np.float32)
    quants = [(log_uniform(rng, 1e-2, 0.1), random_zero_point(rng)) for _ in range(3)]
    return one_operator(
        "PRELU",
        [Operand(shape, dtype, *quants[0]), Operand(slopes, dtype, *quants[1], alpha)],
        [Operand(shape, dtype, *quants[2])],
    )


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_random_slopes_equal_tflm(dtype: str, tmp_path: Path) -> None:
    for seed in range(20):
        check_operator(model(seed, dtype), tmp_path, seed)


def qdq_model(seed: int, channels: int, path: Path) -> tuple[Path, Array]:
    """A QDQ PRelu, and an input with every stored value in every channel.

    Every third has scales of powers of two, whose results lie on halves, or slopes beyond int8.
    """
    rng = np.random.default_rng(seed)
    if seed % 3 == 1:
        scales = [2.0 ** -int(n) for n in rng.integers(2, 7, 3)]
    else:
        scales = [log_uniform(rng, 5e-3, 0.2) for _ in range(3)]
    zeros = [int(rng.integers(-128, 128)) for _ in range(2)]
    model = OnnxBuilder(seed, (1, channels, 16, 16))
    x = model.qdq("x", scales[0], zeros[0])
    slopes = rng.integers(-128, 128, (channels, 1, 1)).astype(np.int8)
    parameters = [model.constant(np.float32(scales[1]), "s"),
                  model.constant(np.int8(rng.integers(-50, 50)), "z")]  # fmt: skip
    slope = model.add("DequantizeLinear", [model.constant(slopes, "a"), *parameters])
    y = model.qdq(model.add("PRelu", [x, slope]), scales[2], zeros[1])
    stored = np.tile(OPERANDS.reshape(1, 1, 16, 16), (1, channels, 1, 1))
    return model.save(y, path), ((stored - zeros[0]) * scales[0]).astype(np.float32)


@pytest.mark.parametrize("block", range(4))
def test_between_qdq_nodes_it_equals_onnxruntime(block: int, tmp_path: Path) -> None:
    for seed in range(12 * block, 12 * block + 12):
        path, x = qdq_model(seed, 1 + seed % 3 * 7, tmp_path / "m.onnx")
        passed = fuse_qdq(import_model(path).main)
        assert [n.op.name for n in passed.nodes if "quantize" not in n.op.name] == ["prelu"]
        (mine,) = interpret(passed, [x])
        assert np.array_equal(mine, onnx_runtime(path, x)), seed
        if seed % 4 == 0:
            check_nests(passed, [x])


@pytest.mark.parametrize(("board", "engine"), PLACES)
def test_c_between_qdq_nodes_equals_onnxruntime(board: str, engine: str, tmp_path: Path) -> None:
    """One step for ties of powers of two, and one without, in one model each."""
    for seed in (4, 5):
        path, x = qdq_model(seed, 9, tmp_path / f"prelu{seed}.onnx")
        compiled = check_c_against_onnxruntime(path, x, board, engine)
        assert "prelu" in {node.op.name for node in compiled.module.main.nodes}


def of_onnx(slopes: Array | None) -> Function:
    """prelu of rounding `onnx` by constant slopes, or by a second parameter."""
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4, 8, 5), "int8", Quant((0.043,), (-11,))))
    quant = Quant((0.0071,), (3,))
    by = b.param("a", TensorType((1, 1, 1, 5), "int8", quant))
    if slopes is not None:
        by = b.constant("s", slopes, quant)
    attrs = PreluAttrs(Quant((0.031,), (-20,)), "onnx")
    return b.finish([b.op("prelu", [x, by], attrs, name="y")])


def test_every_way_to_compute_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line; a table for each slope, where there is none; floats, for slopes that are computed."""
    rng = np.random.default_rng(3)
    inputs = [rng.integers(-128, 128, s).astype(np.int8) for s in ((1, 4, 8, 5), (1, 1, 1, 5))]
    (wanted,) = interpret(of_onnx(None), inputs)
    constant = of_onnx(inputs[1])
    assert np.array_equal(*interpret(constant, inputs), wanted)
    for function in (of_onnx(None), constant):
        check_nests(function, inputs)
    monkeypatch.setattr(prelu_module, "find_slope_line", lambda *_: None)
    check_nests(constant, inputs)


def test_no_line_is_found_where_results_are_none() -> None:
    """A line of halves that go to even numbers; with one result that is no such number, nothing."""
    factors = 1.0, np.array([0.75])
    results = np.rint(np.where(OPERANDS >= 0, OPERANDS, OPERANDS * 0.75)).astype(np.int64)[:, None]
    line = find_slope_line(OPERANDS, results, factors, 0)
    assert line is not None and line.to_even
    results[20] += 1
    assert find_slope_line(OPERANDS, results, factors, 0) is None


@pytest.mark.parametrize(
    ("attrs", "x", "alpha", "message"),
    [
        (PreluAttrs(Q), TensorType((2,), "int8", Q), TensorType((3, 2), "int8", Q), "by"),
        (PreluAttrs(), TensorType((2,), "int8", Q), TensorType((2,), "int8", Q), "quantized int8"),
        (PreluAttrs(Q), TensorType((2,), "int8"), TensorType((2,), "int8", Q), "per tensor"),
        (
            PreluAttrs(Q, "tflm16"),
            TensorType((2,), "int8", Q),
            TensorType((2,), "int8", Q),
            "not defined",
        ),
    ],
)
def test_infer_refuses_what_has_no_meaning(attrs, x, alpha, message) -> None:
    with pytest.raises(TypeMismatch, match=message):
        Prelu().infer(attrs, x, alpha)
