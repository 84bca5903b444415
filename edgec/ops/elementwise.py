"""Element-wise operators as a table: one row each.

The exact meaning of functions of floats is `edgec.numerics.float_math`, so that C has the same bits
without a libm. Integers without quantization wrap, as C's unsigned ones do. Of `maximum` and
`minimum` of floats C's `a > b ? a : b` (or `<`) is the meaning, so of two zeros and of a NaN the
second operand is taken, as TFLite does it; ONNX's Max and Min keep a NaN.
"""

from __future__ import annotations

import math

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.ir import Constant, Node
from edgec.loop.dtype import is_float
from edgec.loop.values import Value, clamp, intrinsic, maximum, minimum, select
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import RawNode
from edgec.ops.row import FLOAT, INTEGERS, Row, add_rows

#: How far results of `float_math` may be from a framework's, as a part of the largest one.
NEAR = 5e-7
_HALF_ROOT = math.sqrt(0.5)
#: Source of the approximation: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
_ROOT, _CUBE = math.sqrt(2 / math.pi), 0.044715


def _gelu(x: Value) -> Value:
    return x * 0.5 * (1.0 + intrinsic("erf_f32", x * _HALF_ROOT))


def _gelu_tanh(x: Value) -> Value:
    return x * 0.5 * (1.0 + intrinsic("tanh_f32", (x + x * x * x * _CUBE) * _ROOT))


def _is_tanh(raw: RawNode) -> bool:
    kind = raw.attributes.get("approximate", False)
    if kind not in (False, True, "none", "tanh"):
        raise ImportFailed(f"approximate {kind!r} is unknown")
    return kind in (True, "tanh")


def _divides_safely(raw: RawNode) -> bool:
    divisor = raw.operand(1)
    if isinstance(divisor, Constant) and not np.isin(divisor.data, (0, -1)).any():
        return True
    raise ImportFailed("the divisor must be a constant, and neither 0 nor -1")


def _maximum_or_nan(a: Value, b: Value) -> Value:
    return select(a > b, a, select(a <= b, b, a + b))


def _minimum_or_nan(a: Value, b: Value) -> Value:
    return select(a < b, a, select(a >= b, b, a + b))


def _trunc_mod(a: Value, b: Value) -> Value:
    """The remainder with the sign of a. Of integers, that of a division by 0 is 0."""
    if is_float(a.dtype):
        return intrinsic("fmod_f32", a, b)
    unsafe = b.equals(0) if a.dtype.startswith("u") else b.equals(0) | b.equals(-1)
    divisor = select(unsafe, 1, b)
    return a - a / divisor * divisor


def _floor_mod(a: Value, b: Value) -> Value:
    """The remainder with the sign of b."""
    rest = _trunc_mod(a, b)
    if a.dtype.startswith("u"):
        return rest
    zero = rest.equals(0)
    return select(zero, rest, select((rest < 0) ^ (b < 0), rest + b, rest))


def _write_rsqrt(out: OnnxGraph, node: Node) -> None:
    inputs, output, _ = out.places(node)
    root = out.fresh(f"{output}.sqrt")
    out.emit("Sqrt", inputs, root)
    one = out.initializer(f"{output}.one", np.asarray(1.0, np.float32))
    out.emit("Div", [one, root], output)


def _write_squared_difference(out: OnnxGraph, node: Node) -> None:
    inputs, output, _ = out.places(node)
    difference = out.fresh(f"{output}.difference")
    out.emit("Sub", inputs, difference)
    out.emit("Mul", [difference, difference], output)


def _write_floor_mod(out: OnnxGraph, node: Node) -> None:
    if node.output.type.is_float:
        raise ImportFailed(f"{node.name}: ONNX has no remainder of floats with the divisor's sign")
    inputs, output, _ = out.places(node)
    out.emit("Mod", inputs, output)


ROWS = (
    Row("exp", "e**x", lambda x: intrinsic("exp_f32", x),
        onnx="Exp", tflite="EXP", tolerance=NEAR),
    Row("log", "the natural logarithm", lambda x: intrinsic("log_f32", x),
        onnx="Log", tflite="LOG", tolerance=NEAR),
    Row("erf", "the error function", lambda x: intrinsic("erf_f32", x),
        onnx="Erf", tolerance=NEAR),
    Row("sqrt", "the square root, correctly rounded", lambda x: intrinsic("sqrt_f32", x),
        onnx="Sqrt", tflite="SQRT", tolerance=NEAR),
    Row("rsqrt", "1 / sqrt(x)", lambda x: intrinsic("rsqrt_f32", x),
        tflite="RSQRT", tolerance=NEAR, write=_write_rsqrt),
    Row("neg", "-x", lambda x: -x, onnx="Neg", tflite="NEG", tolerance=NEAR),
    Row("abs", "|x|: the larger of x and -x", lambda x: maximum(x, -x),
        onnx="Abs", tflite="ABS", tolerance=NEAR),
    Row("gelu", "x / 2 * (1 + erf(x / sqrt(2)))", _gelu,
        onnx="Gelu", since=20, tflite="GELU", tolerance=NEAR, when=lambda raw: not _is_tanh(raw),
        written={"approximate": "none"}),
    Row("gelu_tanh", "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))", _gelu_tanh,
        onnx="Gelu", since=20, tflite="GELU", tolerance=NEAR, when=_is_tanh,
        written={"approximate": "tanh"}),
    Row("hard_sigmoid", "min(max(alpha * x + beta, 0), 1)",
        lambda x, alpha, beta: clamp(x * alpha + beta, 0.0, 1.0),
        onnx="HardSigmoid", parameters={"alpha": 0.2, "beta": 0.5}, tolerance=NEAR, bounded=True),
    Row("div", "a / b", lambda a, b: a / b, onnx="Div", since=7, tflite="DIV"),
    Row("squared_difference", "(a - b) squared", lambda a, b: (a - b) * (a - b),
        tflite="SQUARED_DIFFERENCE", write=_write_squared_difference),
    Row("maximum_or_nan", "the larger element, or a NaN if one of them is", _maximum_or_nan,
        onnx="Max", since=8, variadic=True),
    Row("minimum_or_nan", "the smaller element, or a NaN if one of them is", _minimum_or_nan,
        onnx="Min", since=8, variadic=True),
    Row("maximum", "the larger element", maximum, (*FLOAT, *INTEGERS), stored=True,
        onnx="Max", since=8, tflite="MAXIMUM", variadic=True),
    Row("minimum", "the smaller element", minimum, (*FLOAT, *INTEGERS), stored=True,
        onnx="Min", since=8, tflite="MINIMUM", variadic=True),
    Row("int_add", "a + b of integers", lambda a, b: a + b, INTEGERS),
    Row("int_mul", "a * b of integers", lambda a, b: a * b, INTEGERS),
    Row("int_div", "a / b towards zero; b is a constant, and neither 0 nor -1",
        lambda a, b: a / b, INTEGERS, onnx="Div", since=7, tflite="DIV", when=_divides_safely),
    Row("trunc_mod", "the remainder of a / b, with the sign of a", _trunc_mod, (*FLOAT, *INTEGERS),
        onnx="Mod", since=10, when=lambda raw: bool(raw.attribute("fmod", 0)),
        written={"fmod": 1}),
    Row("floor_mod", "the remainder of a / b, with the sign of b", _floor_mod, (*FLOAT, *INTEGERS),
        onnx="Mod", since=10, tflite="FLOOR_MOD", write=_write_floor_mod),
)  # fmt: skip

add_rows(ROWS)
