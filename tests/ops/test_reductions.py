"""Every row of the table of reductions, by tests that are made from the rows.

A row is in `CASES` with what it means on NumPy, which is the oracle, or the first test fails. Then
each of its dtypes meets every choice of axes, the frameworks that name it, special values, its own
loops and, with all others, the C compiler under sanitizers.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from float_cases import float_values
from onnx import helper
from sanitized import check_sanitized
from single_node import check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import EdgecError
from edgec.frontends import import_model
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function, Module
from edgec.graph.types import TensorType
from edgec.onnx_backend import run_node
from edgec.ops.reduce import Reduce, ReduceAttrs
from edgec.ops.reductions import BY_NAME, ROWS
from edgec.ops.row import FLOATS
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_module
from edgec.targets.core import find_core

Array = np.ndarray
SHAPE = (3, 4, 5)
AXES = [axes for count in (1, 2, 3) for axes in combinations(range(3), count)]
PAIRS = [(row.name, dtype) for row in ROWS for dtype in row.dtypes]
ORT = ("float32", "int32", "int64")


@dataclass(frozen=True)
class Case:
    """What a row means: `exact` on NumPy, of floats in double.

    onnx, tflite: dtypes for which the frameworks have kernels. reference: TFLite's interpreter.
    positive: its elements are.
    """

    exact: Callable[..., Any]
    onnx: tuple[str, ...] = ("float32",)
    tflite: tuple[str, ...] = ()
    reference: str = "litert"
    positive: bool = False


def _mean(x: Array, axis: tuple[int, ...]) -> Array:
    if x.dtype.kind == "f":
        return np.mean(x, axis=axis)
    total = np.sum(x, axis=axis, dtype=x.dtype).astype(object)
    count = int(np.prod([x.shape[a] for a in axis]))
    quotient = np.abs(total) // count * np.sign(total)
    return np.asarray(quotient).astype(x.dtype)


def _bfloat16_sum(x: Array, axis: tuple[int, ...]) -> Array:
    rows = np.moveaxis(x.astype(np.float32), axis, range(-len(axis), 0))
    rows = rows.reshape(*rows.shape[: x.ndim - len(axis)], -1)
    total = np.zeros(rows.shape[:-1], "bfloat16")
    for place in range(rows.shape[-1]):
        total = (total.astype(np.float32) + rows[..., place]).astype("bfloat16")
    return total.astype(np.float64)


CASES: dict[str, Case] = {
    "mean": Case(_mean, ("float32", "int32"), ("float32", "int32", "int64")),
    "sum": Case(lambda x, axis: np.sum(x, axis=axis, dtype=x.dtype), ORT,
                ("float32", "int32", "int64")),
    "sum_bfloat16": Case(_bfloat16_sum, onnx=()),
    "max": Case(np.max, (*ORT, "int8", "uint8"), ("float32", "int32", "int64")),
    "min": Case(np.min, (*ORT, "int8", "uint8"), ("float32", "int32", "int64")),
    "prod": Case(lambda x, axis: np.prod(x, axis=axis, dtype=x.dtype), ORT,
                 ("float32", "int32", "int64")),
    "l1": Case(lambda x, axis: np.sum(np.abs(x), axis=axis, dtype=x.dtype), ("float32", "int32")),
    "l2": Case(lambda x, axis: np.sqrt(np.sum(x * x, axis=axis))),
    "sum_square": Case(lambda x, axis: np.sum(x * x, axis=axis, dtype=x.dtype), ORT),
    "log_sum": Case(lambda x, axis: np.log(np.sum(x, axis=axis)), positive=True),
    "log_sum_exp": Case(lambda x, axis: np.log(np.sum(np.exp(x), axis=axis))),
    "any": Case(np.any, tflite=("bool",), onnx=("bool",)),
    "all": Case(np.all, tflite=("bool",), onnx=("bool",)),
}  # fmt: skip


def elements(name: str, dtype: str, shape: tuple[int, ...] = SHAPE) -> Array:
    """What every framework computes alike: no integer overflows in a product."""
    rng = np.random.default_rng(3)
    if dtype == "bool":
        return rng.integers(0, 4, shape) > (0 if name == "all" else 2)
    if dtype in FLOATS:
        values = float_values(shape, seed=4).astype(dtype)
        return np.abs(values) if CASES[name].positive else values
    if name == "prod":
        return rng.integers(1, 3, shape).astype(dtype)
    return rng.integers(0 if dtype.startswith("u") else -100, 100, shape).astype(dtype)


def assert_near(name: str, found: Array, wanted: Array, x: Array) -> None:
    """The same integers; floats as near as the operator's tolerance says."""
    assert found.shape == wanted.shape
    if found.dtype.kind != "f":
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
        return
    most = max(np.abs(x).max(), np.abs(wanted).max(initial=0))
    tolerance = Reduce.tolerance if found.dtype == np.float32 else 1e-15
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * most)


def function_of(dtype: str, axes: tuple[int, ...]) -> Function:
    """All rows of this dtype on one parameter."""
    builder = GraphBuilder()
    x = builder.param("x", TensorType(SHAPE, dtype))
    return builder.finish([
        builder.op("reduce", [x], ReduceAttrs(axes, name), name=name)
        for name, known in PAIRS if known == dtype
    ])  # fmt: skip


