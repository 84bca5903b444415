"""Floats of 16 bits: what has no form for them is computed in float32, and rounded once."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, save

from edgec.errors import TypeMismatch
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.operator import get_op
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.arg_reduce import ArgReduceAttrs
from edgec.ops.mul import MulAttrs

NUMBERS = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
}
EXACT = {
    "Add": lambda x: x + x,
    "Mul": lambda x: x * x,
    "Sub": lambda x: x - x,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Relu": lambda x: np.maximum(x, 0),
    "MatMul": lambda x: x @ x,
}


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("kind", EXACT)
def test_results_are_rounded_once(kind: str, dtype: str, tmp_path: Path) -> None:
    number, numpy_dtype = NUMBERS[dtype]
    node = helper.make_node(kind, ["x"] if kind in ("Sigmoid", "Relu") else ["x", "x"], ["y"])
    ends = [helper.make_tensor_value_info(name, number, [5, 5]) for name in "xy"]
    graph = helper.make_graph([node], "narrow", ends[:1], ends[1:])
    path = tmp_path / "m.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    x = np.random.default_rng(1).normal(0, 2, (5, 5)).astype(numpy_dtype)
    (found,) = interpret(import_model(path).main, [x])
    wanted = EXACT[kind](x.astype(np.float64)).astype(numpy_dtype)
    assert found.dtype == wanted.dtype
    step = float(ml_dtypes.finfo(numpy_dtype).eps)
    np.testing.assert_allclose(found.astype(float), wanted.astype(float), rtol=step)


@pytest.mark.parametrize(
    ("name", "attrs"), [("add", AddAttrs()), ("mul", MulAttrs()), ("arg_reduce", ArgReduceAttrs(0))]
)
def test_their_bits_are_no_numbers(name: str, attrs: object) -> None:
    """What works on stored elements would take the bits for integers."""
    x = TensorType((2, 3), "float16")
    with pytest.raises(TypeMismatch):
        get_op(name).infer(attrs, *([x] if name == "arg_reduce" else [x, x]))
