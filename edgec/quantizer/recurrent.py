"""Which LSTMs and GRUs have an integer form, and how their operands are stored.

Of a GRU weights alone are stored, in int8 with a scale for each row. LSTMs are TFLite's, of int8 or
int16.

Weights are int8 with one scale for each gate and biases int32, as any product's. The hidden state
is stored as the sequence is. Cells are int16 with a scale of a power of two, so that a forgotten
part of a cell is a shift of it; gates saturate at +-8 by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from edgec.graph.ir import Constant, Node, Value
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Array, Quant

GATES = 4
#: Largest and smallest binary exponent of a cell's scale that the integer LSTM takes.
MOST_CELL_EXPONENT, LEAST_CELL_EXPONENT = -1, -15
#: Factor by which the range of cells exceeds the calibrated one.
CELL_ROOM = 1.25
#: The largest stored bias, and the smallest scale: see `edgec.quantizer.scheme`.
MOST_BIAS, LEAST_SCALE = 2.0**30, 2.0**-40

Form = tuple[Quant, str]


def has_recurrent_form(node: Node, read: Collection[Value]) -> bool:
    """Whether a node is a float LSTM or GRU that has an integer form.

    read: all values of its function that something reads. The last hidden state and cell must not
    be among them: `edgec.quantizer.prepare` takes the state from the sequence where it can.
    """
    if node.integer_form is not IntegerForm.RECURRENT:
        return False
    hidden = node.inputs[1]
    return (
        hidden.type.shape[0] == 1
        and not isinstance(node.inputs[0], Constant)
        and all(isinstance(value, Constant) for value in node.inputs[1:])
        and len(set(node.inputs)) == len(node.inputs)
        and not any(value in read for value in node.outputs[1:])
    )


def cells_of(node: Node, x: Array) -> Array:
    """The cells of all steps, [T, N, U], of an LSTM with constant states on its input [T, N, K].

    Not in the order of the generated code: results differ in last bits.
    """
    hidden, cell, weights, recurrent, bias = (
        value.data for value in node.inputs[1:] if isinstance(value, Constant)
    )
    clip = node.attrs.clip or math.inf
    found = np.empty((len(x), *cell.shape), np.float32)
    given = x @ weights.T + bias
    for step, now in enumerate(given):
        i, f, g, o = np.split(now + hidden @ recurrent.T, GATES, axis=-1)
        cell = np.clip(_logistic(f) * cell + _logistic(i) * np.tanh(g), -clip, clip)
        hidden = _logistic(o) * np.tanh(cell)
        found[step] = cell
    return found


def _logistic(values: Array) -> Array:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * values))


def operand_forms(node: Node, x_scale: float, y: Form, largest_cell: float) -> dict[Value, Form]:
    """Quantization and dtype of each constant of an LSTM.

    x_scale: of its input. y: of the sequence it makes. largest_cell: magnitude that was seen.
    """
    _, hidden, cell, weights, recurrent, bias = node.inputs
    units = hidden.type.shape[1]
    least = np.abs(_gates(bias)).max(axis=1) / (x_scale * MOST_BIAS)
    given = _gate_quant(_gates(weights), units, least)
    sums = np.float32(x_scale) * np.asarray(given.scale, np.float32)
    return {
        hidden: y,
        cell: (cell_quant(largest_cell, node.attrs.clip), "int16"),
        weights: (given, "int8"),
        recurrent: (_gate_quant(_gates(recurrent), units, np.zeros(GATES)), "int8"),
        bias: (Quant(tuple(map(float, sums)), (0,) * len(sums), 0), "int32"),
    }


def stored_operands(node: Node) -> tuple[Value, ...]:
    """The constants that are stored in integers."""
    return node.inputs[1:] if node.outputs[2:] else node.inputs[2:4]


def gru_forms(node: Node, x_scale: float, y_scale: float) -> dict[Value, Form]:
    """Quantization and dtype of a GRU's weights. x_scale, y_scale: of its input and sequence."""
    *_, weights, recurrent, bias, own = node.inputs
    return {
        value: (_row_quant(value, np.abs(added.data) / (scale * MOST_BIAS)), "int8")
        for value, added, scale in ((weights, bias, x_scale), (recurrent, own, y_scale))
        if isinstance(added, Constant)
    }


def _row_quant(rows: Value, least: Array) -> Quant:
    """Symmetric in int8 with a scale for each row, `least` or more."""
    assert isinstance(rows, Constant)
    return _gate_quant(rows.data, 1, least)


def cell_quant(largest: float, limit: float = 0.0) -> Quant:
    """A power of two that holds magnitudes up to `largest`, with some room.

    limit: of the float cells, 0 for none. The range that int16 has is limit enough, so it is the
    one nearest to that limit if cells come near it: ONNX knows no limit of cells.
    """
    exponent = math.ceil(math.log2(max(largest * CELL_ROOM, 2.0**-30) / 32768))
    if limit:
        exponent = min(exponent, round(math.log2(limit / 32768)))
    exponent = min(max(exponent, LEAST_CELL_EXPONENT), MOST_CELL_EXPONENT)
    return Quant((2.0**exponent,), (0,))


def store(data: Array, form: Form) -> Array:
    """Constant data as integers."""
    quant, dtype = form
    shape = [-1 if axis == quant.axis else 1 for axis in range(data.ndim)]
    scale = np.asarray(quant.scale, np.float64).reshape(shape)
    zero_point = np.asarray(quant.zero_point, np.int64).reshape(shape)
    info = np.iinfo(dtype)
    stored = np.rint(data.astype(np.float64) / scale) + zero_point
    return np.clip(stored, info.min, info.max).astype(dtype)


def _gates(value: Value) -> Array:
    """[gates, numbers of a gate]."""
    assert isinstance(value, Constant)
    return value.data.reshape(GATES, -1).astype(np.float64)


def _gate_quant(gates: Array, units: int, least: Array) -> Quant:
    """Symmetric in int8: one scale for all rows of a gate, `least` or more, for each row."""
    largest = np.abs(gates).max(axis=1)
    largest = np.where(largest > 0, largest, largest.max() or 1.0)
    scales = np.maximum(largest / 127, np.maximum(least, LEAST_SCALE)).astype(np.float32)
    each = tuple(float(scale) for scale in scales for _ in range(units))
    return Quant(each, (0,) * len(each), 0)
