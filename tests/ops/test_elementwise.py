"""Every row of the tables of element-wise operators, by tests that are made from the rows.

A row is in `CASES` with what it means on NumPy, which is the oracle, or the first test fails. Then
each of its dtypes meets special values, broadcasting, the frameworks that name it, its own loops
and, together with all others, the C compiler under sanitizers.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float_cases import float_values
from sanitized import check_sanitized
from single_node import check_nests
from tflite_builder import TfliteBuilder

from edgec.errors import EdgecError, ImportFailed, TypeMismatch
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Module
from edgec.graph.operator import get_op
from edgec.graph.types import Quant, TensorType
from edgec.ops.elementwise import ROWS
from edgec.ops.row import FLOATS, Row
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

Array = np.ndarray
BY_NAME = {row.name: row for row in ROWS}
PAIRS = [(row.name, dtype) for row in ROWS for dtype in row.dtypes]


@dataclass(frozen=True)
class Case:
    """What a row means and how near it is.

    exact: on NumPy; floats are given in double. ulp: largest error in units of the last place of
    the exact result. near: or as a part of the largest of the operands and one. likes: makes
    ordinary operands from random numbers, for frameworks. attributes: of a node in a test.
    onnx_dtypes, tflite_dtypes: what the frameworks have kernels for. tflite: options of the node.
    reference: which TFLite interpreter has it.
    """

    exact: Callable[..., Any]
    ulp: float = 0.5
    near: float = 0.0
    second: Callable[[Array], Array] = lambda x: x
    first: Callable[[Array], Array] = lambda x: x
    attributes: dict[str, Any] = field(default_factory=dict)
    onnx_dtypes: tuple[str, ...] = ("float32",)
    tflite_dtypes: tuple[str, ...] = ("float32",)
    options: tuple[str, dict[str, Any]] = ("", {})
    reference: str = "tflm"
    constant: bool = False


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[float])(x)


def _magnitude(x: Array) -> Array:
    return (np.abs(x) + np.float32(1e-4)).astype(x.dtype)


def _nonzero(x: Array) -> Array:
    """No 0 and no -1, by which integers are not divided."""
    return np.where((x == 0) | (x == -1), np.asarray(3, x.dtype), x).astype(x.dtype)


def _truncated(a: Array, b: Array) -> Array:
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)


def _remainder(function: Callable[..., Array]) -> Callable[..., Array]:
    """NumPy's remainder; integers by 0 give 0, and by -1 as well, without its overflow."""

    def exact(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return function(a, b)
        unit = (b == 0) | (b.astype(object) == -1)
        return np.where(unit, 0, function(a, np.where(unit, 1, b).astype(b.dtype))).astype(a.dtype)

    return exact


def _quotient(function: Callable[..., Array]) -> Callable[..., Array]:
    """NumPy's quotient; integers by 0 stay, and by -1 change their sign, without overflow."""

    def exact(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return np.floor((a.astype(np.float32) / b.astype(np.float32)).astype(np.float64))
        unit = (b == 0) | (b.astype(object) == -1)
        quotient = function(a, np.where(unit, 1, b).astype(b.dtype))
        return np.where(b.astype(object) == -1, -a, quotient).astype(a.dtype)

    return exact


def _shifted(function: Callable[..., Array]) -> Callable[..., Array]:
    """NumPy's shift; by what is no bit of a number nothing is left, but the sign to the right."""

    def exact(a: Array, b: Array) -> Array:
        beyond = (b.astype(object) < 0) | (b.astype(object) >= 8 * a.dtype.itemsize)
        rest = np.where((a < 0) & (function is np.right_shift), -1, 0).astype(a.dtype)
        fits = np.where(beyond, 0, b).astype(b.dtype)
        return np.where(beyond, rest, function(a, fits)).astype(a.dtype)

    return exact


def _whole_power(a: Array, b: Array) -> Array:
    """Python's integers, wrapped; of negative exponents what is whole."""
    width = 8 * a.dtype.itemsize
    found = [
        pow(int(x), int(y), 1 << width) if y >= 0 else {1: 1, -1: (-1) ** int(y % 2)}.get(int(x), 0)
        for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)
    ]
    wrapped = [(v + (1 << (width - 1))) % (1 << width) - (1 << (width - 1)) for v in found]
    return np.array(wrapped, a.dtype).reshape(a.shape)


def _unit(x: Array) -> Array:
    """Within -1 and 1."""
    return (x / (1 + np.abs(x))).astype(x.dtype)


COMPARED = ("float32", "int32", "int64")
ORT_PAIRS = ("float32", "int32", "int64")
CASES: dict[str, Case] = {
    "exp": Case(np.exp, 1.0),
    "log": Case(np.log, 0.9, first=_magnitude),
    "erf": Case(_erf, 1.5),
    "sqrt": Case(np.sqrt, first=_magnitude),
    "rsqrt": Case(lambda x: 1 / np.sqrt(x), 1.5, first=_magnitude),
    "neg": Case(np.negative, onnx_dtypes=ORT_PAIRS), "abs": Case(np.abs, onnx_dtypes=ORT_PAIRS),
    "gelu": Case(lambda x: x / 2 * (1 + _erf(x * math.sqrt(0.5))), near=2e-7,
                 options=("GeluOptions", {"Approximate": False}), reference="litert"),
    "gelu_tanh": Case(
        lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        near=2e-7, attributes={"approximate": "tanh"},
        options=("GeluOptions", {"Approximate": True}), reference="litert"),
    "hard_sigmoid": Case(lambda x: np.clip(x * 0.3 + 0.4, 0, 1), near=1e-7,
                         attributes={"alpha": 0.3, "beta": 0.4}),
    "div": Case(np.divide, second=_magnitude, options=("DivOptions", {})),
    "squared_difference": Case(lambda a, b: (a - b) ** 2, 2.0, tflite_dtypes=("float32", "int32")),
    "maximum_or_nan": Case(np.maximum),
    "minimum_or_nan": Case(np.minimum),
    "maximum": Case(lambda a, b: np.where(a > b, a, b), options=("MaximumMinimumOptions", {}),
                    onnx_dtypes=("int32", "int64"), tflite_dtypes=("float32", "int32", "int64")),
    "minimum": Case(lambda a, b: np.where(a < b, a, b), options=("MaximumMinimumOptions", {}),
                    onnx_dtypes=("int32", "int64"), tflite_dtypes=("float32", "int32", "int64")),
    "int_add": Case(np.add),
    "int_mul": Case(np.multiply),
    "int_div": Case(_truncated, second=_nonzero, constant=True, options=("DivOptions", {}),
                    onnx_dtypes=("int32", "int64", "uint8", "int8"), tflite_dtypes=("int32",)),
    "trunc_mod": Case(_remainder(np.fmod), second=_nonzero, attributes={"fmod": 1},
                      onnx_dtypes=("float32", "int8", "uint8", "int32", "int64")),
    "floor_mod": Case(_remainder(np.mod), second=_nonzero,
                      onnx_dtypes=("int8", "uint8", "int16", "int32", "int64"),
                      options=("FloorModOptions", {})),
    "int_sub": Case(np.subtract),
    "trunc_div": Case(_quotient(_truncated), second=_nonzero, options=("DivOptions", {}),
                      onnx_dtypes=("int32", "int64", "uint8", "int8"), tflite_dtypes=("int32",)),
    "floor_div": Case(_quotient(np.floor_divide), second=_nonzero,
                      options=("FloorDivOptions", {}), near=1e-6),
    "pow": Case(np.power, 0.6, first=_magnitude, onnx_dtypes=(), options=("PowOptions", {}),
                reference="litert"),
    "int_pow": Case(_whole_power, second=lambda x: np.abs(x) % 5, onnx_dtypes=(),
                    tflite_dtypes=()),
    "reciprocal": Case(lambda x: 1 / x, first=_magnitude),
    "square": Case(np.square, options=("SquareOptions", {})),
    "cube": Case(lambda x: x * x * x, 2.0),
    "sign": Case(np.sign, onnx_dtypes=ORT_PAIRS, options=("SignOptions", {}), reference="litert"),
    "floor": Case(np.floor), "ceil": Case(np.ceil), "round": Case(np.rint),
    "sin": Case(np.sin, 3.0), "cos": Case(np.cos, 3.0), "tan": Case(np.tan, 6.0),
    "asin": Case(np.arcsin, 5.0, first=_unit), "acos": Case(np.arccos, 5.0, first=_unit),
    "atan": Case(np.arctan, 3.0), "atan2": Case(np.arctan2, 3.0, reference="litert"),
    "sinh": Case(np.sinh, 4.0), "cosh": Case(np.cosh, 3.5),
    "asinh": Case(np.arcsinh, 2.0, 2e-7),
    "acosh": Case(np.arccosh, 2.0, 2e-7, first=lambda x: _magnitude(x) + np.float32(1)),
    "atanh": Case(np.arctanh, 2.0, 2e-7, first=_unit),
    "elu": Case(lambda x: np.where(x > 0, x, 0.7 * np.expm1(x)), 2.0, 2e-7,
                attributes={"alpha": 0.7}, tflite_dtypes=()),
    "selu": Case(lambda x: np.float64(np.float32(1.1)) * np.where(x > 0, x, 1.5 * np.expm1(x)), 2.0,
                 2e-7, attributes={"alpha": 1.5, "gamma": 1.1}),
    "celu": Case(lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)), 2.0, 2e-7,
                 attributes={"alpha": 2.0}),
    "softplus": Case(lambda x: np.logaddexp(0, x), 2.0, 2e-7),
    "softsign": Case(lambda x: x / (1 + np.abs(x)), 1.5),
    "thresholded_relu": Case(lambda x: np.where(x > 0.5, x, 0), attributes={"alpha": 0.5}),
    "shrink": Case(lambda x: np.where(x < -0.75, x + 0.25, np.where(x > 0.75, x - 0.25, 0)),
                   attributes={"bias": 0.25, "lambd": 0.75}),
    "mish": Case(lambda x: x * np.tanh(np.logaddexp(0, x)), 3.0, 3e-7),
    "swish": Case(lambda x: x / (1 + np.exp(-1.5 * x)), 4.0, 2e-7, attributes={"alpha": 1.5},
                  onnx_dtypes=()),
    "is_nan": Case(np.isnan),
    "is_inf": Case(np.isposinf, attributes={"detect_negative": 0}),
    "equal": Case(np.equal, onnx_dtypes=(*ORT_PAIRS, "bool"), tflite_dtypes=COMPARED),
    "not_equal": Case(np.not_equal, tflite_dtypes=COMPARED),
    "less": Case(np.less, onnx_dtypes=ORT_PAIRS, tflite_dtypes=COMPARED),
    "less_equal": Case(np.less_equal, onnx_dtypes=ORT_PAIRS, tflite_dtypes=COMPARED),
    "greater": Case(np.greater, onnx_dtypes=ORT_PAIRS, tflite_dtypes=COMPARED),
    "greater_equal": Case(np.greater_equal, onnx_dtypes=ORT_PAIRS, tflite_dtypes=COMPARED),
    "logical_and": Case(np.logical_and, onnx_dtypes=("bool",), tflite_dtypes=("bool",)),
    "logical_or": Case(np.logical_or, onnx_dtypes=("bool",), tflite_dtypes=("bool",)),
    "logical_xor": Case(np.logical_xor, onnx_dtypes=("bool",)),
    "logical_not": Case(np.logical_not, onnx_dtypes=("bool",), tflite_dtypes=("bool",)),
    "bitwise_and": Case(np.bitwise_and, onnx_dtypes=("int8", "uint16", "int64")),
    "bitwise_or": Case(np.bitwise_or, onnx_dtypes=("int16", "uint32")),
    "bitwise_xor": Case(np.bitwise_xor, onnx_dtypes=("int32", "uint64"), tflite_dtypes=()),
    "bitwise_not": Case(np.bitwise_not, onnx_dtypes=("int32", "uint8")),
    "shift_left": Case(_shifted(np.left_shift), onnx_dtypes=("uint8", "uint32", "uint64"),
                       attributes={"direction": "LEFT"}),
    "shift_right": Case(_shifted(np.right_shift), onnx_dtypes=("uint8", "uint32", "uint64"),
                        attributes={"direction": "RIGHT"}),
    "where": Case(np.where, onnx_dtypes=(*ORT_PAIRS, "uint8"), tflite_dtypes=("float32",),
                  options=("SelectV2Options", {})),
}  # fmt: skip


