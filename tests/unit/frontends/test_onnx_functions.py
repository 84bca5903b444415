"""Operators without an importer are imported by their bodies; constants by the onnx package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import AttributeProto, TensorProto, helper, load, numpy_helper, parser, save

import edgec
from edgec.errors import EdgecError, ImportFailed, TooLarge
from edgec.frontends import import_model
from edgec.frontends.onnx_functions import function_body
from edgec.graph.interpret import Interpretation
from edgec.graph.types import TensorType
from edgec.oracle.frameworks import open_oracle


def model(path: Path, nodes: list[Any], opset: int = 18, **constants: np.ndarray) -> Path:
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4, 3, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    made.ir_version = 8
    save(made, str(path))
    return path


X = np.random.default_rng(1).normal(size=(2, 4, 3, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [("MeanVarianceNormalization", {}), ("MeanVarianceNormalization", {"axes": [0, 1]})],
)
def test_a_body_takes_the_place_of_its_operator(
    kind: str, attributes: dict[str, Any], tmp_path: Path
) -> None:
    path = model(tmp_path / "m.onnx", [helper.make_node(kind, ["x"], ["y"], "norm", **attributes)])
    main = import_model(path).main
    assert all(node.name.startswith("norm/") for node in main.nodes)
    (expected,) = open_oracle(path).run([X], tensors=False).outputs
    np.testing.assert_allclose(Interpretation(main).run([X])[0], expected, rtol=1e-5, atol=1e-6)


def with_functions(path: Path, functions: list[Any], kind: str, **attributes: Any) -> Path:
    """A model of one node, of an operator that the file defines itself."""
    made = load(
        model(path, [helper.make_node(kind, ["x"], ["y"], "own", domain="my", **attributes)])
    )
    made.opset_import.append(helper.make_opsetid("my", 1))
    made.functions.extend(functions)
    made.ir_version = 9
    save(made, str(path))
    return path


def function(name: str, nodes: list[Any], **defaults: float) -> Any:
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    return helper.make_function(
        "my", name, ["a"], ["b"], nodes, imports,
        attribute_protos=[helper.make_attribute(*each) for each in defaults.items()],
    )  # fmt: skip


def test_functions_of_the_file(tmp_path: Path) -> None:
    """One that calls another one, with an attribute of its own and a default."""
    slope = helper.make_node("LeakyRelu", ["a"], ["b"])
    slope.attribute.append(AttributeProto(name="alpha", type=1, ref_attr_name="slope"))
    twice = [helper.make_node("Leaky", ["a"], ["c"], domain="my", slope=0.5),
             helper.make_node("Leaky", ["c"], ["b"], domain="my")]  # fmt: skip
    path = with_functions(
        tmp_path / "m.onnx", [function("Leaky", [slope], slope=0.25), function("Twice", twice)],
        "Twice",
    )  # fmt: skip
    main = import_model(path).main
    assert [node.name for node in main.nodes] == ["own/Leaky/LeakyRelu"] * 2
    (expected,) = open_oracle(path).run([X], tensors=False).outputs
    np.testing.assert_array_equal(Interpretation(main).run([X])[0], expected)


def test_functions_that_never_end(tmp_path: Path) -> None:
    call = [helper.make_node("Loop", ["a"], ["b"], domain="my")]
    path = with_functions(tmp_path / "m.onnx", [function("Loop", call)], "Loop")
    with pytest.raises(ImportFailed) as failure:
        import_model(path)
    assert "my.Loop is not supported: it is made of my.Loop itself" in failure.value.details[0]
    many = [function(f"F{n}", [helper.make_node(f"F{n + 1}", ["a"], ["b"], domain="my")] * 16)
            for n in range(9)]  # fmt: skip
    path = with_functions(tmp_path / "n.onnx", many, "F0")
    with pytest.raises(EdgecError):
        import_model(path)


@pytest.mark.parametrize("calls", [1, 2])
def test_functions_that_call_each_other_without_end(calls: int, tmp_path: Path) -> None:
    """One after the other they would exceed Python's stack, two by two any time."""
    many = [
        function(f"F{n}", [helper.make_node(f"F{n + 1}", ["a"], ["b"], domain="my")] * calls)
        for n in range(1000 if calls == 1 else 40)
    ]
    many.append(function(f"F{len(many)}", [helper.make_node("Relu", ["a"], ["b"])]))
    path = with_functions(tmp_path / "m.onnx", many, "F0")
    with pytest.raises(TooLarge, match="more than 64 functions" if calls == 1 else "steps"):
        import_model(path)


def test_a_body_made_for_the_types_of_a_node() -> None:
    node = helper.make_node("CastLike", ["x", "like"], ["y"], "cast")
    types = [TensorType((2,), "float32"), TensorType((3,), "int8")]
    found = function_body(node, "CastLike", 15, types, "cast", {}, {})
    assert found is not None
    (inner,) = found[1]
    assert inner.op_type == "Cast" and list(inner.output) == ["y"]
    assert {a.name: a.i for a in inner.attribute}["to"] == TensorProto.INT8


def test_an_operator_without_body_is_refused_by_name(tmp_path: Path) -> None:
    path = model(tmp_path / "m.onnx", [helper.make_node("Optional", ["x"], ["y"], "d")])
    with pytest.raises(ImportFailed) as refused:
        import_model(path)
    assert refused.value.details == ("Optional  node 'd': Optional is not supported",)


def test_constants_of_any_operator_and_dtype_are_folded(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Mul", ["shape", "two"], ["twice"]),
        helper.make_node("Range", ["zero", "nine", "two"], ["places"]),
        helper.make_node("ReduceSum", ["places"], ["total"], keepdims=0),
        helper.make_node("Cast", ["total"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "number"], ["y"]),
        helper.make_node("Unique", ["twice"], ["unused"]),
    ]
    path = model(
        tmp_path / "m.onnx", nodes, two=np.array(2, np.int64), zero=np.array(0, np.int64),
        nine=np.array(9, np.int64),
    )  # fmt: skip
    main = import_model(path).main
    assert len(main.nodes) == 1
    np.testing.assert_array_equal(Interpretation(main).run([X])[0], X + np.float32(20))


@pytest.mark.parametrize(
    ("kind", "operands", "why"),
    [
        ("Tile", ["two", "huge"], "68719476736 elements"),
        ("Expand", ["two", "huge"], "68719476736 elements"),
        ("Range", ["zero", "far", "one"], "a constant of 1099511627776 elements"),
        ("Gather", ["two", "far"], "an index leaves the 1 elements of axis 0"),
    ],
)
def test_constants_that_cannot_be_meant(
    kind: str, operands: list[str], why: str, tmp_path: Path
) -> None:
    nodes = [
        helper.make_node(kind, operands, ["made"]),
        helper.make_node("Cast", ["made"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "number"], ["y"]),
    ]
    path = model(
        tmp_path / "m.onnx", nodes, two=np.array([2], np.int64), zero=np.array(0, np.int64),
        one=np.array(1, np.int64), far=np.array(1 << 40, np.int64),
        huge=np.array([1 << 36], np.int64),
    )  # fmt: skip
    with pytest.raises(ImportFailed) as refused:
        import_model(path)
    assert why in refused.value.details[0]


def test_a_mean_of_several_has_the_bits_of_onnx_runtime(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["":13]>
    g (float[9] a, float[9] b, float[9] c) => (float[9] y) { y = Mean(a, b, c) }
    """
    file = tmp_path / "mean.onnx"
    save(parser.parse_model(text), file)
    assert [each.mismatches for each in edgec.verify(file, random=9).outputs] == [0]
