"""int_add, int_mul, int_div: TFLite Micro's arithmetic of int32, which wraps."""

from __future__ import annotations

import numpy as np
import pytest
from against_tflm import assert_same_bits
from single_node import check_against_onnxruntime, check_nests, save_node
from tflite_builder import TfliteBuilder

from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.operator import get_op
from edgec.graph.types import TensorType

OPTIONS = {"ADD": "AddOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


def model_of(kind: str, constant: list[int] | None) -> bytes:
    model = TfliteBuilder()
    narrow, x, y = (model.tensor(n, (40,), d) for n, d in (("a", "int16"), ("x", "int32"),
                                                           ("y", "int32")))  # fmt: skip
    model.operator("CAST", [narrow], [x])
    other = x
    if constant is not None:
        data = np.asarray(constant, np.int32)
        other = model.tensor("b", () if data.size == 1 else data.shape, "int32", data=data)
    model.operator(kind, [x, other], [y], OPTIONS[kind])
    return model.build([narrow], [y])


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("constant", [[666], [-256]], ids=str)
def test_with_a_number(kind: str, constant: list[int], tmp_path) -> None:
    function = assert_same_bits(model_of(kind, constant), tmp_path, range(1, 5)).main
    x = np.random.default_rng(1).integers(-32768, 32768, 40).astype(np.int16)
    check_nests(function, [x])


@pytest.mark.parametrize("kind", ["ADD", "MUL"])
def test_of_two_tensors(kind: str, tmp_path) -> None:
    assert_same_bits(model_of(kind, None), tmp_path)


def test_results_wrap() -> None:
    b = GraphBuilder()
    x, y = (b.param(n, TensorType((2,), "int32")) for n in "xy")
    function = b.finish([b.op(op, [x, y], name=op) for op in ("int_add", "int_mul")])
    large = np.array([2**31 - 1, -(2**31)], np.int32)
    total, product = interpret(function, [large, large])
    assert total.tolist() == [-2, 0] and product.tolist() == [1, 0]
    check_nests(function, [large, large])


@pytest.mark.parametrize("kind", ["Add", "Sub", "Mul"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_of_onnx(kind: str, dtype: str, tmp_path) -> None:
    x, b = (np.arange(7).astype(dtype) * n - 9 for n in (3, -5))
    check_nests(
        check_against_onnxruntime(save_node(tmp_path / "m.onnx", kind, x, {"b": b}), x), [x]
    )


def test_other_types_are_refused() -> None:
    with pytest.raises(TypeMismatch, match="int_add needs"):
        get_op("int_add").infer(None, *[TensorType((2,), "float32")] * 2)  # type: ignore[arg-type]
