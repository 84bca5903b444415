"""TFLite's resource variables become states, with the bits of TFLite Micro over several runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from against_tflm import assert_same_bits
from tflite_builder import TfliteBuilder

from edgec.errors import ImportFailed
from edgec.frontends import import_model

QUANT = {"scale": 0.5, "zero_point": -3}
SHAPE = (1, 6)
START = np.arange(6, dtype=np.int8).reshape(SHAPE)


class VariableModel:
    """A model of int8 tensors of one shape that adds, reads and assigns."""

    def __init__(self) -> None:
        self.builder = TfliteBuilder()
        self.x = self.tensor("x")

    def tensor(self, name: str) -> int:
        return self.builder.tensor(name, SHAPE, "int8", **QUANT)

    def call_once(self, number: int = 1) -> None:
        self.builder.operator("CALL_ONCE", [], [], "CallOnceOptions", InitSubgraphIndex=number)

    def handle(self, name: str, builder: TfliteBuilder | None = None) -> int:
        builder = builder or self.builder
        made = builder.tensor(f"{name}_handle", (), "resource")
        builder.operator("VAR_HANDLE", [], [made], "VarHandleOptions", SharedName=name)
        return made

    def read(self, handle: int, name: str) -> int:
        value = self.tensor(name)
        self.builder.operator("READ_VARIABLE", [handle], [value], "ReadVariableOptions")
        return value

    def assign(self, handle: int, value: int, builder: TfliteBuilder | None = None) -> None:
        builder = builder or self.builder
        builder.operator("ASSIGN_VARIABLE", [handle, value], [], "AssignVariableOptions")

    def add(self, a: int, b: int, name: str) -> int:
        value = self.tensor(name)
        self.builder.operator("ADD", [a, b], [value], "AddOptions")
        return value

    def initialize(self, name: str, data: np.ndarray, shape: tuple[int, ...] = SHAPE) -> None:
        graph = self.builder.others[0] if self.builder.others else self.builder.subgraph()
        value = graph.tensor("start", shape, "int8", data=data, **QUANT)
        self.assign(self.handle(name, graph), value, graph)


def sums(start: np.ndarray | None = START) -> tuple[VariableModel, int]:
    """Adds every input to what there was: `y = s = s + x`."""
    model = VariableModel()
    if start is not None:
        model.call_once()
        model.initialize("s", start)
    handle = model.handle("s")
    y = model.add(model.read(handle, "old"), model.x, "y")
    model.assign(handle, y)
    return model, y


@pytest.mark.parametrize("start", [START, None], ids=["call once", "no initial value"])
def test_a_running_sum(start: np.ndarray | None, tmp_path: Path) -> None:
    model, y = sums(start)
    module = assert_same_bits(model.builder.build([model.x], [y]), tmp_path, range(1, 6))
    (state,) = module.main.states
    assert state.before.name == "s" and state.after in module.main.outputs
    wanted = np.full(SHAPE, -3, np.int8) if start is None else start
    np.testing.assert_array_equal(state.initial.data, wanted)


def test_reads_and_assignments_in_order(tmp_path: Path) -> None:
    """What was assigned is read in the same run; the last assignment is the next run's."""
    model = VariableModel()
    s, t = model.handle("s"), model.handle("t")
    first = model.add(model.read(s, "s1"), model.x, "first")
    model.assign(s, first)
    second = model.add(first, model.read(t, "t1"), "second")
    model.assign(t, first)
    model.assign(s, second)
    y = model.add(second, model.x, "y")
    module = assert_same_bits(model.builder.build([model.x], [y]), tmp_path, range(1, 6))
    assert [state.after.name for state in module.main.states] == ["second", "first"]


def test_a_variable_that_stays_is_a_constant(tmp_path: Path) -> None:
    model = VariableModel()
    model.call_once()
    model.initialize("s", START)
    y = model.add(model.read(model.handle("s"), "old"), model.x, "y")
    (tmp_path / "m.tflite").write_bytes(model.builder.build([model.x], [y]))
    module = import_model(tmp_path / "m.tflite")
    assert not module.main.states
    np.testing.assert_array_equal(module.main.constants()[0].data, START)


def damaged(case: str) -> tuple[VariableModel, int]:
    model, y = sums()
    if case == "number":
        model, y = VariableModel(), 0
        model.call_once(3)
        y = model.add(model.x, model.x, "y")
    elif case == "late":
        model.call_once()
    elif case == "computed":
        other = model.builder.others[0]
        other.operator("ADD", [1, 1], [1], "AddOptions")
    elif case == "not constant":
        other = model.builder.others[0]
        model.assign(model.handle("s", other), other.tensor("empty", SHAPE, "int8", **QUANT), other)
    elif case == "shape":
        model, y = VariableModel(), 0
        model.call_once()
        model.initialize("s", np.zeros(3, np.int8), (3,))
        handle = model.handle("s")
        y = model.add(model.read(handle, "old"), model.x, "y")
        model.assign(handle, y)
    elif case == "handle":
        model.assign(model.x, y)
    elif case == "type":
        wide = model.builder.tensor("wide", (1, 6), "int8", scale=0.25, zero_point=0)
        model.builder.operator("ADD", [y, y], [wide], "AddOptions")
        model.assign(model.handle("s"), wide)
    elif case == "options":
        model.builder.operator("VAR_HANDLE", [], [model.builder.tensor("h", (), "resource")])
    return model, y


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("number", "calls subgraph 3 of 1"),
        ("late", "stands after operators that use variables"),
        ("computed", "only assignments of constants are supported"),
        ("not constant", "which assigns computed values"),
        ("shape", "its initial value is int8[3]"),
        ("handle", "its variable is not the result of a VAR_HANDLE before it"),
        ("type", "assigns int8[1, 6] quant(0.25, 0) to a variable of int8[1, 6] quant(0.5, -3)"),
        ("options", "it has no VarHandleOptions"),
    ],
)
def test_words_for_what_variables_cannot_be(case: str, words: str, tmp_path: Path) -> None:
    model, y = damaged(case)
    (tmp_path / "m.tflite").write_bytes(model.builder.build([model.x], [y]))
    with pytest.raises(ImportFailed) as failure:
        import_model(tmp_path / "m.tflite")
    assert any(words in line for line in failure.value.details), failure.value.details
