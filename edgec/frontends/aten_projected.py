"""torch's LSTM with a projection of the hidden state (`proj_size`), which ONNX lacks: a scan.

    i, f, g, o = x W^T + hidden R^T + biases
    cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
    hidden = (sigmoid(o) * tanh(cell)) P^T

Source: the documentation of torch.nn.LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edgec.errors import ImportFailed
from edgec.frontends.aten import Call, Result, ints
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Array
from edgec.ops.control import Scan, ScanAttrs


@dataclass(frozen=True)
class Layers:
    """The arguments of torch's recurrent operators after their weights."""

    has_biases: bool
    count: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool

    @property
    def directions(self) -> int:
        """One way, or both."""
        return 2 if self.bidirectional else 1


def projected_lstm(
    call: Call, x: Value, states: Sequence[Value], weights: Sequence[Value], form: Layers
) -> Result:
    """All layers and directions; then the last hidden states and cells."""
    arrays = [value.data for value in weights if isinstance(value, Constant)]
    if len(arrays) != len(weights):
        raise ImportFailed("weights that are computed are not supported")
    each = len(weights) // (form.count * form.directions)
    sequence = call.onnx("Transpose", x, perm=(1, 0, 2)) if form.batch_first else x
    ends: list[tuple[Value, Value]] = []
    for _ in range(form.count):
        made: list[Value] = []
        for direction in range(form.directions):
            number = len(ends)
            first = [_row(call, state, number) for state in states]
            given = _turned(call, sequence) if direction else sequence
            own = arrays[number * each : (number + 1) * each]
            hidden, cell, y = _scan(call, given, first, own, number)
            made.append(_turned(call, y) if direction else y)
            ends.append((hidden, cell))
        sequence = made[0] if len(made) == 1 else call.onnx("Concat", *made, axis=2)
    result = call.onnx("Transpose", sequence, perm=(1, 0, 2)) if form.batch_first else sequence
    last = (
        call.onnx("Concat", *(call.shaped(e, (1, *e.type.shape)) for e in same), axis=0)
        for same in zip(*ends, strict=True)
    )
    return (result, *last)


def _scan(
    call: Call, x: Value, states: Sequence[Value], arrays: Sequence[Array], number: int
) -> Sequence[Value]:
    """The last hidden state and cell, and all hidden states [steps, batch, size]."""
    w, r, *biases, p = arrays
    inner = GraphBuilder(f"{call.name}_step{number}")
    hidden, cell = (inner.param(f"state{n}", state.type) for n, state in enumerate(states))
    now = inner.param("x", x.type.with_shape(x.type.shape[1:]))
    step = replace(call, builder=inner)
    given = step.onnx("Gemm", now, w, *([sum(biases)] if biases else []), transB=1)
    sums = step.onnx("Add", given, step.onnx("Gemm", hidden, r, transB=1))
    i, f, g, o = step.onnx_all("Split", sums, ints([len(w) // 4] * 4), results=4, axis=1)
    kept = step.onnx("Mul", step.onnx("Sigmoid", f), cell)
    gained = step.onnx("Mul", step.onnx("Sigmoid", i), step.onnx("Tanh", g))
    after = step.onnx("Add", kept, gained)
    shown = step.onnx("Mul", step.onnx("Sigmoid", o), step.onnx("Tanh", after))
    y = step.onnx("Gemm", shown, p, transB=1)
    name = f"{call.name}.layer{number}"
    return call.builder.node(
        Scan, [*states, x], ScanAttrs(x.type.shape[0], len(states), 1), name=name,
        bodies=(inner.finish([y, after, y]),), sources=(call.name,),
        output_names=[f"{name}.hidden", f"{name}.cell", f"{name}.steps"],
    ).outputs  # fmt: skip


def _row(call: Call, state: Value, number: int) -> Value:
    """The state of one layer and direction: [batch, size]."""
    one = call.onnx("Slice", state, ints([number]), ints([number + 1]), ints([0]))
    return call.shaped(one, state.type.shape[1:])


def _turned(call: Call, x: Value) -> Value:
    """A sequence from its last step on."""
    return call.onnx("Slice", x, ints([-1]), ints([-x.type.shape[0] - 1]), ints([0]), ints([-1]))
