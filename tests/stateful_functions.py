"""Small functions with state, one for each way in which a state can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Function, Module, State, Value
from edgec.graph.types import Quant, TensorType
from edgec.ops.add import AddAttrs
from edgec.ops.reshape import ReshapeAttrs

QUANT = Quant((0.5,), (-3,))
TYPE = TensorType((2, 4), "int8", QUANT)

Make = Callable[[GraphBuilder], Function]


def _add(b: GraphBuilder, x: Value, y: Value, name: str) -> Value:
    return b.op("add", [x, y], AddAttrs(QUANT), name=name)


def _finish(
    b: GraphBuilder, outputs: Sequence[Value], states: Sequence[tuple[Value, Value]]
) -> Function:
    """States start as 1, 2, 3 ...: no two bytes are equal."""
    made = []
    for number, (before, after) in enumerate(states):
        data = np.arange(1, 9, dtype=np.int8).reshape(2, 4) + np.int8(10 * number)
        initial = b.constant(f"initial{number}", data, QUANT)
        made.append(State(before, after, initial))
    return b.finish([*outputs, *(state.after for state in made)], tuple(made))


def in_place(b: GraphBuilder) -> Function:
    """The new value is made where the old one is, and read afterwards."""
    x, s = b.param("x", TYPE), b.param("s", TYPE)
    after = _add(b, s, x, "after")
    return _finish(b, [_add(b, after, x, "y")], [(s, after)])


def read_late(b: GraphBuilder) -> Function:
    """The old value is read when the new one is there."""
    x, s = b.param("x", TYPE), b.param("s", TYPE)
    after = _add(b, s, x, "after")
    return _finish(b, [_add(b, s, after, "y")], [(s, after)])


def also_output(b: GraphBuilder) -> Function:
    """What the state becomes is an output as well."""
    x, s = b.param("x", TYPE), b.param("s", TYPE)
    y = _add(b, s, x, "y")
    return _finish(b, [y], [(s, y)])


def delay_line(b: GraphBuilder) -> Function:
    """Each state becomes another one; the old value of the last is the output."""
    x, s, t = b.param("x", TYPE), b.param("s", TYPE), b.param("t", TYPE)
    return _finish(b, [t], [(s, x), (t, s)])


def exchange(b: GraphBuilder) -> Function:
    """Two states become each other."""
    x, s, t = b.param("x", TYPE), b.param("s", TYPE), b.param("t", TYPE)
    return _finish(b, [_add(b, x, s, "y")], [(s, t), (t, s)])


def twice(b: GraphBuilder) -> Function:
    """Two states become the same value, a third one a view of it."""
    x, s, t = b.param("x", TYPE), b.param("s", TYPE), b.param("t", TYPE)
    u = b.param("u", TYPE)
    after = _add(b, x, s, "after")
    flat = b.op("reshape", [after], ReshapeAttrs((8,)), name="flat")
    view = b.op("reshape", [flat], ReshapeAttrs((2, 4)), name="view")
    y = _add(b, _add(b, t, u, "sum"), x, "y")
    return _finish(b, [y], [(s, after), (t, after), (u, view)])


def fixed(b: GraphBuilder) -> Function:
    """One state becomes a constant, one never changes."""
    x, s, t = b.param("x", TYPE), b.param("s", TYPE), b.param("t", TYPE)
    constant = b.constant("constant", np.full((2, 4), -7, np.int8), QUANT)
    return _finish(b, [_add(b, _add(b, x, s, "sum"), t, "y")], [(s, constant), (t, t)])


#: With the number of copies that each needs.
STATEFUL: dict[Make, int] = {
    in_place: 0, read_late: 1, also_output: 1, delay_line: 4, exchange: 4, twice: 2, fixed: 3,
}  # fmt: skip


def module_of(make: Make) -> Module:
    """A module with the function as `main`."""
    return Module({"main": make(GraphBuilder())}, source=f"{make.__name__}.tflite")
