"""The builder infers types, keeps names unique, and errors speak of the model's own nodes."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.errors import TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant
from edgec.graph.types import Quant, TensorType
from edgec.graph.verify import verify_function
from edgec.ops.transpose import TransposeAttrs


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    edgec.ops.load()


def test_types_are_inferred_and_names_unique() -> None:
    builder = GraphBuilder("main")
    x = builder.param("x", TensorType((2, 3), "int8", Quant((0.5,), (1,))))
    y = builder.op("transpose", [x], TransposeAttrs((1, 0)), name="x")
    z = builder.op("dequantize", [y], name="x", output_names=["x"], sources=("a", "b"))
    function = builder.finish([z])
    assert [v.name for v in function.values()] == ["x", "x.1", "x.2"]
    assert y.type == TensorType((3, 2), "int8", Quant((0.5,), (1,)))
    assert z.type == TensorType((3, 2), "float32")
    assert [node.name for node in function.nodes] == ["x", "x"]
    assert [node.sources for node in function.nodes] == [("x",), ("a", "b")]
    verify_function(function)


def test_a_mismatch_names_the_node_and_its_inputs() -> None:
    builder = GraphBuilder()
    x = builder.param("x", TensorType((2, 3), "float32"))
    with pytest.raises(TypeMismatch) as caught:
        builder.op("dequantize", [x], name="model/dequant")
    assert caught.value.message.startswith("dequantize node 'model/dequant': ")
    assert caught.value.details == ("%x: float32[2, 3]",)


def test_constants_have_the_type_of_their_data() -> None:
    builder = GraphBuilder()
    quant = Quant((0.5, 0.25), (0, 0), 0)
    w = builder.constant("w", np.zeros((2, 3), np.int8), quant)
    assert w.type == TensorType((2, 3), "int8", quant)
    with pytest.raises(ValueError, match=r"constant w: data int8\[3\] is not int8\[2\]"):
        Constant("w", TensorType((2,), "int8"), data=np.zeros(3, np.int8))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0.5,), (1, 2)), "1 scales but 2 zero points"),
        (((0.5, 0.25), (0, 0)), "several scales need an axis"),
    ],
)
def test_a_quantization_is_consistent(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Quant(*arguments)  # type: ignore[arg-type]


def test_sizes_of_types() -> None:
    type_ = TensorType((2, 3, 4), "int32")
    assert (type_.elements, type_.nbytes) == (24, 96)
    assert TensorType((), "float64").nbytes == 8
    with pytest.raises(ValueError, match="unknown dtype 'int9'"):
        TensorType((1,), "int9")
    with pytest.raises(ValueError, match="not quantized per tensor"):
        type_.scalar_quant()
