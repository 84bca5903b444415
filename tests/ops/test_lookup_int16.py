"""lookup_int16: tables with lines are near the functions, nests in the reference's bits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from single_node import check_nests

from edgec import ops
from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import Quant, TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.clip import ClipAttrs
from edgec.ops.lookup_int16 import LookupInt16, LookupInt16Attrs
from edgec.ops.mul import MulAttrs
from edgec.ops.quantize import QuantizeAttrs
from edgec.passes.sequence import run_passes

ops.load()


def stored_function(
    kind: str, x: tuple[str, float], y: tuple[str, float], zero_point: int = 0
) -> Function:
    """quantize(kind(dequantize(x)))"""
    b = GraphBuilder()
    param = b.param("x", TensorType((3, 2000), x[0], Quant((x[1],), (0,))))
    value = b.op(kind, [b.op("dequantize", [param], name="real")], name="function")
    attrs = QuantizeAttrs(Quant((y[1],), (zero_point,)), y[0])
    return b.finish([b.op("quantize", [value], attrs, name="stored")])


@pytest.mark.parametrize(
    ("kind", "function"),
    [("gelu", None), ("exp", np.exp), ("softplus", lambda v: np.log1p(np.exp(v)))],
)
@pytest.mark.parametrize("output", [("int16", 0), ("int8", -100)])
def test_it_is_near(kind: str, function: Callable | None, output: tuple[str, int]) -> None:
    dtype, zero_point = output
    x_scale = 4.0 / 32768
    reach = 60.0 if kind == "exp" else 5.0
    y_scale = reach / (32767 if dtype == "int16" else 227)
    floats = stored_function(kind, ("int16", x_scale), (dtype, y_scale), zero_point)
    integers = run_passes(floats, "onnx")
    (node,) = integers.nodes
    assert node.op.name == "lookup_int16" and node.attrs.off <= 1
    x = np.random.default_rng(1).integers(-32768, 32768, (3, 2000)).astype(np.int16)
    (wanted,), (found,) = interpret(floats, [x]), interpret(integers, [x])
    assert np.abs(wanted.astype(int) - found).max() <= node.attrs.off
    if function is not None:
        exact = function(x * x_scale) / y_scale + zero_point
        assert np.abs(np.clip(exact, *_ends(dtype)) - found).max() <= 2
    check_nests(integers, [x])


@pytest.mark.parametrize("kind", ["log", "sqrt"])
@pytest.mark.parametrize("output", ["int16", "int8"])
def test_what_is_steep_next_to_0_has_lines_by_octave(kind: str, output: str) -> None:
    x_scale, reach = 8.0 / 32768, 8.5 if kind == "log" else 3.0
    y_scale = reach / np.iinfo(output).max
    floats = stored_function(kind, ("int16", x_scale), (output, y_scale))
    integers = run_passes(floats, "onnx")
    (node,) = integers.nodes
    assert node.op.name == "lookup_int16" and node.attrs.off <= 1
    x = np.random.default_rng(1).integers(0, 32768, 6000).astype(np.int16).reshape(3, 2000)
    x[0, :1500] = np.arange(1500)  # all small ones, where it is steep
    x[1, :15], x[2, :15] = 2 ** np.arange(15), 2 ** np.arange(1, 16) - 1
    with np.errstate(divide="ignore"):
        exact = getattr(np, kind)(x * x_scale) / y_scale
    (found,) = interpret(integers, [x])
    assert np.abs(np.clip(exact, *_ends(output)) - found).max() <= 1.5
    x[2, :100] = np.arange(-32768, -32668)
    check_nests(integers, [x])


def test_what_no_relu_gives_is_not_compared() -> None:
    b, quant = GraphBuilder(), Quant((4.0 / 32768,), (0,))
    x = b.param("x", TensorType((3, 2000), "int16", quant))
    real = b.op("dequantize", [x], name="real")
    positive = b.op("clip", [real], ClipAttrs(0.0), name="positive")
    stored = b.op("quantize", [positive], QuantizeAttrs(quant, "int16"), name="stored")
    least = b.constant("least", np.float32(0.05))
    value = b.op("add", [b.op("dequantize", [stored], name="again"), least], AddAttrs(), name="sum")
    attrs = QuantizeAttrs(Quant((3.1 / 32768,), (0,)), "int16")
    floats = b.finish([b.op("quantize", [b.op("log", [value], name="log")], attrs, name="y")])
    integers = run_passes(floats, "onnx")
    assert integers.nodes[-1].op.name == "lookup_int16" and integers.nodes[-1].attrs.off <= 1
    data = np.random.default_rng(1).integers(-32768, 32768, (3, 2000)).astype(np.int16)
    (wanted,), (found,) = interpret(floats, [data]), interpret(integers, [data])
    assert np.abs(wanted.astype(int) - found).max() <= 1


def _ends(dtype: str) -> tuple[int, int]:
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def test_int8_to_int16_is_widened_first() -> None:
    floats = stored_function("gelu", ("int8", 0.02), ("int16", 6.0 / 32768))
    integers = run_passes(floats, "onnx")
    assert [node.op.name for node in integers.nodes] == ["requantize", "lookup_int16"]
    x = np.random.default_rng(2).integers(-128, 128, (3, 2000)).astype(np.int8)
    (wanted,), (found,) = interpret(floats, [x]), interpret(integers, [x])
    assert np.abs(wanted.astype(int) - found).max() <= integers.nodes[1].attrs.off <= 1


def test_what_has_a_jump_or_a_pole_stays_in_floats() -> None:
    for kind in ("sign", "reciprocal"):
        floats = stored_function(kind, ("int16", 1e-3), ("int16", 1e-3))
        assert [node.op.name for node in run_passes(floats, "onnx").nodes][1] == kind


def test_other_names_of_the_same_integers_are_no_code() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((2, 3), "int16", Quant((0.01,), (0,))))
    quarter = b.constant("quarter", np.float32(0.25))
    value = b.op("mul", [b.op("dequantize", [x], name="real"), quarter], MulAttrs(), name="part")
    attrs = QuantizeAttrs(Quant((0.0025,), (0,)), "int16")
    function = b.finish([b.op("quantize", [value], attrs, name="stored")])
    assert [node.op.name for node in run_passes(function, "onnx").nodes] == ["reinterpret"]


def test_infer_refuses_what_has_no_meaning() -> None:
    quant = Quant((0.1,), (0,))
    x = TensorType((4,), "int16", quant)
    with pytest.raises(TypeMismatch, match="no table of 256 results"):
        LookupInt16().infer(LookupInt16Attrs((0,) * 256, quant), x)
    with pytest.raises(TypeMismatch, match="does not fit"):
        LookupInt16().infer(LookupInt16Attrs((40000,) * 257, quant), x)
    with pytest.raises(TypeMismatch, match="needs int16"):
        LookupInt16().infer(LookupInt16Attrs((0,) * 257, quant), TensorType((4,), "int8", quant))
