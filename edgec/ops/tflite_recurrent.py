"""TFLite's recurrent operators of floats: RNN and LSTM, of one step or a sequence, both ways.

Their states are variables of the file. Weights may be int8: TFLite's hybrid kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.add import AddAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.logistic import LogisticAttrs
from edgec.ops.lstm_cell import LstmCell, cell_of
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.parts import Parts
from edgec.ops.slice import sliced
from edgec.ops.steps import Step, activated, added, in_steps, product, run_steps, scaled, turned
from edgec.ops.tanh import TanhAttrs


def _floats(raw: RawNode, position: int, rank: int) -> Value:
    x = raw.operand(position)
    if x.type.dtype != "float32" or len(x.type.shape) != rank:
        raise ImportFailed(f"{x.type}: only float32 of rank {rank} is supported")
    return x


def _rnn_step(raw: RawNode, first: int, aux: int | None = None) -> Step:
    """The step of an RNN whose weights, recurrent weights and bias begin at a position."""
    w, r, b = (raw.optional(first + n) for n in range(3))
    taps = None if aux is None else raw.optional(aux)
    kind = str(raw.attribute("fused_activation", "NONE"))

    def step(
        parts: Parts, states: Sequence[Value], inputs: Sequence[Value]
    ) -> tuple[list[Value], Value]:
        total = product(parts, inputs[0], w, b, "given")
        if taps is not None:
            total = added(parts, total, product(parts, inputs[1], taps, None, "aux"), "both")
        own = product(parts, states[0], r, None, "own")
        hidden = activated(parts, kind, added(parts, total, own, "sum"), "hidden")
        return [hidden], hidden

    return step


@from_tflite("RNN")
def import_rnn(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite RNN: one step."""
    x, parts = _floats(raw, 0, 2), Parts(builder, raw)
    hidden = raw.operand(4)
    (after,), y = _rnn_step(raw, 1)(parts, [hidden], [x])
    builder.become(hidden, after)
    return parts.last(y)


@from_tflite("UNIDIRECTIONAL_SEQUENCE_RNN")
def import_sequence_rnn(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite UNIDIRECTIONAL_SEQUENCE_RNN."""
    return _one_way(builder, raw, [raw.operand(4)], _rnn_step(raw, 1))


def _one_way(builder: GraphBuilder, raw: RawNode, states: Sequence[Value], step: Step) -> Value:
    parts, is_first = Parts(builder, raw), bool(raw.attribute("time_major", False))
    x = in_steps(parts, _floats(raw, 0, 3), is_first, "steps")
    y = run_steps(parts, raw, states, [x], step)
    return parts.last(in_steps(parts, y, is_first, "samples"))


def append_cell(builder: GraphBuilder, raw: RawNode, states: Sequence[Value]) -> Value:
    """TFLite UNIDIRECTIONAL_SEQUENCE_LSTM of floats in any form."""
    return _one_way(builder, raw, states, cell_of(raw, 1, norms=20).step)


def _both_ways(
    builder: GraphBuilder, raw: RawNode, states: tuple[list[Value], list[Value]],
    steps: tuple[Step, Step], aux: int, has_links: bool,
) -> tuple[Value, ...]:  # fmt: skip
    """Forwards and backwards, joined if the node says so.

    aux: position of the second input. With links both directions see it beside the first one; else
    the backward direction sees it alone.
    """
    parts, is_first = Parts(builder, raw), bool(raw.attribute("time_major", False))
    x = in_steps(parts, _floats(raw, 0, 3), is_first, "steps")
    inputs, others = [x], [x]
    if raw.optional(aux) is not None:
        second = in_steps(parts, _floats(raw, aux, 3), is_first, "second_steps")
        inputs, others = ([x, second], [x, second]) if has_links else ([x], [second])
    forward = run_steps(parts, raw, states[0], inputs, steps[0], "forward")
    back = [turned(parts, value, f"turned{n}") for n, value in enumerate(others)]
    backward = run_steps(parts, raw, states[1], back, steps[1], "backward")
    backward = turned(parts, backward, "turned_back")
    made = [in_steps(parts, y, is_first, f"samples{n}") for n, y in enumerate((forward, backward))]
    if raw.attribute("merge_outputs", False):
        return (parts.op("concat", made, ConcatAttrs(2)),)
    return tuple(parts.last(y) for y in made)


@from_tflite("BIDIRECTIONAL_SEQUENCE_RNN")
def import_two_rnns(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite BIDIRECTIONAL_SEQUENCE_RNN, with or without a second input."""
    has_links = raw.optional(10) is not None
    steps = tuple(_rnn_step(raw, first, aux) for first, aux in ((1, 10), (5, 11)))
    states = ([raw.operand(4)], [raw.operand(8)])
    if not (has_links or raw.attribute("time_major", False)):
        # Source: EvalFloat of LiteRT's kernel, which does not read the second input then.
        raw = replace(raw, inputs=raw.inputs[:9])
    return _both_ways(builder, raw, states, (steps[0], steps[1]), 9, has_links)


@from_tflite("BIDIRECTIONAL_SEQUENCE_LSTM")
def import_two_lstms(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite BIDIRECTIONAL_SEQUENCE_LSTM, with or without a second input."""
    has_links = raw.optional(41) is not None
    cells = (cell_of(raw, 1, aux=40), cell_of(raw, 18, aux=44))
    states = ([raw.operand(35), raw.operand(36)], [raw.operand(37), raw.operand(38)])
    return _both_ways(builder, raw, states, (cells[0].step, cells[1].step), 39, has_links)


@from_tflite("LSTM")
def import_lstm(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """TFLite LSTM: one step of floats, by the full or the basic kernel."""
    x, parts = _floats(raw, 0, 2), Parts(builder, raw)
    if raw.attribute("kernel_type", "FULL") == "BASIC":
        return _basic(parts, raw, x)
    states = [raw.operand(18), raw.operand(19)]
    cell: LstmCell = cell_of(raw, 1, norms=20)
    after, y = cell.step(parts, states, [x])
    for before, value in zip(states, after, strict=True):
        builder.become(before, value)
    return (parts.last(y),)


def _basic(parts: Parts, raw: RawNode, x: Value) -> tuple[Value, ...]:
    """Outputs: hidden, cell, both inputs joined, and the gates' sums, in the order i, g, f, o.

    Source: LstmCell in TFLite's reference_ops.h.
    """
    hidden, weights, bias, cell = (raw.operand(n) for n in range(1, 5))
    both = parts.op("concat", [x, hidden], ConcatAttrs(1), "both")
    sums = product(parts, both, weights, bias, "sums")
    batch, units = cell.type.shape

    def part(number: int, function: str) -> Value:
        ranges = [(0, 1, batch), (number * units, 1, units)]
        one = sliced(parts.builder, sums, ranges, f"{raw.name}/sum{number}", (raw.name,))
        attrs = TanhAttrs() if function == "tanh" else LogisticAttrs()
        return parts.op(function, [one], attrs, f"gate{number}")

    i, g, f, o = (part(n, "tanh" if n == 1 else "logistic") for n in range(4))
    gained, kept = scaled(parts, i, g, "gained"), scaled(parts, f, cell, "kept")
    new_cell = parts.op("add", [gained, kept], AddAttrs(), "cell")
    shown = parts.op("tanh", [new_cell], TanhAttrs(), "shown")
    new_hidden = scaled(parts, o, shown, "hidden")
    parts.builder.become(hidden, new_hidden)
    parts.builder.become(cell, new_cell)
    return tuple(parts.last(value) for value in (new_hidden, new_cell, both, sums))