def ordinary(row: Row, dtype: str, position: int, shape: tuple[int, ...]) -> Array:
    """Operands that every framework computes alike."""
    dtype = row.fixed.get(position, dtype)
    rng = np.random.default_rng(position + 5)
    if dtype in FLOATS:
        values = float_values(shape, seed=position + 3).astype(dtype)
    elif dtype == "bool":
        values = rng.integers(0, 2, shape).astype(bool)
    else:
        low, high = (0, 100) if dtype.startswith("u") else (-100, 100)
        values = rng.integers(low, high, shape).astype(dtype)
    case = CASES[row.name]
    return np.asarray((case.first if position == 0 else case.second)(values))


def special(row: Row, dtype: str, position: int) -> Array:
    """Ends of the dtype, and for floats what is no ordinary number."""
    dtype = row.fixed.get(position, dtype)
    if dtype == "bool":
        return np.array([False, True])
    if dtype in FLOATS:
        most, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
        values = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -3.25, 80, -80, 1e-3, 1e9, -1e9, most,
                  -most, tiny, -tiny, np.inf, -np.inf, np.nan]  # fmt: skip
        return np.array(values, dtype)
    info = np.iinfo(dtype)
    values = {info.min, info.max, info.min + 1, info.max - 1, 0, 1, 2, 7, 100, max(info.min, -1)}
    array = np.array(sorted(values), dtype)
    return array if position == 0 else np.asarray(CASES[row.name].second(array))


