"""uint8 between quantize and dequantize as int8: the same real numbers, no uint8 inside."""

from __future__ import annotations

import numpy as np
import pytest

from edgec import ops
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.provenance import Origin
from edgec.graph.types import Quant, TensorType
from edgec.ops.quantize import QuantizeAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.transpose import TransposeAttrs
from edgec.passes.fold_limits import fold_limits
from edgec.passes.uint8_to_int8 import uint8_to_int8

ops.load()
QUANT = Quant((0.05,), (100,))
SHAPE = (2, 40)


def numbers() -> np.ndarray:
    x = np.random.default_rng(1).normal(0, 4.0, SHAPE).astype(np.float32)
    x.flat[:4] = [0.0, 1e9, -1e9, 0.025]
    return x


def network(result: str, limits: tuple[int, int] | None = None) -> Function:
    """quantize, perhaps limits, a transpose and dequantize; the result may be the uint8 itself."""
    b = GraphBuilder()
    x = b.param("x", TensorType(SHAPE, "float32"))
    y = b.op("quantize", [x], QuantizeAttrs(QUANT, "uint8"), name="q", origins=[Origin("q", SHAPE)])
    if limits:
        y = b.op("requantize", [y], RequantizeAttrs((1.0,), QUANT, *limits, "onnx", "uint8"),
                 name="limit")  # fmt: skip
    stored = b.op("transpose", [y], TransposeAttrs((1, 0)), name="t")
    real = b.op("dequantize", [stored], name="y")
    return b.finish([{"floats": real, "bytes": stored}[result]])


@pytest.mark.parametrize("limits", [None, (0, 127), (90, 120)])
@pytest.mark.parametrize("result", ["floats", "bytes"])
def test_the_same_results_of_int8(result: str, limits: tuple[int, int] | None) -> None:
    before = network(result, limits)
    after = uint8_to_int8(before)
    assert [v.type for v in after.results] == [v.type for v in before.results]
    ((mine,), (wanted,)) = (interpret(f, [numbers()]) for f in (after, before))
    assert np.array_equal(mine, wanted) and mine.dtype == wanted.dtype
    dtypes = [node.output.type.dtype for node in after.nodes]
    assert dtypes.count("uint8") == (1 if result == "bytes" else 0)
    assert dtypes.count("int8") == 2 + bool(limits)


def test_where_the_bytes_come_from() -> None:
    after = uint8_to_int8(network("floats"))
    (quantize,) = [node for node in after.nodes if node.op.name == "quantize"]
    assert quantize.output.type.quant == Quant((0.05,), (100 - 128,))
    origin = quantize.output.origin
    assert origin is not None and origin.tensor == "q"
    stored = np.asarray([[0, 100, 128, 255]], np.uint8)
    moved = origin.from_source(stored, stored.shape)
    assert moved.dtype == np.int8 and moved.tolist() == [[-128, -28, 0, 127]]
    full = np.arange(80, dtype=np.uint8).reshape(SHAPE)
    back = origin.to_source(origin.from_source(full, SHAPE))
    assert back.dtype == np.uint8 and np.array_equal(back, full)


def test_bytes_from_outside() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType(SHAPE, "uint8", QUANT))
    before = b.finish([b.op("dequantize", [x], name="y")])
    after = uint8_to_int8(before)
    assert after.params[0].type == x.type
    assert [node.op.name for node in after.nodes] == ["requantize", "dequantize"]
    given = np.random.default_rng(2).integers(0, 256, SHAPE).astype(np.uint8)
    assert np.array_equal(interpret(after, [given])[0], interpret(before, [given])[0])


def test_other_integers_stay() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType(SHAPE, "float32"))
    y = b.op("quantize", [x], QuantizeAttrs(QUANT, "int16"), name="q")
    before = b.finish([b.op("dequantize", [y], name="y")])
    assert [n.output.type for n in uint8_to_int8(before).nodes] == [
        n.output.type for n in before.nodes
    ]


@pytest.mark.parametrize("limits, is_kept", [((-20, 30), True), ((-128, 127), False)])
def test_limits_that_nothing_reaches_go(limits: tuple[int, int], is_kept: bool) -> None:
    b = GraphBuilder()
    quant = Quant((0.05,), (3,))
    x = b.param("x", TensorType((1, 8), "int8", quant))
    attrs = RequantizeAttrs((1.0,), quant, *limits, "onnx", "int8")
    before = b.finish([b.op("requantize", [x], attrs, name="limit")])
    assert len(fold_limits(before).nodes) == is_kept


def test_limits_go_into_the_operator_before_views() -> None:
    b = GraphBuilder()
    quant = Quant((0.05,), (3,))
    acc = b.param("acc", TensorType((2, 8), "int32"))
    made = RequantizeAttrs((0.01,), quant, -100, 100, "onnx", "int8")
    y = b.op("requantize", [acc], made, name="made")
    y = b.op("transpose", [y], TransposeAttrs((1, 0)), name="t")
    limit = RequantizeAttrs((1.0,), quant, -7, 120, "onnx", "int8")
    before = b.finish([b.op("requantize", [y], limit, name="limit")])
    after = fold_limits(before)
    assert [node.op.name for node in after.nodes] == ["requantize", "transpose"]
    assert (after.nodes[0].attrs.minimum, after.nodes[0].attrs.maximum) == (-7, 100)
    given = np.random.default_rng(2).integers(-20000, 20000, (2, 8)).astype(np.int32)
    assert np.array_equal(interpret(after, [given])[0], interpret(before, [given])[0])


def test_limits_of_a_value_with_other_readers_stay() -> None:
    b = GraphBuilder()
    quant = Quant((0.05,), (3,))
    acc = b.param("acc", TensorType((2, 8), "int32"))
    made = RequantizeAttrs((0.01,), quant, -100, 100, "onnx", "int8")
    y = b.op("requantize", [acc], made, name="made")
    limit = RequantizeAttrs((1.0,), quant, -7, 90, "onnx", "int8")
    before = b.finish([y, b.op("requantize", [y], limit, name="limit")])
    after = fold_limits(before)
    given = np.random.default_rng(2).integers(-20000, 20000, (2, 8)).astype(np.int32)
    for mine, wanted in zip(interpret(after, [given]), interpret(before, [given]), strict=True):
        assert np.array_equal(mine, wanted)
