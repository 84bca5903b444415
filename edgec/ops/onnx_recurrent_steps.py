"""ONNX's LSTM, GRU and RNN in any form as a scan: its body is one step.

For computed weights, other activations, limits, peepholes and sequences of several lengths, which
the operators with constant weights do not have. The products of the inputs of all steps are one
matrix product before the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.bodies import Body, closed
from edgec.ops.control import Scan, ScanAttrs
from edgec.ops.onnx_emit import emitted
from edgec.ops.op import RawNode

#: By operator, how many rows of weights a unit has, and the usual activations.
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
#: Names of the parameters that an activation has, with their defaults.
PARAMETERS: Mapping[str, Mapping[str, float]] = {
    "LeakyRelu": {"alpha": 0.01}, "ThresholdedRelu": {"alpha": 1.0}, "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5}, "Affine": {"alpha": 1.0, "beta": 0.0},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0}, "Sigmoid": {}, "Tanh": {}, "Relu": {},
    "Softsign": {}, "Softplus": {},
}  # fmt: skip

Function = Callable[[Value], Value]


@dataclass
class _Step:
    """The body, on the way: its builder, and the node's form."""

    builder: GraphBuilder
    name: str
    dtype: str
    functions: Sequence[Function] = ()

    def op(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        return emitted(self.builder, kind, inputs, f"{self.name}/{kind.lower()}", **attributes)

    def number(self, value: float) -> Value:
        return self.builder.constant(f"{self.name}.number", np.array(value, self.dtype))

    def part(self, value: Value, number: int, units: int) -> Value:
        """The columns of a gate."""
        ends = np.array([[number * units], [(number + 1) * units], [1]], np.int64)
        listed = (self.builder.constant(f"{self.name}.columns", end) for end in ends)
        return self.op("Slice", value, *listed)


def by_steps(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """One direction of a node: (Y [T, 1, N, U], Y_h [1, N, U]), of an LSTM also Y_c."""
    x, w, r = _operands(raw)
    bias, lengths, *states = (*raw.inputs[3:], *(None for _ in range(8)))[:5]
    (steps, batch, _), units = x.type.shape, r.type.shape[2]
    rows = GATES[raw.kind] * units
    outer = _Step(builder, raw.name, x.type.dtype)
    given = outer.op("MatMul", x, _turned(outer, w))
    fixed: dict[str, Value] = {"R": _turned(outer, r)}
    if bias is not None:
        given = outer.op("Add", given, _shaped(outer, outer.part(bias, 0, rows), rows))
        fixed["bias"] = _shaped(outer, outer.part(bias, 1, rows), rows)
    zeros = builder.constant(f"{raw.name}.start", np.zeros((batch, units), x.type.dtype))
    carried = [
        zeros if state is None else _shaped(outer, state, batch, units)
        for state in states[: 2 if raw.kind == "LSTM" else 1]
    ]
    if raw.kind == "LSTM" and states[2] is not None:
        fixed["P"] = _shaped(outer, states[2], 3 * units)
    scanned = [given]
    if lengths is not None:
        fixed["lengths"] = _shaped(outer, lengths, batch, 1)
        order = range(steps)[::-1] if raw.attribute("reversed", False) else range(steps)
        place = np.array(order, lengths.type.dtype).reshape(steps, 1, 1)
        scanned.append(builder.constant(f"{raw.name}.step", place))
    made = _scan(builder, raw, carried, scanned, fixed)
    return (
        _shaped(outer, made[-1], steps, 1, batch, units),
        *(_shaped(outer, state, 1, batch, units) for state in made[:-1]),
    )


def _operands(raw: RawNode) -> tuple[Value, Value, Value]:
    """The input and both weights. Raises ImportFailed where they do not fit."""
    x, w, r = (raw.operand(position) for position in range(3))
    if len(x.type.shape) != 3 or len(r.type.shape) != 3 or not x.type.elements:
        raise ImportFailed("the input and weights are not of rank 3")
    rows = GATES[raw.kind] * r.type.shape[2]
    if (w.type.shape, r.type.shape) != (
        (1, rows, x.type.shape[2]), (1, rows, r.type.shape[2]),
    ):  # fmt: skip
        raise ImportFailed(f"weights {w.type} and {r.type} for an input {x.type}")
    return x, w, r


def _scan(
    builder: GraphBuilder,
    raw: RawNode,
    carried: Sequence[Value],
    scanned: Sequence[Value],
    fixed: Mapping[str, Value],
) -> tuple[Value, ...]:
    """The states after the last step, and the outputs of all."""
    inner = GraphBuilder("step")
    states = [inner.param(f"state{number}", value.type) for number, value in enumerate(carried)]
    slices = [
        inner.param(f"now{number}", value.type.with_shape(value.type.shape[1:]))
        for number, value in enumerate(scanned)
    ]
    known: dict[str, Value] = {}
    outside: list[Value] = []
    for key, value in fixed.items():
        if isinstance(value, Constant):
            known[key] = inner.constant(key, value.data)
        else:
            known[key] = inner.param(key, value.type)
            outside.append(value)
    step = _Step(inner, raw.name, carried[0].type.dtype)
    step.functions = _functions(step, raw)
    after = _NEXT[raw.kind](step, raw, slices[0], states, known)
    shown = after[0]
    if "lengths" in known:
        runs = step.op("Less", slices[1], known["lengths"])
        after = [step.op("Where", runs, *pair) for pair in zip(after, states, strict=True)]
        shown = step.op("Where", runs, shown, step.number(0.0))
    _, bodies = closed([Body(inner, [*after, shown])])
    attrs = ScanAttrs(scanned[0].type.shape[0], len(carried), len(scanned))
    inputs = [*carried, *scanned, *outside]
    return builder.node(
        Scan, inputs, attrs, name=f"{raw.name}/steps", sources=(raw.name,), bodies=bodies
    ).outputs


def _functions(step: _Step, raw: RawNode) -> list[Function]:
    """The activations of a node, each limited first where the node says so."""
    kinds = raw.attribute("activations", None) or ACTIVATIONS[raw.kind]
    if len(kinds) != len(ACTIVATIONS[raw.kind]) or not {*kinds} <= {*PARAMETERS}:
        raise ImportFailed(f"activations {', '.join(kinds)}")
    given = {key: iter(raw.attribute(f"activation_{key}", None) or ()) for key in ("alpha", "beta")}
    clip = float(raw.attribute("clip", None) or 0.0)
    # The last one of an LSTM, of its cell, takes it as it is: so does ONNX Runtime.
    clips = (clip, clip, 0.0)
    return [_function(step, kind, given, most) for kind, most in zip(kinds, clips, strict=False)]


def _function(
    step: _Step, kind: str, given: Mapping[str, Iterator[float]], clip: float
) -> Function:
    values = {key: float(next(given[key], usual)) for key, usual in PARAMETERS[kind].items()}

    def scaled(value: Value, factor: float) -> Value:
        return step.op("Mul", value, step.number(factor))

    def function(x: Value) -> Value:
        if clip:
            x = step.op("Clip", x, step.number(-clip), step.number(clip))
        if kind == "Affine":
            return step.op("Add", scaled(x, values["alpha"]), step.number(values["beta"]))
        if kind == "ScaledTanh":
            return scaled(step.op("Tanh", scaled(x, values["beta"])), values["alpha"])
        return step.op(kind, x, **values)

    return function


def _next_rnn(
    step: _Step, raw: RawNode, given: Value, states: Sequence[Value], known: Mapping[str, Value]
) -> list[Value]:
    return [step.functions[0](step.op("Add", given, _product(step, states[0], known)))]


def _next_gru(
    step: _Step, raw: RawNode, given: Value, states: Sequence[Value], known: Mapping[str, Value]
) -> list[Value]:
    """Gates z, r and the new value; with `linear_before_reset` r scales the product."""
    (state,), (gate, new) = states, step.functions
    units = state.type.shape[1]
    own = _product(step, state, known)
    z, r = (
        gate(step.op("Add", step.part(given, n, units), step.part(own, n, units))) for n in (0, 1)
    )
    if raw.attribute("linear_before_reset", 0):
        last = step.op("Mul", r, step.part(own, 2, units))
    else:
        last = step.part(_product(step, step.op("Mul", r, state), known), 2, units)
    value = new(step.op("Add", step.part(given, 2, units), last))
    rest = step.op("Sub", step.number(1.0), z)
    return [step.op("Add", step.op("Mul", rest, value), step.op("Mul", z, state))]


def _next_lstm(
    step: _Step, raw: RawNode, given: Value, states: Sequence[Value], known: Mapping[str, Value]
) -> list[Value]:
    """Gates i, o, f and the new value; peepholes of i, o, f see the cell."""
    (state, cell), (gate, new, shown) = states, step.functions
    units = state.type.shape[1]
    sums = step.op("Add", given, _product(step, state, known))

    def seen(number: int, cell: Value) -> Value:
        total = step.part(sums, number, units)
        if "P" not in known:
            return total
        weights = step.op("Slice", known["P"], *_ends(step, number * units, units))
        return step.op("Add", total, step.op("Mul", weights, cell))

    i = gate(seen(0, cell))
    if raw.attribute("input_forget", 0):
        f = step.op("Sub", step.number(1.0), i)
    else:
        f = gate(seen(2, cell))
    value = new(step.part(sums, 3, units))
    after = step.op("Add", step.op("Mul", f, cell), step.op("Mul", i, value))
    return [step.op("Mul", gate(seen(1, after)), shown(after)), after]


_NEXT = {"LSTM": _next_lstm, "GRU": _next_gru, "RNN": _next_rnn}


def _product(step: _Step, state: Value, known: Mapping[str, Value]) -> Value:
    product = step.op("MatMul", state, known["R"])
    return step.op("Add", product, known["bias"]) if "bias" in known else product


def _ends(step: _Step, first: int, count: int) -> list[Value]:
    ends = ([first], [first + count])
    return [step.builder.constant(f"{step.name}.rows", np.array(end, np.int64)) for end in ends]


def _shaped(step: _Step, value: Value, *shape: int) -> Value:
    if isinstance(value, Constant):
        return step.builder.constant(f"{step.name}.constant", value.data.reshape(shape))
    listed = step.builder.constant(f"{step.name}.shape", np.array(shape, np.int64))
    return step.op("Reshape", value, listed)


def _turned(step: _Step, weights: Value) -> Value:
    """Weights [1, rows, inputs] as [inputs, rows]."""
    _, rows, inputs = weights.type.shape
    flat = _shaped(step, weights, rows, inputs)
    if isinstance(flat, Constant):
        return step.builder.constant(f"{step.name}.weights", np.ascontiguousarray(flat.data.T))
    return step.op("Transpose", flat, perm=(1, 0))