def attrs_of(row: Row) -> Any:
    given = CASES[row.name].attributes
    return get_op(row.name).attrs_class(**{k: v for k, v in given.items() if k in row.parameters})


def function_of(pairs: list[tuple[str, str]], shapes: list[tuple[int, ...]]) -> Function:
    """All rows of these dtypes on parameters that they share."""
    builder = GraphBuilder()
    params: dict[tuple[str, int], Any] = {}
    results = []
    for name, dtype in pairs:
        row, operands = BY_NAME[name], []
        for position, shape in zip(range(row.operands), shapes, strict=False):
            own = row.fixed.get(position, dtype)
            if CASES[name].constant and position == 1:
                data = np.resize(special(row, dtype, 1), shape)
                operands.append(builder.constant(f"{name}_{dtype}_c", data))
                continue
            key = (own, position)
            if key not in params:
                params[key] = builder.param(f"{own}_{position}", TensorType(shape, own))
            operands.append(params[key])
        results.append(builder.op(name, operands, attrs_of(row), name=f"{name}_{dtype}"))
    return builder.finish(results)


def assert_near(case: Case, found: Array, exact: Array, operands: list[Array]) -> None:
    if found.dtype == np.float64:
        far = 1e-13 if case.ulp > 0.5 else 0.0  # NumPy's own functions are not exact either
        np.testing.assert_allclose(found, exact, rtol=far, atol=1e-307 * (far > 0))
        return
    if found.dtype != np.float32:
        np.testing.assert_array_equal(found, exact)
        return
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        both = np.isfinite(rounded) & np.isfinite(found)
        same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
        unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-126))) - 23)
        most = np.maximum(1.0, np.max([np.abs(x) for x in operands], axis=0))
        error = np.abs(found.astype(np.float64) - exact)
        right = same | (both & (error <= case.ulp * unit + case.near * most))
    wrong = np.flatnonzero(~right)[:1]
    at = [x.reshape(-1)[wrong] for x in operands]
    assert not wrong.size, f"{at}: {found.reshape(-1)[wrong]}, not {exact.reshape(-1)[wrong]}"


