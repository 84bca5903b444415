"""The reference interpreter: results, what it lets one observe, and the inputs it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import edgec.ops
from edgec.errors import ContractError, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.ops.clip import ClipAttrs
from edgec.ops.transpose import Transpose, TransposeAttrs

X = np.array([[-1.0, 2.0, 3.0], [4.0, -5.0, 9.0]], np.float32)


@pytest.fixture(scope="module", autouse=True)
def operators() -> None:
    edgec.ops.load()


def build() -> Function:
    """(transpose(clip(x)), x, a constant), where the clip's value is read twice."""
    builder = GraphBuilder()
    x = builder.param("x", TensorType((2, 3), "float32"))
    clipped = builder.op("clip", [x], ClipAttrs(0.0, 6.0), name="clip")
    y = builder.op("transpose", [clipped], TransposeAttrs((1, 0)), name="turn")
    again = builder.op("clip", [clipped], ClipAttrs(0.0, 3.0), name="clip")
    constant = builder.constant("c", np.array([7], np.int8))
    return builder.finish([y, x, constant, again])


def test_results_come_in_order() -> None:
    y, x, constant, again = interpret(build(), [X])
    np.testing.assert_array_equal(y, np.clip(X, 0, 6).T)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(constant, [7])
    np.testing.assert_array_equal(again, np.clip(X, 0, 3))


def test_every_value_can_be_observed_once_in_order() -> None:
    seen: list[str] = []
    interpret(build(), [X], lambda value, array: seen.append(value.name))
    assert seen == ["x", "clip", "turn", "clip.1"]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ([], "1 inputs are needed, 0 were given"),
        ([X, X], "1 inputs are needed, 2 were given"),
        ([X.T], r"input x: float32\[2, 3\] is needed, float32\[3, 2\] was given"),
        ([X.astype(np.float64)], r"float64\[2, 3\] was given"),
    ],
)
def test_inputs_of_another_kind_are_refused(inputs: list[np.ndarray], message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        interpret(build(), inputs)


def test_an_operator_that_breaks_its_own_types_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Transpose, "evaluate", lambda self, attrs, inputs, *types: (inputs[0],))
    with pytest.raises(ContractError, match=r"transpose node 'turn' gave float32\[2, 3\]"):
        interpret(build(), [X])
