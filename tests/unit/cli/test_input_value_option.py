"""`--input-value`: inputs of an ONNX file that are always one number, and decide branches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgec.errors import ImportFailed
from edgec.frontends import import_model
from edgec.oracle.frameworks import open_oracle


@pytest.fixture
def two_rates(tmp_path: Path) -> Path:
    """y = x + 1 at a rate of 16,000, else x - 1."""
    value, node = helper.make_tensor_value_info, helper.make_node
    number = onnx.TensorProto.FLOAT

    def branch(kind: str) -> onnx.GraphProto:
        made = node(kind, ["x", "one"], [f"y_{kind}"], name=kind)
        return helper.make_graph([made], kind, [], [value(f"y_{kind}", number, (1, 4))])

    graph = helper.make_graph(
        [
            node("Equal", ["rate", "known"], ["is_high"]),
            node("If", ["is_high"], ["y"], then_branch=branch("Add"), else_branch=branch("Sub")),
        ],
        "test",
        [value("x", number, (1, 4)), value("rate", onnx.TensorProto.INT64, ())],
        [value("y", number, (1, 4))],
        [
            helper.make_tensor("known", onnx.TensorProto.INT64, (), [16000]),
            helper.make_tensor("one", number, (1,), [1.0]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 9
    path = tmp_path / "two_rates.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize(("rate", "operator"), [(16000, "add"), (8000, "sub")])
def test_a_value_decides_a_branch(rate: int, operator: str, two_rates: Path) -> None:
    function = import_model(two_rates, values={"rate": rate}).main
    assert [param.name for param in function.params] == ["x"]
    assert [node.op.name for node in function.nodes] == [operator]
    x = np.arange(4, dtype=np.float32).reshape(1, 4)
    (y,) = open_oracle(two_rates, values={"rate": rate}).run([x]).outputs
    assert np.array_equal(y, x + (1 if operator == "add" else -1))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rat": 16000}, "has no input 'rat'"),
        ({"rate": 0.5}, "input 'rate' is int64, which 0.5 is not"),
        ({"rate": 1e30}, "input 'rate' is int64, which 1e\\+30 is not"),
    ],
)
def test_what_does_not_fit_is_refused(
    values: dict[str, float], message: str, two_rates: Path
) -> None:
    with pytest.raises(ImportFailed, match=message):
        import_model(two_rates, values=values)


def test_the_command_line_takes_them(two_rates: Path, edgec: Callable) -> None:
    both = edgec("verify", two_rates, "--board", "host")  # a branch that the input decides
    assert both.status == 0 and "all the same bits" in both.out, both.err
    done = edgec("verify", two_rates, "--board", "host", "--input-value", "rate=16000")
    assert done.status == 0 and "all the same bits" in done.out, done.err
    wrong = edgec("verify", two_rates, "--board", "host", "--input-value", "rate=fast")
    assert wrong.status == 2 and "is not a value of an input" in wrong.err