def exact_of(case: Case, operands: list[Array]) -> Array:
    wide = [x.astype(np.float64) if x.dtype == np.float32 else x for x in operands]
    with np.errstate(all="ignore"):
        return np.asarray(case.exact(*wide))


def test_every_row_is_tested() -> None:
    assert list(CASES) == [row.name for row in ROWS]


@pytest.mark.parametrize(("name", "dtype"), PAIRS)
def test_meaning(name: str, dtype: str) -> None:
    row, case = BY_NAME[name], CASES[name]
    lines = [special(row, dtype, n) for n in range(row.operands)]
    operands = [np.array(c, x.dtype) for c, x in zip(
        zip(*product(*(x.tolist() for x in lines)), strict=True), lines, strict=True)]  # fmt: skip
    types = [TensorType(x.shape, x.dtype.name) for x in operands]
    op = get_op(name)
    outputs = op.infer(attrs_of(row), *types)
    (found,) = op.evaluate(attrs_of(row), operands, types, outputs)
    assert found.dtype.name == outputs[0].dtype
    assert_near(case, found, exact_of(case, operands), operands)


def test_parameters_have_the_types_of_the_standard() -> None:
    """An attribute of the wrong type makes a file that other readers refuse."""
    onnx = pytest.importorskip("onnx", reason="onnx is not installed (edgec[verify])")
    kinds = {onnx.defs.OpSchema.AttrType.FLOAT: float, onnx.defs.OpSchema.AttrType.INT: int}
    for row in ROWS:
        known = onnx.defs.get_schema(row.onnx).attributes if row.parameters else {}
        for name, default in row.parameters.items():
            assert kinds[known[name].type] is type(default), (row.name, name)
            assert type(getattr(attrs_of(row), name)) in (type(default), int), (row.name, name)


