"""ATen operators that compute element by element, and reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.frontends.aten import Call, Import, Operand, Result, aten, axes_of, ints
from edgec.graph.ir import Value

#: One value in, one out, the same meaning.
_UNARY = {
    "abs": "Abs", "acos": "Acos", "acosh": "Acosh", "asin": "Asin", "asinh": "Asinh",
    "atan": "Atan", "atanh": "Atanh", "bitwise_not": "BitwiseNot", "ceil": "Ceil", "cos": "Cos",
    "cosh": "Cosh", "erf": "Erf", "exp": "Exp", "floor": "Floor", "isinf": "IsInf",
    "isnan": "IsNaN", "log": "Log", "logical_not": "Not", "neg": "Neg", "reciprocal": "Reciprocal",
    "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sin": "Sin", "sinh": "Sinh",
    "sqrt": "Sqrt", "tan": "Tan", "tanh": "Tanh",
}  # fmt: skip
#: Two operands of the result's dtype.
_ARITHMETIC = {
    "mul": "Mul", "maximum": "Max", "minimum": "Min", "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr", "bitwise_xor": "BitwiseXor",
}  # fmt: skip
_COMPARISONS = {"eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
                "ge": "GreaterOrEqual"}  # fmt: skip
_LOGIC = {"logical_and": "And", "logical_or": "Or", "logical_xor": "Xor"}
#: Over axes, or over all.
_REDUCTIONS = {
    "mean.dim": "ReduceMean", "mean.default": "ReduceMean", "sum.dim_IntList": "ReduceSum",
    "sum.default": "ReduceSum", "amax.default": "ReduceMax", "max.default": "ReduceMax",
    "amin.default": "ReduceMin", "min.default": "ReduceMin", "prod.default": "ReduceProd",
    "prod.dim_int": "ReduceProd",
}  # fmt: skip
#: The same of truth values.
_OF_TRUTHS = {"Mul": "And", "Max": "Or", "Min": "And", "Add": "Or", "BitwiseAnd": "And",
              "BitwiseOr": "Or", "BitwiseXor": "Xor", "BitwiseNot": "Not"}  # fmt: skip
_FLOATS = ("float32", "float16", "float64")


def _operands(call: Call, dtype: str, *given: Operand) -> list[Operand]:
    """All operands in one dtype, numbers as scalars of it."""
    return [call.cast(x, dtype) if isinstance(x, Value) else call.like(x, dtype) for x in given]


def _common(a: Operand, b: Operand) -> str:
    """The dtype in which two operands are compared: a tensor's dtype wins over a number's."""
    types = [x.type.dtype for x in (a, b) if isinstance(x, Value)]
    if len(types) == 2:
        return str(np.promote_types(*types)) if types[0] != types[1] else types[0]
    number = b if isinstance(a, Value) else a
    if isinstance(number, float) and types[0] not in _FLOATS:
        return "float32"
    return types[0]


def _unary(call: Call, x: Value, *, kind: str) -> Result:
    kind = _OF_TRUTHS.get(kind, kind) if call.dtype == "bool" else kind
    if kind == "Not":
        return call.onnx(kind, call.cast(x, "bool"))
    return call.onnx(kind, call.cast(x, call.dtype) if call.dtype in _FLOATS else x)


def _arithmetic(call: Call, a: Operand, b: Operand, *, kind: str) -> Result:
    kind = _OF_TRUTHS.get(kind, kind) if call.dtype == "bool" else kind
    return call.onnx(kind, *_operands(call, call.dtype, a, b))


def _scaled(call: Call, a: Operand, b: Operand, alpha: float = 1, *, kind: str) -> Result:
    """a + alpha b, or a - alpha b."""
    if alpha != 1:
        b = call.onnx("Mul", *_operands(call, call.dtype, b, alpha))
    return _arithmetic(call, a, b, kind=kind)


def _compared(call: Call, a: Operand, b: Operand, *, kind: str) -> Result:
    return call.onnx(kind, *_operands(call, _common(a, b), a, b))


def _logic(call: Call, a: Value, b: Value, *, kind: str) -> Result:
    return call.onnx(kind, *_operands(call, "bool", a, b))


def _shifted(call: Call, a: Value, b: Operand, *, kind: str) -> Result:
    """a * 2^b, or a / 2^b rounded down."""
    return call.onnx("BitShift", *_operands(call, call.dtype, a, b), direction=kind)


def _reduced(call: Call, x: Value, axes: int | Sequence[int] | None = None, keep: bool = False, *,
             kind: str) -> Value:  # fmt: skip
    chosen = axes_of(axes, x.type)
    if not chosen:
        return call.cast(x, call.dtype)
    return call.onnx(kind, call.cast(x, call.dtype), ints(chosen), keepdims=int(keep))


def _extreme(call: Call, x: Value, axis: int, keep: bool = False, *, kind: str) -> Result:
    """The largest or smallest along an axis, and its index where something reads it."""
    return (_reduced(call, x, axis, keep, kind=f"Reduce{kind}"),
            _place(call, x, axis, keep, kind=f"Arg{kind}") if 1 in call.used else None)  # fmt: skip


def _place(call: Call, x: Value, axis: int | None = None, keep: bool = False, *,
           kind: str) -> Value:  # fmt: skip
    """The index of the largest or smallest."""
    if not x.type.shape:
        return call.builder.constant(call.name, np.asarray(0, np.int64))
    if axis is None:
        x, axis = call.shaped(x, [x.type.elements]), 0
    return call.onnx(kind, x, axis=axis % max(len(x.type.shape), 1), keepdims=int(keep))


def _logarithm(call: Call, x: Value, *, kind: str) -> Result:
    return call.onnx("Mul", call.onnx("Log", x), call.like(1 / math.log(int(kind)), call.dtype))


#: Operator forms: the importer of each, and its arguments by the operator's name.
_TABLES: tuple[tuple[tuple[str, ...], Import, dict[str, str]], ...] = (
    (("{}.default",), _unary, _UNARY),
    (("{}.Tensor", "{}.Scalar", "{}.default"), _arithmetic, _ARITHMETIC),
    (("{}",), _scaled, {"add.Tensor": "Add", "add.Scalar": "Add", "sub.Tensor": "Sub",
                        "sub.Scalar": "Sub"}),
    (("{}.Tensor", "{}.Scalar"), _compared, _COMPARISONS),
    (("{}.default",), _logic, _LOGIC),
    (("__{}__.Scalar", "__{}__.Tensor"), _shifted, {"lshift": "LEFT", "rshift": "RIGHT"}),
    (("bitwise_{}_shift.Tensor", "bitwise_{}_shift.Tensor_Scalar"), _shifted,
     {"left": "LEFT", "right": "RIGHT"}),
    (("{}",), _reduced, _REDUCTIONS),
    (("{}.dim",), _extreme, {"max": "Max", "min": "Min"}),
    (("{}.default",), _place, {"argmax": "ArgMax", "argmin": "ArgMin"}),
    (("{}.default",), _logarithm, {"log2": "2", "log10": "10"}),
)  # fmt: skip
for _forms, _importer, _kinds in _TABLES:
    for _name, _kind in _kinds.items():
        aten(*(form.format(_name) for form in _forms))(partial(_importer, kind=_kind))


@aten("ne.Tensor", "ne.Scalar")
def not_equal(call: Call, a: Operand, b: Operand) -> Result:
    """a != b."""
    return call.onnx("Not", call.onnx("Equal", *_operands(call, _common(a, b), a, b)))


@aten("rsub.Tensor", "rsub.Scalar")
def subtract_reversed(call: Call, a: Operand, b: Operand, alpha: float = 1) -> Result:
    """b - alpha a."""
    return _scaled(call, b, a, alpha, kind="Sub")


@aten("div.Tensor", "div.Scalar", "div.Tensor_mode", "div.Scalar_mode")
def divide(call: Call, a: Operand, b: Operand, rounding_mode: str | None = None) -> Result:
    """a / b, as it is, or rounded down ("floor") or towards zero ("trunc")."""
    first, second = _operands(call, call.dtype, a, b)
    quotient = call.onnx("Div", first, second)
    if rounding_mode is None or (rounding_mode == "trunc" and call.dtype not in _FLOATS):
        return quotient
    if rounding_mode == "trunc":
        return _truncated(call, quotient)
    if call.dtype in _FLOATS:
        return call.onnx("Floor", quotient)
    rest = call.onnx("Sub", first, call.onnx("Mul", quotient, second))
    zero, one = call.like(0, call.dtype), call.like(1, call.dtype)
    signs = call.onnx("Less", call.onnx("BitwiseXor", rest, second), zero)
    is_above = call.onnx("And", signs, call.onnx("Not", call.onnx("Equal", rest, zero)))
    return call.onnx("Where", is_above, call.onnx("Sub", quotient, one), quotient)


@aten("atan2.default")
def angle(call: Call, y: Value, x: Value) -> Result:
    """The angle of the point (x, y), from -pi to pi."""
    rise, run = (call.cast(value, call.dtype) for value in (y, x))
    zero = call.like(0.0, call.dtype)
    half = call.onnx("Atan", call.onnx("Div", rise, run))
    sign = call.onnx("Where", call.onnx("Less", rise, zero), call.like(-math.pi, call.dtype),
                     call.like(math.pi, call.dtype))  # fmt: skip
    turned = call.onnx("Where", call.onnx("Less", run, zero), call.onnx("Add", half, sign), half)
    origin = call.onnx("And", call.onnx("Equal", rise, zero), call.onnx("Equal", run, zero))
    return call.onnx("Where", origin, zero, turned)


@aten("angle.default")
def angle_of_real(call: Call, x: Value) -> Result:
    """0, pi below zero, NaN of NaN: the angle of a number without an imaginary part."""
    number = call.cast(x, call.dtype)
    zero, half = call.like(0.0, call.dtype), call.like(math.pi, call.dtype)
    turned = call.onnx("Where", call.onnx("Less", number, zero), half, zero)
    return call.onnx("Where", call.onnx("IsNaN", number), number, turned)


@aten("_cdist_forward.default")
def distances(call: Call, x: Value, y: Value, p: float, mode: int | None = None) -> Result:
    """Distances by the norm p between all rows of two matrices."""
    rows = call.shaped(x, (*x.type.shape[:-1], 1, x.type.shape[-1]))
    columns = call.shaped(y, (*y.type.shape[:-2], 1, *y.type.shape[-2:]))
    return _norm(call, call.onnx("Abs", call.onnx("Sub", rows, columns)), p)


@aten("_pdist_forward.default")
def distances_of_pairs(call: Call, x: Value, p: float = 2) -> Result:
    """Distances by the norm p between the rows of a matrix, each pair once."""
    pairs = [call.onnx("Gather", x, places, axis=0)
             for places in np.triu_indices(x.type.shape[0], 1)]  # fmt: skip
    return _norm(call, call.onnx("Abs", call.onnx("Sub", *pairs)), p)


@aten("_trilinear.default")
def trilinear(call: Call, *given: Any) -> Result:
    """The product of three tensors with new axes of one, summed over axes: `nn.Bilinear`."""
    *operands, summed = (*zip(given[:3], given[3:6], strict=True), given[6])
    x, y, z = (call.onnx("Unsqueeze", value, ints(axes)) for value, axes in operands)
    product = call.onnx("Mul", call.onnx("Mul", x, y), z)
    return call.onnx("ReduceSum", product, ints(summed), keepdims=0)


def _norm(call: Call, sizes: Value, p: float) -> Value:
    """The norm p of sizes along the last axis."""
    axis = ints([len(sizes.type.shape) - 1])
    if p == math.inf:
        return call.onnx("ReduceMax", sizes, axis, keepdims=0)
    if p == 0:
        sizes = call.onnx("Sign", sizes)
    elif p == 2:
        sizes = call.onnx("Mul", sizes, sizes)
    elif p != 1:
        sizes = call.onnx("Pow", sizes, call.like(p, call.dtype))
    total = call.onnx("ReduceSum", sizes, axis, keepdims=0)
    if p in (0, 1):
        return total
    return (
        call.onnx("Sqrt", total)
        if p == 2
        else call.onnx("Pow", total, call.like(1 / p, call.dtype))
    )


@aten("sort.default")
def sort(call: Call, x: Value, axis: int = -1, descending: bool = False) -> Result:
    """Values in order along an axis, and where they were."""
    count = x.type.shape[axis] if x.type.shape else 1
    return top(call, x, count, axis, descending)


@aten("sort.stable")
def sort_stably(call: Call, x: Value, stable: bool = False, dim: int = -1,
                descending: bool = False) -> Result:  # fmt: skip
    """Values in order along an axis, equal ones in their old order, and where they were."""
    return sort(call, x, dim, descending)


@aten("topk.default")
def top(call: Call, x: Value, count: int, axis: int = -1, largest: bool = True,
        is_sorted: bool = True) -> Result:  # fmt: skip
    """The largest or smallest along an axis in order, and where they were."""
    if not x.type.shape:
        return x, call.builder.constant(call.name, np.asarray(0, np.int64))
    return call.onnx_all("TopK", x, ints([count]), results=2, axis=axis, largest=int(largest),
                         sorted=1)  # fmt: skip


@aten("any.default", "any.dim", "any.dims")
def any_of(call: Call, x: Value, axes: int | Sequence[int] | None = None,
           keep: bool = False) -> Result:  # fmt: skip
    """Whether something is not zero along axes."""
    counted = call.cast(call.cast(x, "bool"), "float32")
    chosen = axes_of(axes, x.type)
    if not chosen:
        return call.cast(x, "bool")
    most = call.onnx("ReduceMax", counted, ints(chosen), keepdims=int(keep))
    return call.cast(most, call.dtype)


@aten("sign.default")
def sign(call: Call, x: Value) -> Result:
    """1 above 0, -1 below, and 0 otherwise, also for NaN (which ONNX keeps)."""
    if call.dtype not in _FLOATS:
        return call.onnx("Sign", x)
    zero = call.like(0.0, x.type.dtype)
    above, below = call.onnx("Less", zero, x), call.onnx("Less", x, zero)
    return call.onnx("Sub", call.cast(above, call.dtype), call.cast(below, call.dtype))


@aten("trunc.default")
def truncate(call: Call, x: Value) -> Result:
    """Drop the fraction."""
    return _truncated(call, x) if call.dtype in _FLOATS else x


def _truncated(call: Call, x: Value) -> Value:
    return call.onnx("Mul", call.onnx("Sign", x), call.onnx("Floor", call.onnx("Abs", x)))


@aten("remainder.Tensor", "remainder.Scalar")
def remainder(call: Call, a: Operand, b: Operand) -> Result:
    """a modulo b with the sign of b."""
    first, second = _operands(call, call.dtype, a, b)
    if call.dtype not in _FLOATS:
        return call.onnx("Mod", first, second, fmod=0)
    whole = call.onnx("Mul", call.onnx("Floor", call.onnx("Div", first, second)), second)
    return call.onnx("Sub", first, whole)


@aten("fmod.Tensor", "fmod.Scalar")
def fmod(call: Call, a: Operand, b: Operand) -> Result:
    """a modulo b with the sign of a."""
    return call.onnx("Mod", *_operands(call, call.dtype, a, b), fmod=1)


@aten("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def power(call: Call, a: Operand, b: Operand) -> Result:
    return call.onnx("Pow", *_operands(call, call.dtype, a, b))


@aten("rsqrt.default")
def reciprocal_root(call: Call, x: Value) -> Result:
    """1 / sqrt(x)."""
    return call.onnx("Div", call.like(1.0, call.dtype), call.onnx("Sqrt", x))


@aten("expm1.default")
def exponential_less_one(call: Call, x: Value) -> Result:
    """e**x - 1 (near 0 less precise than torch's)."""
    return call.onnx("Sub", call.onnx("Exp", x), call.like(1.0, call.dtype))


@aten("log1p.default")
def logarithm_of_one_more(call: Call, x: Value) -> Result:
    """log(1 + x) (near 0 less precise than torch's)."""
    return call.onnx("Log", call.onnx("Add", x, call.like(1.0, call.dtype)))


@aten("gelu.default")
def gelu(call: Call, x: Value, approximate: str = "none") -> Result:
    """x times the probability that a normal number is smaller."""
    return call.onnx("Gelu", x, approximate=approximate)


@aten("elu.default")
def elu(call: Call, x: Value, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Result:
    """scale * x for positive x, else scale * alpha * (exp(input_scale x) - 1)."""
    if input_scale != 1:
        raise ImportFailed("elu with an input scale is not supported")
    made = call.onnx("Elu", x, alpha=float(alpha))
    return made if scale == 1 else call.onnx("Mul", made, call.like(scale, call.dtype))


@aten("leaky_relu.default")
def leaky_relu(call: Call, x: Value, negative_slope: float = 0.01) -> Result:
    """x, or negative_slope * x where x is negative."""
    return call.onnx("LeakyRelu", x, alpha=float(negative_slope))


@aten("rrelu_with_noise_functional.default")
def mean_relu(call: Call, x: Value, noise: Value, lower: float = 1 / 8, upper: float = 1 / 3,
              training: bool = False, *_: object) -> Result:  # fmt: skip
    """`nn.RReLU` where nothing is trained: a leaky ReLU by the mean of its slopes."""
    if training:
        raise ImportFailed("its slopes are random: call .eval() before the export")
    return call.onnx("LeakyRelu", x, alpha=(lower + upper) / 2), noise


@aten("hardtanh.default", "clamp.default", "clamp.Tensor")
def clamp(call: Call, x: Value, low: Operand = None, high: Operand = None) -> Result:
    """x within bounds; either may be absent."""
    made = call.cast(x, call.dtype)
    bounds = [call.like(bound, call.dtype) for bound in (low, high)]
    if not any(isinstance(bound, Value) for bound in bounds):
        return call.onnx("Clip", made, *bounds)
    for kind, bound in zip(("Max", "Min"), bounds, strict=True):
        if bound is not None:
            made = call.onnx(kind, made, *_operands(call, call.dtype, bound))
    return made


@aten("where.self")
def where(call: Call, condition: Value, a: Operand, b: Operand) -> Result:
    """a where the condition holds, else b."""
    return call.onnx("Where", call.cast(condition, "bool"), *_operands(call, call.dtype, a, b))


@aten("var.correction", "var.dim")
def variance(call: Call, x: Value, axes: Sequence[int] | None = None, correction: float | None = 1,
             keepdim: bool = False) -> Result:  # fmt: skip
    """The mean of squared differences to the mean, with Bessel's correction."""
    chosen = axes_of(axes, x.type)
    centred = call.onnx("Sub", x, _reduced(call, x, chosen, True, kind="ReduceMean"))
    squares = _reduced(call, call.onnx("Mul", centred, centred), chosen, keepdim, kind="ReduceSum")
    count = math.prod(x.type.shape[axis] for axis in chosen)
    divisor = max(count - (1 if correction is None else correction), 0)
    return call.onnx("Div", squares, call.like(float(divisor), call.dtype))


@aten("var_mean.correction")
def variance_and_mean(call: Call, x: Value, axes: Sequence[int] | None = None,
                      correction: float | None = 1, keepdim: bool = False) -> Result:  # fmt: skip
    spread = variance(call, x, axes, correction, keepdim)
    assert isinstance(spread, Value)
    return spread, _reduced(call, x, axes, keepdim, kind="ReduceMean")


@aten("cummax.default")
def running_max(call: Call, x: Value, axis: int) -> Result:
    """The largest of all elements up to each, and where it is last."""
    return _running(call, x, axis, "Max", "GreaterOrEqual")


@aten("cummin.default")
def running_min(call: Call, x: Value, axis: int) -> Result:
    """The least of all elements up to each, and where it is last."""
    return _running(call, x, axis, "Min", "LessOrEqual")


def _running(call: Call, x: Value, axis: int, kind: str, reaches: str) -> Result:
    if not x.type.shape:
        return x, call.value(np.zeros((), np.int64))
    axis %= len(x.type.shape)
    found = _prefixes(call, x, axis, kind)
    if 1 not in call.used:
        return found, None
    form = [-1 if at == axis else 1 for at in range(len(x.type.shape))]
    numbers = np.arange(x.type.shape[axis], dtype=np.int64).reshape(form)
    is_new = call.onnx(reaches, x, found)
    if x.type.is_float:
        is_new = call.onnx("Or", is_new, call.onnx("IsNaN", x))
    at = call.onnx("Where", is_new, numbers, np.zeros((), np.int64))
    return found, _prefixes(call, at, axis, "Max")


def _prefixes(call: Call, x: Value, axis: int, kind: str) -> Value:
    """Results of `kind` over all elements up to each: of two, then four, then eight ..."""
    distance, count = 1, x.type.shape[axis]
    while distance < count:
        first = call.onnx("Slice", x, ints([0]), ints([distance]), ints([axis]))
        rest = call.onnx("Slice", x, ints([distance]), ints([count]), ints([axis]))
        before = call.onnx("Slice", x, ints([0]), ints([count - distance]), ints([axis]))
        x = call.onnx("Concat", first, call.onnx(kind, rest, before), axis=axis)
        distance *= 2
    return x


@aten("cumsum.default")
def running_sum(call: Call, x: Value, axis: int, dtype: object = None) -> Result:
    """Sums of all elements up to each."""
    if not x.type.shape:
        return call.cast(x, call.dtype)
    return call.onnx("CumSum", call.cast(x, call.dtype), np.asarray(axis, np.int64))