def test_every_row_is_tested() -> None:
    assert list(CASES) == [row.name for row in ROWS]


@pytest.mark.parametrize("axes", AXES, ids=str)
@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype in PAIRS}))
def test_meaning_and_loops(dtype: str, axes: tuple[int, ...]) -> None:
    function = function_of(dtype, axes)
    x = elements("log_sum", dtype)
    with np.errstate(over="ignore"):
        for node, found in zip(function.nodes, interpret(function, [x]), strict=True):
            wide = x.astype(np.float64) if dtype == "float32" else x
            wanted = np.asarray(CASES[node.name].exact(wide, axis=axes))
            assert_near(node.name, found.reshape(wanted.shape), wanted, x)
    check_nests(function, [x])


def onnx_session(path: Path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    ("name", "dtype"), [(r.name, d) for r in ROWS if r.onnx for d in CASES[r.name].onnx]
)
@pytest.mark.parametrize("axes", [(1,), (0, 2), (-1, 0, 1), ()], ids=str)
def test_onnx(name: str, dtype: str, axes: tuple[int, ...], tmp_path: Path) -> None:
    x, constants = elements(name, dtype), {"axes": np.array(axes, np.int64)} if axes else {}
    row, keep = BY_NAME[name], len(axes) % 2
    path = save_node(tmp_path / "m.onnx", row.onnx, x, constants, opset=20, keepdims=keep)
    (wanted,) = onnx_session(path).run(None, {"x": x})
    function = import_model(path).main
    assert function.nodes[0].attrs.kind == name
    (found,) = interpret(function, [x])
    assert_near(name, found, wanted, x)


@pytest.mark.parametrize("row", [row for row in ROWS if row.onnx], ids=lambda row: row.name)
def test_no_axes_reduce_nothing(row: Any, tmp_path: Path) -> None:
    x = elements(row.name, row.dtypes[0])
    path = save_node(tmp_path / "m.onnx", row.onnx, x, {}, opset=20, noop_with_empty_axes=1)
    function = import_model(path).main
    (found,) = interpret(function, [x])
    wide = x.astype(np.float64) if x.dtype == np.float32 else x
    wanted = np.asarray(CASES[row.name].exact(wide[..., None], axis=(3,)))
    assert_near(row.name, found, wanted, x)
    check_nests(function, [x])


@pytest.mark.parametrize(
    ("name", "dtype"), [(r.name, d) for r in ROWS if r.tflite for d in CASES[r.name].tflite]
)
@pytest.mark.parametrize("axes", [(1,), (0, -1), (0, 1, 2)], ids=str)
def test_tflite(name: str, dtype: str, axes: tuple[int, ...], tmp_path: Path) -> None:
    x, model = elements(name, dtype), TfliteBuilder()
    keep = len(axes) == 1
    shape = np.sum(x, axis=axes, keepdims=keep).shape
    numbers = [
        model.tensor("x", x.shape, dtype),
        model.tensor("axes", (len(axes),), "int32", data=np.array(axes, np.int32)),
    ]
    y = model.tensor("y", shape, dtype)
    model.operator(BY_NAME[name].tflite, numbers, [y], "ReducerOptions", KeepDims=keep)
    path = tmp_path / "m.tflite"
    path.write_bytes(model.build(numbers[:1], [y]))
    (wanted,) = open_oracle(path, CASES[name].reference).run([x]).outputs
    (found,) = interpret(import_model(path).main, [x])
    assert_near(name, found, wanted, x)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [([np.inf, 1], np.inf), ([-np.inf, -np.inf], -np.inf), ([-np.inf, 2], 2.0), ([200, 200],
     np.float32(200 + np.log(2)))], ids=str,
)  # fmt: skip
def test_the_logarithm_of_a_sum_does_not_overflow(line: list[float], wanted: float) -> None:
    x = np.array(line, np.float32)
    types = [TensorType((2,), "float32")]
    attrs = ReduceAttrs((0,), "log_sum_exp")
    (found,) = Reduce().evaluate(attrs, [x], types, Reduce().infer(attrs, *types))
    np.testing.assert_allclose(found, [wanted], rtol=1e-6)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype in PAIRS}))
def test_c_under_sanitizers(dtype: str, tmp_path: Path) -> None:
    function = function_of(dtype, (0, 2))
    module = Module({"main": function}, source="rows.onnx", format="onnx")
    compiled = compile_module(module, find_core("host"), Options())
    assert check_sanitized(compiled, tmp_path) >= (4 if dtype == "bool" else 8)


def test_other_dtypes_of_a_model_are_refused(tmp_path: Path) -> None:
    path = save_node(tmp_path / "m.onnx", "ReduceL2", np.zeros((2, 2)), {})
    with pytest.raises(EdgecError) as refused:
        import_model(path)
    assert "float64 input: only float32" in "\n".join(refused.value.details)


@pytest.mark.parametrize(("kind", "wanted"), [("ReduceSum", 0), ("ReduceProd", 1)])
def test_nothing_is_reduced_by_c(
    kind: str, wanted: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGEC_CACHE", str(tmp_path))
    node = helper.make_node(kind, ["x"], ["y"])
    (found,) = run_node(node, [np.zeros((2, 0, 3), np.float32)])
    np.testing.assert_array_equal(found, np.full((1, 1, 1), wanted, np.float32), strict=True)