def test_hard_sigmoid_keeps_a_nan() -> None:
    op = get_op("hard_sigmoid")
    x = np.array([np.nan, -9, 9, 0.5], np.float32)
    type_ = TensorType(x.shape, "float32")
    (y,) = op.evaluate(op.attrs_class(), [x], [type_], [type_])
    np.testing.assert_array_equal(y, np.array([np.nan, 0, 1, 0.6], np.float32))


def test_softplus_is_as_exact_below_zero() -> None:
    """log(1 + e**x) of a small e**x, by the sum alone, has few bits that are right."""
    op = get_op("softplus")
    x = np.linspace(-80, 20, 1001, dtype=np.float32)
    type_ = TensorType(x.shape, "float32")
    (y,) = op.evaluate(op.attrs_class(), [x], [type_], [type_])
    np.testing.assert_allclose(y, np.logaddexp(0, x.astype(np.float64)), rtol=3e-7)


@pytest.mark.parametrize(
    ("name", "numpys"), [("asinh", np.arcsinh), ("acosh", np.arccosh), ("atanh", np.arctanh)]
)
def test_inverses_are_exact_where_they_are_small(
    name: str, numpys: Callable[[Array], Array]
) -> None:
    """The logarithm of a number near 1 has few bits that are right."""
    op = get_op(name)
    parts = np.concatenate([10.0 ** np.arange(-30, 0, 0.5), np.linspace(0, 1, 201)])
    wide = np.concatenate([-parts, parts, [5, 3e9, 1e30, np.inf]])
    x = np.asarray(parts + 1 if name == "acosh" else wide, np.float32)
    type_ = TensorType(x.shape, "float32")
    with np.errstate(all="ignore"):
        (y,) = op.evaluate(op.attrs_class(), [x], [type_], [type_])
        wanted = numpys(x.astype(np.float64))
    np.testing.assert_allclose(y, wanted, rtol=6e-7, atol=1e-37)


SHAPES = [[(2, 3, 4), (2, 3, 4), (2, 3, 4)], [(2, 3, 4), (4,), (3, 1)], [(1, 3, 1), (2, 1, 4), ()]]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype in PAIRS}))
def test_loops_and_broadcasting(dtype: str, shapes: list[tuple[int, ...]]) -> None:
    pairs = [pair for pair in PAIRS if pair[1] == dtype]
    function = function_of(pairs, shapes)
    inputs = []
    for param in function.params:
        own, position = param.name.rsplit("_", 1)
        plain = Row("", "", lambda x: x)
        values = special(BY_NAME["maximum"], own, 0) if own != "bool" else special(plain, own, 0)
        finite = values[np.isfinite(values)] if own in FLOATS else values
        inputs.append(np.resize(np.roll(finite, 3 * int(position)), param.type.shape))
    check_nests(function, inputs)
    constants = {v.name: v.data for v in function.constants()}
    by_name = dict(zip((p.name for p in function.params), inputs, strict=True))
    for (name, _), found in zip(pairs, interpret(function, inputs), strict=True):
        row = BY_NAME[name]
        operands = [
            constants.get(f"{name}_{dtype}_c") if CASES[name].constant and n == 1
            else by_name[f"{row.fixed.get(n, dtype)}_{n}"]
            for n in range(row.operands)
        ]  # fmt: skip
        wide = [np.array(x) for x in np.broadcast_arrays(*operands)]
        assert_near(CASES[name], found, exact_of(CASES[name], wide), wide)


