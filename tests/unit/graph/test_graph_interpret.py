"""The reference interpreter: results, what it lets one observe, and the inputs it refuses."""

from __future__ import annotations

import weakref

import numpy as np
import pytest

import edgec.ops
from edgec.errors import ContractError, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import Interpretation, in_use, interpret
from edgec.graph.ir import Count, Function
from edgec.graph.types import TensorType
from edgec.ops.add import AddAttrs
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


def test_values_are_freed_after_their_last_use() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((4,), "float32"))
    values = [x]
    for number in range(4):
        values.append(b.op("exp", values[-1:], name=f"n{number}"))
    twice = b.op("add", [values[1], values[4]], AddAttrs(None), name="twice")
    alive: dict[str, weakref.ref[np.ndarray]] = {}
    seen: list[set[str]] = []

    def observe(value: object, array: np.ndarray) -> None:
        seen.append({name for name, ref in alive.items() if ref() is not None})
        alive[value.name] = weakref.ref(array)  # type: ignore[attr-defined]

    interpret(b.finish([values[2], twice]), [np.ones(4, np.float32)], observe)
    # n0 is read by the last node, n2 only by n3, n1 is a result.
    assert seen[-1] == {"x", "n0", "n1", "n3"}


def test_the_part_of_an_output_that_is_in_use() -> None:
    whole = np.arange(12).reshape(3, 4)
    ends = np.array([2], np.int32), np.array([3], np.int32)
    counts = (Count(0, 0, 2), Count(1, 1, 3))
    a, b = in_use([whole, whole, *ends], counts)
    np.testing.assert_array_equal(a, whole[:2])
    np.testing.assert_array_equal(b, whole[:, :3])
    (both,) = in_use([whole, ends[0]], (Count(0, 0, 1), Count(0, 1, 1)))
    np.testing.assert_array_equal(both, whole[:2, :2])
    assert len(in_use([whole, whole], ())) == 2


def test_state_is_kept_between_runs_and_reset() -> None:
    b = GraphBuilder()
    x = b.param("x", TensorType((1,), "int32"))
    before = b.state("s", x.type, np.array([5], np.int32))
    after = b.op("int_add", [x, before], name="sum")
    b.become(before, after)
    runs = Interpretation(b.finish([after]))
    ones = [np.array([1], np.int32)]
    assert [int(runs.run(ones)[0][0]) for _ in range(3)] == [6, 7, 8]
    runs.reset()
    assert [int(array[0]) for array in runs.run_whole(ones)] == [6]
