"""Turn a float LSTM between dequantized operands and a quantize into the integer LSTM.

The integers equal TFLite Micro's LSTM: sequence and hidden state in int8 or int16 with one
quantization, cells in int16 with a scale of a power of two, weights in int8 with one scale for each
gate and no zero point, and biases in int32, in the input's scale times the weights' scale. LSTMs
with other parameters stay in float.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import get_op
from edgec.graph.traits import IntegerForm, Movement
from edgec.ops.lstm import GATE_SCALE, Lstm, LstmAttrs
from edgec.ops.lstm_gates import GATES
from edgec.ops.reshape import Reshape, ReshapeAttrs
from edgec.passes.rewriter import Rewriter

Factors = tuple[float, float, float, float]


def recurrent_source(rewriter: Rewriter, value: Value) -> Node | None:
    """The float LSTM or GRU whose sequence a value is, but for its shape; else None."""
    above = rewriter.producer(value)
    while above is not None and above.op.movement is Movement.RESHAPE:
        value = above.inputs[0]
        above = rewriter.producer(value)
    if above is None or above.integer_form is not IntegerForm.RECURRENT:
        return None
    return above if value is above.outputs[0] else None


def fused_lstm(
    rewriter: Rewriter, above: Node, integers: Sequence[Value | None], node: Node
) -> Value | None:
    """The integer LSTM's sequence; None where the parameters do not allow it.

    above: the float LSTM. integers: the inputs of its operands' dequantize nodes. node: the
    quantize after its sequence.
    """
    operands = [value for value in integers if value is not None]
    quant = node.attrs.output
    if len(operands) != len(above.inputs):
        return None
    x, hidden, cell, weights, recurrent, bias = operands
    if not quant.per_tensor or hidden.type.quant != quant or above.inputs[1].type.shape[0] != 1:
        return None
    if x.type.dtype != node.attrs.dtype or x.type.quant is None or not x.type.quant.per_tensor:
        return None
    (x_scale,) = x.type.quant.scale
    given, own = _gate_scales(weights), _gate_scales(recurrent)
    if given is None or own is None or not _is_sum(bias, x_scale, weights):
        return None
    if cell.type.quant is None or not cell.type.quant.per_tensor:
        return None
    clip = min(above.attrs.clip / cell.type.scalar_quant()[0], 32767.0)
    attrs = LstmAttrs(
        given=_factors(x_scale, given),
        recurrent=_factors(quant.scale[0], own),
        hidden=quant,
        clip=int(clip),
        time_major=True,
    )
    builder = rewriter.builder
    steps, _, depth = x.type.shape
    types = (hidden.type, cell.type, weights.type, recurrent.type, bias.type)
    try:
        get_op(Lstm).infer(attrs, x.type.with_shape((steps, depth)), *types)
    except TypeMismatch:
        return None
    flat = builder.op(
        Reshape, [x], ReshapeAttrs((steps, depth)), name=f"{above.name}/flat", sources=()
    )
    names = [f"{above.outputs[0].name}.q", f"{above.name}.hidden", f"{above.name}.cell"]
    made = builder.node(
        Lstm, [flat, hidden, cell, weights, recurrent, bias], attrs, name=above.name,
        output_names=names, sources=above.sources,
    )  # fmt: skip
    (sequence,) = rewriter.remake(
        node, made.outputs[:1], ReshapeAttrs(node.output.type.shape), op=Reshape,
        name=f"{above.name}/sequence", sources=(),
    )  # fmt: skip
    return sequence


def _gate_scales(weights: Value) -> Factors | None:
    """The scale of each gate of constant int8 weights; None where a gate has several."""
    quant = weights.type.quant
    if not isinstance(weights, Constant) or weights.type.dtype != "int8" or quant is None:
        return None
    if any(quant.zero_point) or (not quant.per_tensor and quant.axis != 0):
        return None
    if quant.per_tensor:
        (scale,) = quant.scale
        return scale, scale, scale, scale
    rows = np.asarray(quant.scale, np.float64).reshape(GATES, -1)
    if np.any(rows != rows[:, :1]):
        return None
    i, f, g, o = rows[:, 0]
    return float(i), float(f), float(g), float(o)


def _factors(x_scale: float, scales: Factors) -> Factors:
    """Real factors of products to gates, each a float32 product as in TFLite."""
    i, f, g, o = (float(np.float32(x_scale) * np.float32(s)) / GATE_SCALE for s in scales)
    return i, f, g, o


def _is_sum(bias: Value, x_scale: float, weights: Value) -> bool:
    """Whether a bias is stored in the scale of the products that it is added to."""
    quant, factors = bias.type.quant, weights.type.quant
    if not isinstance(bias, Constant) or bias.type.dtype != "int32" or quant is None:
        return False
    if factors is None or any(quant.zero_point):
        return False
    wanted = np.float32(x_scale) * np.asarray(factors.scale, np.float32)
    return bool(np.all(np.asarray(quant.scale, np.float32) == wanted))