#: Few rows in one build: the memory plan of many outputs takes longer than several builds.
CHUNKS = [
    chunk[start : start + 8]
    for dtype in sorted({dtype for _, dtype in PAIRS})
    for chunk in [[pair for pair in PAIRS if pair[1] == dtype]]
    for start in range(0, len(chunk), 8)
]


@pytest.mark.parametrize("pairs", CHUNKS, ids=lambda pairs: f"{pairs[0][1]}-{pairs[0][0]}")
def test_c_under_sanitizers(pairs: list[tuple[str, str]], tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    function = function_of(pairs, [(2, 3, 7), (3, 1), (2, 1, 7)])
    module = Module({"main": function}, source="rows.onnx", format="onnx")
    compiled = compile_module(module, find_core("host"), Options())
    assert check_sanitized(compiled, tmp_path) >= 8


ONNX = [(r.name, d) for r in ROWS if r.onnx for d in r.dtypes if d in CASES[r.name].onnx_dtypes]


def onnx_model(path: Path, row: Row, operands: list[Array], constant: bool) -> Path:
    import onnx
    from onnx import helper, numpy_helper

    def info(name: str, x: Array) -> Any:
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape
        )

    names = [f"x{n}" for n in range(len(operands))]
    node = helper.make_node(row.onnx, names, ["y"], name="node", **CASES[row.name].attributes)
    fixed = [numpy_helper.from_array(operands[1], "x1")] if constant else []
    given = [info(n, x) for n, x in zip(names, operands, strict=True) if n != "x1" or not constant]
    result = np.dtype(row.result or operands[-1].dtype)
    output = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(result), None)
    graph = helper.make_graph([node], "rows", given, [output], fixed)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    path.write_bytes(onnx.shape_inference.infer_shapes(model).SerializeToString())
    return path


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_max_and_min_keep_a_nan(kind: str, tmp_path: Path) -> None:
    import onnxruntime

    values = np.float32([np.nan, 1, -1, 0, np.inf, -np.inf])
    a, b = (grid.reshape(-1).copy() for grid in np.meshgrid(values, values))
    row = next(row for row in ROWS if row.onnx == kind)
    path = onnx_model(tmp_path / "m.onnx", row, [a, b], constant=False)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x0": a, "x1": b})
    (found,) = interpret(import_model(path).main, [a, b])
    np.testing.assert_array_equal(found, expected)
    assert np.isnan(found).sum() == 11


@pytest.mark.parametrize(("name", "dtype"), ONNX)
def test_onnx(name: str, dtype: str, tmp_path: Path) -> None:
    import onnxruntime

    row, case = BY_NAME[name], CASES[name]
    operands = [ordinary(row, dtype, n, s) for n, s in zip(range(row.operands), SHAPES[1],
                                                         strict=False)]  # fmt: skip
    path = onnx_model(tmp_path / "m.onnx", row, operands, case.constant)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = {i.name: operands[int(i.name[1:])] for i in session.get_inputs()}
    (expected,) = session.run(None, given)
    function = import_model(path).main
    assert row.name in {node.op.name for node in function.nodes}
    (found,) = interpret(function, list(given.values()))
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert_near_framework(row, case, found, expected, operands)


def assert_near_framework(
    row: Row, case: Case, found: Array, expected: Array, operands: list[Array]
) -> None:
    """What both may be off the exact result; nothing where both are said to be exact."""
    if row.tolerance == 0.0 or found.dtype != np.float32:
        np.testing.assert_array_equal(found, expected)
        return
    most = float(np.abs(expected).max(initial=0))
    np.testing.assert_allclose(found, expected, rtol=0, atol=row.tolerance * most)


TFLITE = [
    (r.name, d) for r in ROWS if r.tflite for d in r.dtypes if d in CASES[r.name].tflite_dtypes
]


