"""Element-wise operators as a table: one row each.

The exact meaning of functions of floats is `edgec.numerics.float_math`, so that C has the same bits
without a libm. Integers without quantization wrap, as C's unsigned ones do. Of `maximum` and
`minimum` of floats C's `a > b ? a : b` (or `<`) is the meaning, so of two zeros and of a NaN the
second operand is taken, as TFLite does it; ONNX's Max and Min keep a NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from edgec.errors import BadNode, ImportFailed
from edgec.graph.ir import Constant, Node
from edgec.graph.traits import Arithmetic, IntegerForm
from edgec.loop.dtype import bits, integer_range, is_float
from edgec.loop.values import Value, cast, intrinsic, maximum, minimum, select
from edgec.ops.onnx_arrays import WrittenArray
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import RawNode
from edgec.ops.row import FLOAT, FLOATS, INTEGERS, SIGNED, Row, add_rows

#: How far results of `float_math` may be from a framework's, as a part of the largest one.
NEAR = 5e-7
#: The largest float32.
_MOST = float(np.finfo(np.float32).max)
_HALF_ROOT = math.sqrt(0.5)
#: Source of the approximation: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
_ROOT, _CUBE = math.sqrt(2 / math.pi), 0.044715


def _exp(x: Value) -> Value:
    return intrinsic(f"exp_f{bits(x.dtype)}", x)


def _log(x: Value) -> Value:
    return intrinsic(f"log_f{bits(x.dtype)}", x)


def _pow(a: Value, b: Value) -> Value:
    """Compute float32, too, in float64: the result is rounded as if it were exact."""
    return cast(intrinsic("pow_f64", cast(a, "float64"), cast(b, "float64")), a.dtype)


def _int_pow(a: Value, b: Value) -> Value:
    return cast(intrinsic("pow_i64", cast(a, "int64"), cast(b, "int64")), a.dtype)


def _gelu(x: Value) -> Value:
    return x * 0.5 * (1.0 + intrinsic("erf_f32", x * _HALF_ROOT))


def _gelu_tanh(x: Value) -> Value:
    return x * 0.5 * (1.0 + intrinsic("tanh_f32", (x + x * x * x * _CUBE) * _ROOT))


def _is_tanh(raw: RawNode) -> bool:
    kind = raw.attributes.get("approximate", False)
    if kind not in (False, True, "none", "tanh"):
        raise BadNode(f"approximate {kind!r} is unknown")
    return kind in (True, "tanh")


def _divides_safely(raw: RawNode) -> bool:
    divisor = raw.optional(1)
    return isinstance(divisor, Constant) and not np.isin(divisor.data, (0, -1)).any()


def _divisor(b: Value) -> Value:
    """An integer divisor that is safe in C: 1 in place of 0, and of -1, for which INT_MIN
    overflows.
    """
    return select(b.equals(0) if b.dtype.startswith("u") else b.equals(0) | b.equals(-1), 1, b)


def _trunc_div(a: Value, b: Value) -> Value:
    quotient = a / _divisor(b)
    return quotient if a.dtype.startswith("u") else select(b.equals(-1), 0 - a, quotient)


def _floor_div(a: Value, b: Value) -> Value:
    if is_float(a.dtype):
        return intrinsic("floor_f32", a / b)
    quotient = _trunc_div(a, b)
    if a.dtype.startswith("u"):
        return quotient
    rest = _trunc_mod(a, b)
    return select(rest.equals(0), quotient, select((rest < 0) ^ (b < 0), quotient - 1, quotient))


def _maximum_or_nan(a: Value, b: Value) -> Value:
    return select(a > b, a, select(a <= b, b, a + b))


def _minimum_or_nan(a: Value, b: Value) -> Value:
    return select(a < b, a, select(a >= b, b, a + b))


def _limited_or_nan(x: Value) -> Value:
    return select(x >= 1.0, 1.0, select(x < 0.0, 0.0, x))


def _trunc_mod(a: Value, b: Value) -> Value:
    """The remainder with the sign of a; 0 for integers divided by 0."""
    if is_float(a.dtype):
        return intrinsic("fmod_f32" if a.dtype == "float32" else "fmod_f64", a, b)
    divisor = _divisor(b)
    return a - a / divisor * divisor


def _floor_mod(a: Value, b: Value) -> Value:
    """The remainder with the sign of b."""
    rest = _trunc_mod(a, b)
    if a.dtype.startswith("u"):
        return rest
    zero = rest.equals(0)
    return select(zero, rest, select((rest < 0) ^ (b < 0), rest + b, rest))


def _inverted(truth: Value) -> Value:
    return truth ^ True


def _sign(x: Value) -> Value:
    return select(x > 0, 1, select(x < 0, -1, x))


def _softplus(x: Value) -> Value:
    """Use the exponential of -|x|, which cannot overflow."""
    small = intrinsic("exp_f32", minimum(x, -x))
    positive: Value = maximum(x, 0.0)
    return positive + _log_of_1_and(small)


def _log_of_1_and(e: Value) -> Value:
    """log(1 + e) of a finite e, exact for a small one, too.

    Source: Kahan's log1p, log(u) * e / (u - 1) of the rounded u = 1 + e.
    """
    sum_ = 1.0 + e
    return select(sum_.equals(1.0), e, intrinsic("log_f32", sum_) * (e / (sum_ - 1.0)))


def _rising(x: Value) -> Value:
    """e**x - 1, as exact as 1 is."""
    return intrinsic("exp_f32", x) - 1.0


def _asinh(x: Value) -> Value:
    size = maximum(x, -x)
    own = select(size > 1e9, 1.0, size)
    square = own * own
    near = _log_of_1_and(own + square / (intrinsic("sqrt_f32", square + 1.0) + 1.0))
    y = select(size > 1e9, intrinsic("log_f32", size) + math.log(2), near)
    return select(x < 0, -y, y)


def _acosh(x: Value) -> Value:
    over = select(x > 1e9, 1.0, x) - 1.0
    near = _log_of_1_and(over + intrinsic("sqrt_f32", over) * intrinsic("sqrt_f32", over + 2.0))
    return select(x > 1e9, intrinsic("log_f32", x) + math.log(2), near)


def _atanh(x: Value) -> Value:
    """Half the logarithm of 1 + 2 |x| / (1 - |x|), which is infinite at 1."""
    size = maximum(x, -x)
    e = (size + size) / (1.0 - size)
    y = 0.5 * select(e < 1.0, _log_of_1_and(e), intrinsic("log_f32", 1.0 + e))
    return select(x < 0, -y, y)


def _atan2(y: Value, x: Value) -> Value:
    """The angle of (x, y), by the arc tangent of the smaller of both sizes by the larger."""
    across, along = maximum(y, -y), maximum(x, -x)
    large, small = maximum(across, along), minimum(across, along)
    ratio = select(large.equals(0.0), large, select(small.equals(math.inf), 1.0, small / large))
    angle = intrinsic("atan_f32", ratio)
    angle = select(across > along, math.pi / 2 - angle, angle)
    angle = select(intrinsic("bits_from_f32", x) >> 31 > 0, math.pi - angle, angle)
    angle = select(intrinsic("bits_from_f32", y) >> 31 > 0, -angle, angle)
    return select(x.equals(x) & y.equals(y), angle, x + y)


def _write_atan2(out: OnnxGraph, node: Node) -> None:
    """The same; a zero result has the sign of the quotient by 1."""
    y, x = (WrittenArray(out, out.own(v), v.type.shape, v.type.dtype) for v in node.inputs)
    one, infinite = np.float32(1), np.float32(math.inf)

    def is_below(value: Any) -> Any:
        return (value < 0) | ((value == 0) & (one / value < 0))

    across, along = np.abs(y), np.abs(x)
    large, small = np.maximum(across, along), np.minimum(across, along)
    ratio: Any = np.where(large == 0, large, np.where(small == infinite, one, small / large))
    angle = ratio.emit("Atan", [ratio], ratio.shape, ratio.dtype)
    angle = np.where(across > along, np.float32(math.pi / 2) - angle, angle)
    angle = np.where(is_below(x), np.float32(math.pi) - angle, angle)
    angle = np.where(is_below(y), -angle, angle)
    made: Any = np.where((x == x) & (y == y), angle, x + y)
    out.emit("Identity", [made.name], out.define_own(node.output))


def _is_infinite(x: Value, detect_negative: int, detect_positive: int) -> Value:
    low = x < (-_MOST if detect_negative else -math.inf)
    return low | (x > (_MOST if detect_positive else math.inf))


def _ones(dtype: str) -> int:
    """The integer whose bits are all set."""
    return integer_range(dtype)[1] if dtype.startswith("u") else -1


def _write_shift(direction: str, out: OnnxGraph, node: Node) -> None:
    """BitShift, which has no numbers with a sign before opset 28."""
    if np.dtype(node.inputs[0].type.dtype).kind != "u":
        raise ImportFailed(f"{node.name}: ONNX has no shift of numbers with a sign")
    inputs, output, _ = out.tensors_of(node)
    out.emit("BitShift", inputs, output, direction=direction)


def _shifts(direction: str) -> Callable[[RawNode], bool]:
    def is_it(raw: RawNode) -> bool:
        found = raw.attribute("direction", "")
        if found not in ("LEFT", "RIGHT"):
            raise BadNode(f"direction {found!r} is unknown")
        return bool(found == direction)

    return is_it


def _amount(b: Value, wide: str) -> tuple[Value, Value]:
    """The shift amount, and whether it is valid: at least 0 and less than the width."""
    width = bits(b.dtype)
    unsigned = cast(b, f"uint{width}")
    return cast(minimum(unsigned, width - 1), wide), unsigned < width


def _shift_left(a: Value, b: Value) -> Value:
    wide = f"uint{max(bits(a.dtype), 32)}"
    amount, fits = _amount(b, wide)
    return select(fits, cast(cast(a, wide) << amount, a.dtype), 0)


def _shift_right(a: Value, b: Value) -> Value:
    sign = "u" if a.dtype.startswith("u") else ""
    wide = f"{sign}int{max(bits(a.dtype), 32)}"
    amount, fits = _amount(b, wide)
    shifted = cast(cast(a, wide) >> amount, a.dtype)
    return select(fits, shifted, 0) if sign else select(fits | (a < 0), shifted, 0)


def _write_rsqrt(out: OnnxGraph, node: Node) -> None:
    inputs, output, _ = out.tensors_of(node)
    root = out.fresh(f"{output}.sqrt")
    out.emit("Sqrt", inputs, root)
    one = out.initializer(f"{output}.one", np.asarray(1.0, np.float32))
    out.emit("Div", [one, root], output)


def is_squared_difference(node: Node) -> bool:
    """Whether a node is (a - b) squared in one."""
    return node.op.name == "squared_difference"


def _write_squared_difference(out: OnnxGraph, node: Node) -> None:
    inputs, output, _ = out.tensors_of(node)
    difference = out.fresh(f"{output}.difference")
    out.emit("Sub", inputs, difference)
    out.emit("Mul", [difference, difference], output)


def _writes(kind: str) -> Callable[[OnnxGraph, Node], None]:
    """Writer of a row as ONNX's operator of this name, which is read as another row."""

    def write(out: OnnxGraph, node: Node) -> None:
        inputs, output, _ = out.tensors_of(node)
        out.emit(kind, inputs, output)

    return write


