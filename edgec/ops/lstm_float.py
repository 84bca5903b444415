"""ONNX's LSTM over floats, step by step as dense, logistic, tanh, mul and add.

i, o, f, c~ = the four quarters of x W^T + h R^T + b, through logistic, logistic, logistic, tanh
c' = f * c + i * c~          h' = o * tanh(c')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.op import RawNode, from_onnx
from edgec.ops.add import AddAttrs
from edgec.ops.concat import ConcatAttrs
from edgec.ops.logistic import LogisticAttrs
from edgec.ops.mul import MulAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import SliceAttrs
from edgec.ops.tanh import TanhAttrs

#: Longer sequences would make too much code: every step has nodes of its own.
MOST_STEPS = 16


class _Steps:
    """Appends nodes that are named after the LSTM."""

    def __init__(self, builder: GraphBuilder, raw: RawNode) -> None:
        self.builder = builder
        self.raw = raw

    def op(self, op: str, inputs: Sequence[Value], attrs: Any = None) -> Value:
        name = f"{self.raw.name}/{op}"
        return self.builder.op(op, inputs, attrs, name=name, sources=(self.raw.name,))

    def constant(self, name: str, data: Any) -> Constant:
        return self.builder.constant(f"{self.raw.name}.{name}", np.ascontiguousarray(data))

    def part(self, x: Value, axis: int, start: int, extent: int) -> Value:
        """`extent` elements along an axis."""
        begin, shape = [0] * len(x.type.shape), list(x.type.shape)
        begin[axis], shape[axis] = start, extent
        attrs = SliceAttrs(tuple(begin), (1,) * len(begin), tuple(shape))
        return self.op("slice", [x], attrs)

    def reshaped(self, x: Value, *shape: int) -> Value:
        return self.op("reshape", [x], ReshapeAttrs(shape))

    def step(
        self, x: Value, h: Value | None, c: Value | None, weights: Sequence[Constant]
    ) -> tuple[Value, Value]:
        """(h', c') of one step; x [B, I], h and c [B, H] or None for zeros."""
        of_input, of_state, bias, zeros = weights
        size = of_state.type.shape[1]
        gates = self.op("dense", [x, of_input, bias])
        if h is not None:
            gates = self.op("add", [gates, self.op("dense", [h, of_state, zeros])], AddAttrs())
        i, o, f, new = (self.part(gates, 1, number * size, size) for number in range(4))
        i, o, f = (self.op("logistic", [gate], LogisticAttrs()) for gate in (i, o, f))
        fresh = self.op("mul", [i, self.op("tanh", [new], TanhAttrs())], MulAttrs())
        if c is not None:
            fresh = self.op("add", [self.op("mul", [f, c], MulAttrs()), fresh], AddAttrs())
        c = fresh
        return self.op("mul", [o, self.op("tanh", [c], TanhAttrs())], MulAttrs()), c


@from_onnx("LSTM", since=7)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX LSTM, forward, with its default activations: (Y, Y_h, Y_c)."""
    inputs = (*raw.inputs, *(None for _ in range(8 - len(raw.inputs))))
    x, w, r, b, lengths, h, c, peephole = inputs
    if lengths is not None or peephole is not None or raw.attribute("layout", 0):
        raise ImportFailed("sequence lengths, peepholes and batch-first layout are not supported")
    if raw.attribute("direction", "forward") != "forward" or raw.attribute("clip", None):
        raise ImportFailed("only the direction forward without clip is supported")
    kinds = raw.attribute("activations", None)
    if kinds is not None and tuple(kinds) != ("Sigmoid", "Tanh", "Tanh"):
        raise ImportFailed(f"activations {kinds}")
    if raw.attribute("input_forget", 0):
        raise ImportFailed("coupled gates are not supported")
    known = [value for value in (w, r, b) if value is not None]
    if w is None or r is None or not all(isinstance(value, Constant) for value in known):
        raise ImportFailed("the weights must be constants")
    steps, batch, depth = x.type.shape
    if steps > MOST_STEPS:
        raise ImportFailed(f"{steps} steps: at most {MOST_STEPS} are supported")
    size = r.type.shape[2]
    if w.type.shape != (1, 4 * size, depth) or r.type.shape != (1, 4 * size, size):
        raise ImportFailed(f"weights {list(w.type.shape)} and {list(r.type.shape)}")
    offsets = np.zeros((2, 4 * size), np.float32) if b is None else b.data.reshape(2, 4 * size)
    make = _Steps(builder, raw)
    weights = (
        make.constant("W", w.data[0]),
        make.constant("R", r.data[0]),
        make.constant("B", offsets.sum(axis=0, dtype=np.float32)),
        make.constant("zeros", np.zeros(4 * size, np.float32)),
    )
    hidden, cell = (
        None if value is None else make.reshaped(value, batch, size) for value in (h, c)
    )
    outputs = []
    for number in range(steps):
        row = make.reshaped(make.part(x, 0, number, 1), batch, depth)
        hidden, cell = make.step(row, hidden, cell, weights)
        outputs.append(make.reshaped(hidden, 1, 1, batch, size))
    assert hidden is not None and cell is not None  # there is at least one step
    y = outputs[0] if steps == 1 else make.op("concat", outputs, ConcatAttrs(0))
    return y, make.reshaped(hidden, 1, batch, size), make.reshaped(cell, 1, batch, size)