def tflite_model(row: Row, operands: list[Array], **more: Any) -> bytes:
    model, case = TfliteBuilder(), CASES[row.name]
    numbers = [
        model.tensor(f"x{n}", x.shape, x.dtype.name,
                     data=x if case.constant and n == 1 else None)
        for n, x in enumerate(operands)
    ]  # fmt: skip
    shape = np.broadcast_shapes(*(x.shape for x in operands))
    y = model.tensor("y", shape, row.result or operands[-1].dtype.name)
    options, fields = case.options
    model.operator(row.tflite, numbers, [y], options, **fields, **more)
    return model.build([n for n in numbers if not (case.constant and n == 1)], [y])


@pytest.mark.parametrize(("name", "dtype"), TFLITE)
def test_tflite(name: str, dtype: str, tmp_path: Path) -> None:
    row, case = BY_NAME[name], CASES[name]
    operands = [ordinary(row, dtype, n, (2, 3, 4)) for n in range(row.operands)]
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite_model(row, operands))
    given = [x for n, x in enumerate(operands) if not (case.constant and n == 1)]
    (expected,) = open_oracle(path, case.reference).run(given).outputs
    function = import_model(path).main
    assert row.name in {node.op.name for node in function.nodes}
    (found,) = interpret(function, given)
    assert found.dtype == expected.dtype
    assert_near_framework(row, case, found, expected, operands)


@pytest.mark.parametrize("activation", [1, 3])
def test_fused_activations(activation: int, tmp_path: Path) -> None:
    row = BY_NAME["div"]
    operands = [ordinary(row, "float32", n, (2, 3, 4)) for n in range(2)]
    path = tmp_path / "m.tflite"
    path.write_bytes(tflite_model(row, operands, FusedActivationFunction=activation))
    (expected,) = open_oracle(path, "tflm").run(operands).outputs
    (found,) = interpret(import_model(path).main, operands)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_other_types_are_refused(row: Row) -> None:
    op, attrs = get_op(row.name), attrs_of(row)
    for other in ("float16", "int8 quant"):
        quant = Quant((0.1,), (0,)) if other.endswith("quant") else None
        if quant is not None and row.stored:
            continue
        type_ = TensorType((2,), other.split()[0], quant)
        with pytest.raises(TypeMismatch, match=row.name):
            op.infer(attrs, *[type_] * row.operands)
    with pytest.raises(TypeMismatch, match="operands"):
        op.infer(attrs)
    if row.operands == 2:
        first = TensorType((2,), row.dtypes[0])
        with pytest.raises(TypeMismatch, match="must be equal"):
            op.infer(attrs, first, TensorType((2,), "float64"))
        with pytest.raises(TypeMismatch, match=r"of \[2\] and \[3\]"):
            op.infer(attrs, first, first.with_shape((3,)))


@pytest.mark.parametrize("kind", ["Max", "Min"])
def test_any_number_of_operands(kind: str, tmp_path: Path) -> None:
    from single_node import check_against_onnxruntime, save_node

    x, a, b = (float_values((2, 3), seed=n) for n in range(3))
    for constants in ({"a": a, "b": b}, {}):
        path = save_node(tmp_path / "m.onnx", kind, x, constants)
        check_against_onnxruntime(path, x)


def test_quantized_operands_need_one_quantization() -> None:
    a, b = (TensorType((2,), "int8", Quant((scale,), (0,))) for scale in (0.1, 0.2))
    assert get_op("maximum").infer(None, a, a) == (a,)
    with pytest.raises(TypeMismatch, match="must be equal"):
        get_op("maximum").infer(None, a, b)


def test_an_unknown_form_is_refused(tmp_path: Path) -> None:
    from single_node import save_node

    x = float_values((3,))
    path = save_node(tmp_path / "m.onnx", "Gelu", x, {}, opset=20, approximate="sigmoid")
    with pytest.raises(ImportFailed) as refused:
        import_model(path)
    assert "approximate 'sigmoid' is unknown" in refused.value.details[0]


def test_other_dtypes_of_a_model_are_refused(tmp_path: Path) -> None:
    x = np.zeros(3, np.float64)
    path = onnx_model(tmp_path / "m.onnx", BY_NAME["sqrt"], [x], False)
    with pytest.raises(EdgecError) as refused:
        import_model(path)
    assert "float64 input: only float32" in "\n".join(refused.value.details)