def _write_square(out: OnnxGraph, node: Node) -> None:
    (x,), output, _ = out.tensors_of(node)
    out.emit("Mul", [x, x], output)


def _write_floor_div(out: OnnxGraph, node: Node) -> None:
    if not node.output.type.is_float:
        raise ImportFailed(f"{node.name}: ONNX has no quotient of integers rounded down")
    inputs, output, _ = out.tensors_of(node)
    quotient = out.fresh(f"{output}.quotient")
    out.emit("Div", inputs, quotient)
    out.emit("Floor", [quotient], output)


def _write_not_equal(out: OnnxGraph, node: Node) -> None:
    inputs, output, _ = out.tensors_of(node)
    same = out.fresh(f"{output}.equal")
    out.emit("Equal", inputs, same)
    out.emit("Not", [same], output)


def _write_cube(out: OnnxGraph, node: Node) -> None:
    inputs, output, _ = out.tensors_of(node)
    three = out.initializer(f"{output}.three", np.asarray(3.0, np.float32))
    out.emit("Pow", [*inputs, three], output)


def _write_floor_mod(out: OnnxGraph, node: Node) -> None:
    if node.output.type.is_float:
        raise ImportFailed(f"{node.name}: ONNX has no remainder of floats with the divisor's sign")
    inputs, output, _ = out.tensors_of(node)
    out.emit("Mod", inputs, output)


