"""Factors and offsets of channels go into the weights before them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.graph.verify import verify_function
from edgec.passes.fold_constants import fold_constants
from edgec.passes.fold_scales import fold_scales
from edgec.passes.sink_transposes import sink_transposes


def network(
    path: Path, tail: list[tuple[str, str]], *, group: int = 1, twice: bool = False
) -> Path:
    """Conv and a tail of (operator, constant); with `twice` the convolution is an output too."""
    rng = np.random.default_rng(1)
    shape = (4, 4 // group, 3, 3)
    constants = {
        "w": rng.normal(size=shape), "b": rng.normal(size=4), "c": rng.normal(size=(4, 1, 1)),
        "one": rng.normal(size=()), "image": rng.normal(size=(1, 4, 6, 6)),
        "gamma": rng.normal(size=4), "beta": rng.normal(size=4), "mean": rng.normal(size=4),
        "variance": rng.uniform(0.5, 2, 4),
    }  # fmt: skip
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y0"], pads=[1] * 4, group=group)]
    for number, (kind, constant) in enumerate(tail):
        inputs = [f"y{number}", *([constant] if constant else [])]
        if kind == "BatchNormalization":
            inputs = [f"y{number}", "gamma", "beta", "mean", "variance"]
        nodes.append(helper.make_node(kind, inputs, [f"y{number + 1}"]))
    outputs = [f"y{len(tail)}", *(["y0"] if twice else [])]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "test", [value("x", onnx.TensorProto.FLOAT, (1, 4, 6, 6))],
        [value(name, onnx.TensorProto.FLOAT, (1, 4, 6, 6)) for name in outputs],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("tail", "group", "left"),
    [
        ([("BatchNormalization", "")], 1, []),
        ([("BatchNormalization", "")], 4, []),
        ([("Mul", "c"), ("Add", "c"), ("Sub", "one"), ("Relu", "")], 1, ["clip"]),
        ([("Add", "image")], 1, ["add"]),
        ([("Relu", ""), ("Mul", "c")], 1, ["clip", "mul"]),
    ],
)  # fmt: skip
def test_only_constants_of_channels_are_folded(
    tail: list[tuple[str, str]], group: int, left: list[str], tmp_path: Path
) -> None:
    path = network(tmp_path / "m.onnx", tail, group=group)
    before = fold_constants(sink_transposes(import_model(path).main))
    after = fold_scales(before)
    verify_function(after)
    names = [node.op.name for node in after.nodes if node.op.name != "transpose"]
    assert names[1:] == left
    x = np.random.default_rng(2).normal(size=(1, 4, 6, 6)).astype(np.float32)
    for want, got in zip(interpret(before, [x]), interpret(after, [x]), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())


def test_a_convolution_that_others_read_stays(tmp_path: Path) -> None:
    path = network(tmp_path / "m.onnx", [("Mul", "c")], twice=True)
    after = fold_scales(fold_constants(sink_transposes(import_model(path).main)))
    assert "mul" in [node.op.name for node in after.nodes]


def product(path: Path, tail: list[str], outputs: list[str]) -> Path:
    """A product of x[1, 5, 4] with a matrix, which becomes one of two axes, and a tail."""
    rng = np.random.default_rng(3)
    constants = {"w": rng.normal(size=(4, 6)), "c": rng.normal(size=6),
                 "rows": rng.normal(size=(1, 5, 1))}  # fmt: skip
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y0"])]
    for number, word in enumerate(tail):
        kind, constant = word.split()
        nodes.append(helper.make_node(kind, [f"y{number}", constant], [f"y{number + 1}"]))
    value, kind = helper.make_tensor_value_info, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes, "test", [value("x", kind, (1, 5, 4))], [value(n, kind, (1, 5, 6)) for n in outputs],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(
    ("tail", "outputs", "left"),
    [
        (["Add c"], ["y1"], []),
        (["Mul c", "Add c", "Sub c"], ["y3"], []),
        (["Add c"], ["y0", "y1"], ["add"]),
        (["Add rows"], ["y1"], ["add"]),
    ],
)
def test_offsets_are_folded_through_views(
    tail: list[str], outputs: list[str], left: list[str], tmp_path: Path
) -> None:
    before = fold_constants(import_model(product(tmp_path / "m.onnx", tail, outputs)).main)
    after = fold_scales(before)
    verify_function(after)
    assert [n.op.name for n in after.nodes if n.op.name != "reshape"] == ["dense", *left]
    assert [value.name for value in after.results] == outputs
    x = np.random.default_rng(2).normal(size=(1, 5, 4)).astype(np.float32)
    for want, got in zip(interpret(before, [x]), interpret(after, [x]), strict=True):
        np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * np.abs(want).max())
