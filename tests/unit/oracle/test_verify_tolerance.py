"""Comparisons with a framework: integers in every bit, floats within a tolerance."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from float_cases import float_network
from onnx_builder import OnnxBuilder
from uneven_network import pixels, uneven

from edgec import ops
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function
from edgec.graph.operator import UNKNOWN_ROUNDS, NoAttrs, get_op
from edgec.graph.types import Quant, TensorType
from edgec.ops.cast import CastAttrs
from edgec.ops.control import ScanAttrs, WhileAttrs
from edgec.ops.prelu import PreluAttrs
from edgec.ops.requantize import RequantizeAttrs
from edgec.ops.resize import ResizeAttrs
from edgec.ops.softmax import SoftmaxAttrs
from edgec.ops.transpose import TransposeAttrs
from edgec.oracle.tolerances import scales, steps_of, tolerances
from edgec.oracle.verify import Comparison
from edgec.passes.sequence import run_passes
from edgec.quantizer.post_training import Recipe, quantize_function

ops.load()


def compared(expected: np.ndarray, found: np.ndarray, tolerance: float) -> Comparison:
    row = Comparison("t", "dense", expected.shape, tolerance)
    row.add(0, expected, found)
    return row


def test_floats_may_differ_by_a_part_of_the_largest_magnitude() -> None:
    expected = np.array([100.0, 1e-3, np.nan, np.inf], np.float32)
    found = np.array([100.0, 2e-3, np.nan, np.inf], np.float32)
    near = compared(expected, found, 2e-5)
    assert (near.mismatches, near.beyond, near.first) == (1, 0, None)
    far = compared(expected, found, 5e-6)
    assert (far.mismatches, far.beyond) == (1, 1)
    assert far.first is not None and far.first["index"] == [1]
    lost = compared(expected, np.array([100.0, np.nan, np.nan, 3e38], np.float32), 1.0)
    assert lost.beyond == 2


def test_errors_of_a_probability_are_small_beside_one(tmp_path: Path) -> None:
    """One element near 0 after a sigmoid: a part of itself would ask for more than float32 has."""
    builder = OnnxBuilder(1, (1, 4, 2))
    mean = builder.add("ReduceMean", [builder.add("Sigmoid", ["x"])], axes=[1])
    flat = builder.add("Flatten", [mean])
    function = import_model(builder.save(builder.add("Exp", [flat]), tmp_path / "m.onnx")).main
    found = scales(function)
    assert {n.op.name: found[n.output] for n in function.nodes} == {
        "logistic": 1.0, "reduce": 1.0, "reshape": 1.0, "exp": 0.0
    }  # fmt: skip
    row = Comparison("t", "output", (1,), 1e-6, 1.0)
    row.add(0, np.float32([1e-4]), np.float32([1.004e-4]))
    assert (row.mismatches, row.beyond) == (1, 0)
    row.add(1, np.float32([1e-4]), np.float32([1.02e-4]))
    assert row.beyond == 1


def test_integers_have_no_tolerance() -> None:
    row = compared(np.array([1, 2], np.int8), np.array([1, 3], np.int8), 0.0)
    assert (row.mismatches, row.beyond) == (1, 1)


def test_tolerances_add_up(tmp_path: Path) -> None:
    function = import_model(float_network(tmp_path / "m.tflite")).main
    found = tolerances(function)
    dense, softmax = (
        next(n.op.tolerance for n in function.nodes if n.op.name == name)
        for name in ("dense", "softmax")
    )
    assert found[function.params[0]] == 0
    assert found[function.results[0]] == pytest.approx(2 * dense + softmax)


@pytest.mark.parametrize(("dtype", "unit"), [("float16", 2**-10), ("bfloat16", 2**-7)])
def test_narrow_floats_may_differ_by_their_last_place(dtype: str, unit: float) -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((2, 3), "float32"))
    exact = b.op("cast", [x], CastAttrs(dtype), name="exact")
    near = b.op("cast", [b.op("erf", [x], name="e")], CastAttrs(dtype), name="near")
    moved = b.op("transpose", [near], TransposeAttrs((1, 0)), name="moved")
    found = tolerances(b.finish([exact, moved]))
    assert found[exact] == 0
    assert found[near] == found[moved] == unit + get_op("erf").tolerance


def erf_of_carried(name: str) -> Function:
    b = GraphBuilder(name)
    return b.finish([b.op("erf", [b.param("c", TensorType((3,), "float32"))], name="t")])


@pytest.mark.parametrize(
    ("op", "attrs", "bodies", "rounds"),
    [
        ("call", NoAttrs(), 1, 1),
        ("if", NoAttrs(), 2, 1),
        ("scan", ScanAttrs(steps=7, carried=1), 1, 7),
        ("while", WhileAttrs(carried=1, limit=5), 1, 5),
        ("while", WhileAttrs(carried=1), 1, UNKNOWN_ROUNDS),
    ],
)
def test_a_body_adds_its_tolerance_in_every_round(
    op: str, attrs: object, bodies: int, rounds: int
) -> None:
    b = GraphBuilder()
    x = b.op("sin", [b.param("x", TensorType((3,), "float32"))], name="s")
    run = [erf_of_carried(f"body{n}") for n in range(bodies)]
    given, flag = [x], TensorType((), "bool")
    if op == "if":
        given.insert(0, b.param("condition", flag))
    if op == "while":
        condition = GraphBuilder("condition")
        condition.param("c", TensorType((3,), "float32"))
        run.insert(0, condition.finish([condition.constant("true", np.bool_(True))]))
    function = b.finish(b.node(op, given, attrs, name="y", bodies=tuple(run)).outputs)
    found = tolerances(function)
    sin, erf = get_op("sin").tolerance, get_op("erf").tolerance
    expected = pytest.approx(sin + rounds * erf)
    assert found[function.results[0]] == expected and found[run[-1].results[0]] == expected


def quantized(activations: str) -> Function:
    """Convolutions, a tanh and a mean of one dtype, as compiled."""
    made = quantize_function(uneven(1.0), pixels(4), Recipe("minmax", activations=activations))
    function = run_passes(made.integers, "onnx")
    assert function.nodes[-1].op.name == "dequantize"
    return function


def steps(function: Function, some_in_floats: bool) -> dict[str, int]:
    found = tolerances(function, some_in_floats)
    whole = [v for v in function.values() if v.type.dtype in ("int8", "int16") and v in found]
    return {value.name: steps_of(value, found[value]) for value in whole}


def test_int16_may_be_rounded_otherwise_by_a_framework_that_computes_floats() -> None:
    """Two steps more with every layer, and what the table of a tanh is off by and steeper than 1;
    the first rounding of floats to int16 is the same."""
    function = quantized("int16")
    found = steps(function, True).values()
    assert [*found] == [0, 2, 4, 6, 12, 14, 16] and not any(steps(function, False).values())
    allowed = tolerances(function, True)
    (scale,), result = function.nodes[-1].inputs[0].type.quant.scale, function.results[0]
    assert allowed[result] * scales(function, allowed)[result] == pytest.approx(
        (16 + 2**-8) * scale
    )
    row = Comparison("t", "requantize", (3,), 4 / 32768, 32768.0)
    row.add(0, np.array([5, -7, 9], np.int16), np.array([9, -11, 9], np.int16))
    assert (row.mismatches, row.beyond) == (2, 0)
    row.add(1, np.array([5, -7, 9], np.int16), np.array([10, -7, 9], np.int16))
    assert row.beyond == 1


def test_a_softmax_of_int16_differs_as_its_input_does() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1, 4), "int16", Quant((0.001,), (0,))))
    attrs = RequantizeAttrs((0.5,), Quant((0.002,), (0,)), -32768, 32767, "tflm16", "int16")
    y = b.op("dequantize", [b.op("requantize", [x], attrs, name="y")], name="real")
    function = b.finish([b.op("softmax", [y], SoftmaxAttrs(1.0), name="p")])
    (found,) = (tolerances(function, True)[value] for value in function.results)
    assert found == pytest.approx(2 * (2 + 2**-8) * 0.002, rel=1e-4)


def test_int8_is_to_be_the_same_in_every_bit() -> None:
    function = quantized("int8")
    assert not any(steps(function, True).values())
    assert not any(tolerances(function, True).values())


def test_prelu_and_bilinear_resizing_of_int8_are_to_be_the_same_in_every_bit() -> None:
    b = GraphBuilder()
    y = b.param("x", TensorType((1, 2, 2, 3), "int8", Quant((0.1,), (0,))))
    slopes = b.constant("a", np.array([[[3, 5, 7]]], np.int8), Quant((0.01,), (0,)))
    y = b.op("prelu", [y, slopes], PreluAttrs(Quant((0.15,), (0,)), "onnx"), name="y")
    attrs = ResizeAttrs((4, 4), "bilinear", half_pixel_centers=True, rounding="onnx")
    function = b.finish([b.op("resize", [y], attrs, name="larger")])
    assert steps(function, True) == {"x": 0, "y": 0, "larger": 0}