def _choosing(of_stored: str) -> dict[str, Any]:
    """The quantizer's traits of rows that choose one of their operands."""
    return {"integer_form": IntegerForm.SHARED, "of_stored": of_stored}


ROWS = (
    Row("exp", "e**x", _exp, FLOATS, onnx="Exp", tflite="EXP", tolerance=NEAR),
    Row("log", "the natural logarithm", _log, FLOATS, onnx="Log", tflite="LOG", tolerance=NEAR),
    Row("erf", "the error function", lambda x: intrinsic("erf_f32", x),
        onnx="Erf", tolerance=NEAR),
    Row("sqrt", "the square root, correctly rounded", lambda x: intrinsic("sqrt_f32", x),
        onnx="Sqrt", tflite="SQRT", tolerance=NEAR),
    Row("rsqrt", "1 / sqrt(x)", lambda x: intrinsic("rsqrt_f32", x),
        tflite="RSQRT", tolerance=NEAR, write=_write_rsqrt),
    Row("neg", "-x", lambda x: -x, (*FLOATS, *SIGNED), onnx="Neg", tflite="NEG", tolerance=NEAR),
    Row("abs", "|x|: the larger of x and -x", lambda x: maximum(x, -x), (*FLOATS, *SIGNED),
        onnx="Abs", tflite="ABS", tolerance=NEAR),
    Row("gelu", "x / 2 * (1 + erf(x / sqrt(2)))", _gelu,
        onnx="Gelu", since=20, tflite="GELU", tolerance=NEAR, when=lambda raw: not _is_tanh(raw),
        written={"approximate": "none"}, bounded=True),
    Row("gelu_tanh", "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))", _gelu_tanh,
        onnx="Gelu", since=20, tflite="GELU", tolerance=NEAR, when=_is_tanh,
        written={"approximate": "tanh"}, bounded=True),
    Row("hard_sigmoid", "min(max(alpha * x + beta, 0), 1)",
        lambda x, alpha, beta: _limited_or_nan(x * alpha + beta),
        onnx="HardSigmoid", parameters={"alpha": 0.2, "beta": 0.5}, tolerance=NEAR, bounded=True),
    Row("div", "a / b", lambda a, b: a / b, FLOATS, onnx="Div", since=7, tflite="DIV",
        integer_form=IntegerForm.OPERANDS, of_stored="quotient", computes=Arithmetic.QUOTIENT),
    Row("squared_difference", "(a - b) squared", lambda a, b: (a - b) * (a - b), (*FLOAT, "int32"),
        tflite="SQUARED_DIFFERENCE", write=_write_squared_difference),
    Row("maximum_or_nan", "the larger element, or a NaN if one of them is", _maximum_or_nan,
        FLOATS, onnx="Max", since=6, variadic=True, **_choosing("maximum")),
    Row("minimum_or_nan", "the smaller element, or a NaN if one of them is", _minimum_or_nan,
        FLOATS, onnx="Min", since=6, variadic=True, **_choosing("minimum")),
    Row("maximum", "the larger element", maximum, (*FLOATS, *INTEGERS), stored=True,
        **_choosing("maximum"), onnx="Max", since=6, tflite="MAXIMUM", variadic=True),
    Row("minimum", "the smaller element", minimum, (*FLOATS, *INTEGERS), stored=True,
        **_choosing("minimum"), onnx="Min", since=6, tflite="MINIMUM", variadic=True),
    Row("int_add", "a + b of integers", lambda a, b: a + b, INTEGERS, write=_writes("Add")),
    Row("int_mul", "a * b of integers", lambda a, b: a * b, INTEGERS, write=_writes("Mul")),
    Row("int_div", "a / b towards zero; b is a constant, and neither 0 nor -1",
        lambda a, b: a / b, INTEGERS, onnx="Div", since=7, tflite="DIV", when=_divides_safely),
    Row("trunc_mod", "the remainder of a / b, with the sign of a", _trunc_mod, (*FLOATS, *INTEGERS),
        onnx="Mod", since=10, when=lambda raw: bool(raw.attribute("fmod", 0)),
        written={"fmod": 1}),
    Row("floor_mod", "the remainder of a / b, with the sign of b", _floor_mod, (*FLOATS, *INTEGERS),
        onnx="Mod", since=10, tflite="FLOOR_MOD", write=_write_floor_mod),
    Row("int_sub", "a - b of integers", lambda a, b: a - b, INTEGERS, write=_writes("Sub")),
    Row("trunc_div", "a / b towards zero; a where b is 0", _trunc_div, INTEGERS,
        onnx="Div", since=7, tflite="DIV"),
    Row("floor_div", "a / b, rounded down", _floor_div, (*FLOAT, *INTEGERS), tflite="FLOOR_DIV",
        write=_write_floor_div),
    Row("pow", "a**b", _pow, FLOATS, tflite="POW", write=_writes("Pow"), tolerance=NEAR),
    Row("int_pow", "a**b of integers, which wraps; 0 or a sign where b is negative", _int_pow,
        SIGNED, tflite="POW", write=_writes("Pow")),
    Row("reciprocal", "1 / x", lambda x: 1.0 / x, FLOATS, onnx="Reciprocal"),
    Row("square", "x squared", lambda x: x * x, (*FLOATS, *INTEGERS), tflite="SQUARE",
        write=_write_square),
    Row("cube", "x**3 by products", lambda x: x * x * x, write=_write_cube, tolerance=NEAR),
    Row("sign", "-1, 0 or 1", _sign, (*FLOATS, *SIGNED), onnx="Sign", since=9, tflite="SIGN"),
    Row("floor", "rounded down", lambda x: intrinsic("floor_f32", x), onnx="Floor", tflite="FLOOR"),
    Row("ceil", "rounded up", lambda x: intrinsic("ceil_f32", x), onnx="Ceil", tflite="CEIL"),
    Row("round", "rounded, ties to even", lambda x: intrinsic("round_f32", x),
        onnx="Round", since=11, tflite="ROUND"),
    Row("sin", "the sine", lambda x: intrinsic("sin_f32", x),
        onnx="Sin", since=7, tflite="SIN", tolerance=NEAR),
    Row("cos", "the cosine", lambda x: intrinsic("cos_f32", x),
        onnx="Cos", since=7, tflite="COS", tolerance=NEAR),
    Row("tan", "the tangent", lambda x: intrinsic("sin_f32", x) / intrinsic("cos_f32", x),
        onnx="Tan", since=7, tolerance=NEAR),
    Row("asin", "the arc sine",
        lambda x: intrinsic("atan_f32", x / intrinsic("sqrt_f32", (1.0 - x) * (1.0 + x))),
        onnx="Asin", since=7, tolerance=NEAR),
    Row("acos", "the arc cosine",
        lambda x: 2.0 * intrinsic("atan_f32", intrinsic("sqrt_f32", (1.0 - x) / (1.0 + x))),
        onnx="Acos", since=7, tolerance=NEAR),
    Row("atan", "the arc tangent", lambda x: intrinsic("atan_f32", x),
        onnx="Atan", since=7, tolerance=NEAR),
    Row("atan2", "the angle of the point (b, a)", _atan2, tflite="ATAN2", tolerance=NEAR,
        write=_write_atan2, since=18),
    Row("sinh", "the hyperbolic sine", lambda x: intrinsic("sinh_f32", x),
        onnx="Sinh", since=9, tolerance=NEAR),
    Row("cosh", "the hyperbolic cosine", lambda x: intrinsic("cosh_f32", x),
        onnx="Cosh", since=9, tolerance=NEAR),
    Row("asinh", "the inverse of sinh", _asinh, onnx="Asinh", since=9, tolerance=NEAR),
    Row("acosh", "the inverse of cosh", _acosh, onnx="Acosh", since=9, tolerance=NEAR),
    Row("atanh", "the inverse of tanh", _atanh, onnx="Atanh", since=9, tolerance=NEAR),
    Row("elu", "x, but alpha * (e**x - 1) of negative x",
        lambda x, alpha: select(x > 0, x, _rising(x) * alpha),
        onnx="Elu", since=6, tflite="ELU", parameters={"alpha": 1.0}, tolerance=NEAR),
    Row("selu", "gamma * x, but gamma * alpha * (e**x - 1) of negative x",
        lambda x, alpha, gamma: select(x > 0, x, _rising(x) * alpha) * gamma, onnx="Selu", since=6,
        parameters={"alpha": 1.6732631921768188, "gamma": 1.0507010221481323}, tolerance=NEAR),
    Row("celu", "x, but alpha * (e**(x / alpha) - 1) of negative x",
        lambda x, alpha: select(x > 0, x, _rising(x / alpha) * alpha),
        onnx="Celu", since=12, parameters={"alpha": 1.0}, tolerance=NEAR),
    Row("softplus", "log(1 + e**x)", _softplus, onnx="Softplus", tolerance=NEAR),
    Row("softsign", "x / (1 + |x|)", lambda x: x / (1.0 + maximum(x, -x)),
        onnx="Softsign", tolerance=NEAR),
    Row("thresholded_relu", "x above alpha, else 0", lambda x, alpha: select(x > alpha, x, 0.0),
        onnx="ThresholdedRelu", since=10, parameters={"alpha": 1.0}),
    Row("shrink", "x + bias below -lambd, x - bias above lambd, else 0",
        lambda x, bias, lambd: select(x < -lambd, x + bias, select(x > lambd, x - bias, 0.0)),
        onnx="Shrink", since=9, parameters={"bias": 0.0, "lambd": 0.5}),
    Row("mish", "x * tanh(log(1 + e**x))", lambda x: x * intrinsic("tanh_f32", _softplus(x)),
        onnx="Mish", since=18, tolerance=NEAR),
    Row("swish", "x / (1 + e**(-alpha * x))",
        lambda x, alpha: x * intrinsic("sigmoid_f32", x * alpha),
        onnx="Swish", since=24, parameters={"alpha": 1.0}, tolerance=NEAR),
    Row("is_nan", "whether x is a NaN", lambda x: _inverted(x.equals(x)), FLOATS,
        onnx="IsNaN", since=9, result="bool"),
    Row("is_inf", "whether x is infinite, of the signs that count", _is_infinite,
        onnx="IsInf", since=10, parameters={"detect_negative": 1, "detect_positive": 1},
        result="bool"),
    Row("equal", "a = b", lambda a, b: a.equals(b), (*FLOATS, *INTEGERS, "bool"),
        onnx="Equal", since=7, tflite="EQUAL", result="bool",
        integer_form=IntegerForm.ORDER),
    Row("not_equal", "not a = b", lambda a, b: _inverted(a.equals(b)), (*FLOATS, *INTEGERS, "bool"),
        tflite="NOT_EQUAL", result="bool",
        integer_form=IntegerForm.ORDER, write=_write_not_equal),
    Row("less", "a < b", lambda a, b: a < b, (*FLOATS, *INTEGERS),
        onnx="Less", since=7, tflite="LESS", result="bool",
        integer_form=IntegerForm.ORDER),
    Row("less_equal", "a <= b", lambda a, b: a <= b, (*FLOATS, *INTEGERS),
        onnx="LessOrEqual", since=12, tflite="LESS_EQUAL", result="bool",
        integer_form=IntegerForm.ORDER),
    Row("greater", "a > b", lambda a, b: a > b, (*FLOATS, *INTEGERS),
        onnx="Greater", since=7, tflite="GREATER", result="bool",
        integer_form=IntegerForm.ORDER),
    Row("greater_equal", "a >= b", lambda a, b: a >= b, (*FLOATS, *INTEGERS),
        onnx="GreaterOrEqual", since=12, tflite="GREATER_EQUAL", result="bool",
        integer_form=IntegerForm.ORDER),
    Row("logical_and", "a and b", lambda a, b: a & b, ("bool",),
        onnx="And", since=7, tflite="LOGICAL_AND"),
    Row("logical_or", "a or b", lambda a, b: a | b, ("bool",),
        onnx="Or", since=7, tflite="LOGICAL_OR"),
    Row("logical_xor", "either a or b", lambda a, b: a ^ b, ("bool",), onnx="Xor", since=7),
    Row("logical_not", "not x", _inverted, ("bool",), onnx="Not", tflite="LOGICAL_NOT"),
    Row("bitwise_and", "the bits that both have", lambda a, b: a & b, INTEGERS,
        onnx="BitwiseAnd", since=18),
    Row("bitwise_or", "the bits that either has", lambda a, b: a | b, INTEGERS,
        onnx="BitwiseOr", since=18),
    Row("bitwise_xor", "the bits that one of both has", lambda a, b: a ^ b, INTEGERS,
        onnx="BitwiseXor", since=18, tflite="BITWISE_XOR"),
    Row("bitwise_not", "the other bits", lambda x: x ^ _ones(x.dtype), INTEGERS,
        onnx="BitwiseNot", since=18),
    Row("shift_left", "a * 2**b; 0 unless 0 <= b < width", _shift_left, INTEGERS,
        onnx="BitShift", since=11, when=_shifts("LEFT"), write=partial(_write_shift, "LEFT")),
    Row("shift_right", "a / 2**b, rounded down; 0 or -1, by the sign, unless 0 <= b < width",
        _shift_right, INTEGERS,
        onnx="BitShift", since=11, when=_shifts("RIGHT"),
        write=partial(_write_shift, "RIGHT")),
    Row("where", "a where the condition holds, else b", select, (*FLOATS, *INTEGERS, "bool"),
        onnx="Where", since=9, tflite="SELECT_V2", fixed={0: "bool"}, stored=True,
        integer_form=IntegerForm.SHARED),
)  # fmt: skip

add_rows(ROWS)
