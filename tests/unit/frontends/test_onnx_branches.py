"""Branches and comparisons of an ONNX file that are decided while it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.graph.interpret import interpret

value = helper.make_tensor_value_info


def constant(name: str, array: Any) -> onnx.NodeProto:
    tensor = numpy_helper.from_array(np.asarray(array), name)
    return helper.make_node("Constant", [], [name], value=tensor)


def branch(name: str, nodes: list[onnx.NodeProto], output: str) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [value(output, TensorProto.FLOAT, None)])


def save(path: Path, nodes: list[onnx.NodeProto], shape: tuple[int, ...] = (2, 3)) -> Path:
    graph = helper.make_graph(
        nodes, "test", [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)])
    model.ir_version = 8
    path.write_bytes(model.SerializeToString())
    return path


def by_rows(compare: str, bound: int) -> list[onnx.NodeProto]:
    """x + 1 if its rows compare so with `bound`, else x rectified in an `If` of its own."""
    inner = helper.make_node(
        "If", ["other"], ["chosen"],
        then_branch=branch("a", [helper.make_node("Relu", ["x"], ["relu"])], "relu"),
        else_branch=branch("b", [helper.make_node("Neg", ["x"], ["neg"])], "neg"),
    )  # fmt: skip
    add = [constant("one", np.float32(1)), helper.make_node("Add", ["x", "one"], ["more"])]
    return [
        helper.make_node("Shape", ["x"], ["shape"]),
        constant("first", np.array(0, np.int64)),
        constant("bound", np.array(bound, np.int64)),
        helper.make_node("Gather", ["shape", "first"], ["rows"]),
        helper.make_node(compare, ["rows", "bound"], ["answer"]),
        helper.make_node("Not", ["answer"], ["other"]),
        helper.make_node("Cast", ["answer"], ["number"], to=TensorProto.INT64),
        helper.make_node("Cast", ["number"], ["condition"], to=TensorProto.BOOL),
        helper.make_node(
            "If", ["condition"], ["y"],
            then_branch=branch("then", add, "more"), else_branch=branch("else", [inner], "chosen"),
        ),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("compare", "bound"),
    [("Equal", 2), ("Equal", 3), ("Less", 3), ("Greater", 3), ("GreaterOrEqual", 2)],
)
def test_one_branch_is_left(compare: str, bound: int, tmp_path: Path) -> None:
    import onnxruntime

    path = save(tmp_path / "m.onnx", by_rows(compare, bound))
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    function = import_model(path).main
    assert len(function.nodes) == 1
    assert np.array_equal(interpret(function, [x])[0], session.run(None, {"x": x})[0])


def test_constants_of_a_shape(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Size", ["shape"], ["rank"]),
        helper.make_node("Cast", ["rank"], ["number"], to=TensorProto.FLOAT),
        helper.make_node(
            "ConstantOfShape", ["shape"], ["halves"],
            value=numpy_helper.from_array(np.array([0.5], np.float32)),
        ),
        helper.make_node("Mul", ["halves", "number"], ["ones"]),
        helper.make_node("Add", ["x", "ones"], ["y"]),
    ]  # fmt: skip
    x = np.zeros((2, 3), np.float32)
    function = import_model(save(tmp_path / "m.onnx", nodes)).main
    assert np.array_equal(interpret(function, [x])[0], x + 1)


def test_what_is_computed_decides_nothing(tmp_path: Path) -> None:
    nodes = [constant("one", np.float32(1)), helper.make_node("Less", ["x", "one"], ["answer"])]
    both = branch("both", [helper.make_node("Relu", ["x"], ["relu"])], "relu")
    nodes.append(helper.make_node("If", ["answer"], ["y"], then_branch=both, else_branch=both))
    with pytest.raises(ImportFailed) as refused:
        import_model(save(tmp_path / "m.onnx", nodes))
    (detail,) = refused.value.details
    assert detail.startswith(("Less  node 'Less#1'", "If  node 'If#2'")), detail


def test_damage_is_named(tmp_path: Path) -> None:
    nodes = by_rows("Equal", 2)
    del nodes[-1].attribute[:]
    huge = [
        constant("extents", np.array([1 << 40, 1 << 40], np.int64)),
        helper.make_node("ConstantOfShape", ["extents"], ["zeros"]),
        helper.make_node("Add", ["x", "zeros"], ["y"]),
    ]
    empty = by_rows("Equal", 2)
    for attribute in empty[-1].attribute:
        del attribute.g.node[:]
    for broken, why in (
        (nodes, "its then_branch is not one graph with 0 inputs"),
        (huge, "its result for constants is too large or cannot be computed"),
        (empty, "its output 'more' is never computed"),
    ):
        with pytest.raises(ImportFailed) as refused:
            import_model(save(tmp_path / "m.onnx", broken))
        assert why in refused.value.details[0]
