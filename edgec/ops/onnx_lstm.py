"""How a float LSTM, and one between quantized operands, is written as ONNX."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.ir import Node, Value
from edgec.graph.types import Array
from edgec.ops.lstm_gates import GATES
from edgec.ops.onnx_graph import OnnxGraph


def write_lstm(out: OnnxGraph, node: Node) -> None:
    """ONNX's gates lie in the order i, o, f, g, and everything has an axis of directions."""
    if node.attrs.clip:
        raise ImportFailed(
            f"{node.name}: cells with a limit cannot be written as ONNX in float",
            hint="int8 values have it in the range of their cells: --activations int8",
        )
    x, hidden, cell, weights, recurrent, bias = node.inputs
    steps, batch, units = node.outputs[0].type.shape

    def by_gate(data: Array) -> Array:
        return _in_onnx_order(data)[np.newaxis]

    def with_no_own(data: Array) -> Array:
        """The second half is added to the recurrent product."""
        gates = by_gate(data)
        return np.concatenate([gates, np.zeros_like(gates)], axis=1)

    operands = [
        out.own(x),
        _gates(out, weights, by_gate, 1),
        _gates(out, recurrent, by_gate, 1),
        _gates(out, bias, with_no_own, 2),
        "",
        *(written_state(out, state) for state in (hidden, cell)),
    ]
    y = node.outputs[0]
    found = [out.fresh(f"{value.name}.directions") for value in node.outputs]
    out.emit_several("LSTM", operands, found, hidden_size=units)
    shape = (steps, batch, units)
    for value, name in zip(node.outputs, found, strict=True):
        extents = shape if value is y else (batch, units)
        listed = out.initializer(f"{value.name}.shape", np.asarray(extents, np.int64))
        out.emit("Reshape", [name, listed], out.define_own(value))


def _gates(out: OnnxGraph, value: Value, change: Callable[[Array], Array], copies: int) -> str:
    """A constant by gates; its scales go where its rows go, `copies` times."""
    return out.operand(value, change, 1, lambda row: np.tile(_in_onnx_order(row), copies))


def _in_onnx_order(rows: Array) -> Array:
    i, f, g, o = np.split(rows, GATES)
    return np.concatenate([i, o, f, g])


def written_state(out: OnnxGraph, value: Value) -> str:
    """A state with an axis of directions."""
    if out.constant_of(value) is not None:
        return out.operand(value, lambda data: data[np.newaxis], 0)
    shape = out.initializer(f"{value.name}.shape", np.asarray((1, *value.type.shape), np.int64))
    name = out.fresh(f"{value.name}.directions")
    out.emit("Reshape", [out.own(value), shape], name)
    return name
