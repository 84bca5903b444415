"""lstm_float: the recurrence of a long short-term memory over a sequence, in floats.

For every step t, with gates i, f, g, o (input, forget, cell, output), each of U units:

    gates = (x[t] W^T + bias) + hidden R^T
    cell = logistic(f) * cell + logistic(i) * tanh(g)
    hidden = logistic(o) * tanh(cell)
    y[t] = hidden
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Array, Arrays, Quant, TensorType, Types
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics import float_math
from edgec.numerics.ordered_sum import ordered_products, without_negative_zeros
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.onnx_lstm import write_lstm
from edgec.ops.onnx_recurrent import one_direction
from edgec.ops.onnx_recurrent_steps import by_steps
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import TransposeAttrs

GATES = 4


@dataclass(frozen=True)
class LstmFloatAttrs:
    """clip: limit of a cell's magnitude, 0 for none."""

    clip: float = 0.0


@register
class LstmFloat(Op[LstmFloatAttrs]):
    """x [T, N, K], hidden [N, U], cell [N, U], weights [4U, K] and [4U, U], bias [4U], all float32
    -> y [T, N, U], the next hidden and cell.

    Gates lie one after the other in the order i, f, g, o. Each of the two products is a sum in
    the order of its inputs, the first from the bias on.
    """

    name = "lstm_float"
    attrs_class = LstmFloatAttrs
    constant_inputs = (3, 4, 5)
    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    integer_form = IntegerForm.RECURRENT

    @property
    def weight_inputs(self) -> tuple[int, ...]:
        """The weights of the sequence and of the hidden state."""
        return (3, 4)

    def infer(self, attrs: LstmFloatAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Types of the sequence and of both states."""
        x, hidden, cell, weights, recurrent, bias = inputs
        if len(x.shape) != 3 or len(hidden.shape) != 2 or attrs.clip < 0:
            raise TypeMismatch(f"lstm_float of {x} and {hidden}, clipped at {attrs.clip}")
        (steps, batch, depth), units = x.shape, hidden.shape[1]
        wanted = (
            (batch, units),
            (batch, units),
            (GATES * units, depth),
            (GATES * units, units),
            (GATES * units,),
        )
        shapes = tuple(type_.shape for type_ in (hidden, cell, weights, recurrent, bias))
        if shapes != wanted or any(type_.dtype != "float32" for type_ in inputs):
            raise TypeMismatch(f"lstm_float of {', '.join(map(str, inputs))}")
        return TensorType((steps, batch, units), "float32"), hidden, cell

    def evaluate(
        self, attrs: LstmFloatAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """Step by step, in the order of the generated C."""
        x, hidden, cell, weights, recurrent, bias = inputs
        zeros = np.zeros_like(bias)
        y = np.empty(output_types[0].shape, np.float32)
        with np.errstate(all="ignore"):
            for step, now in enumerate(x):
                given = ordered_products(now, weights, bias)
                gates = given + ordered_products(hidden, recurrent, zeros)
                i, f, g, o = np.split(gates, GATES, axis=1)
                kept = float_math.sigmoid(f) * cell
                cell = kept + float_math.sigmoid(i) * float_math.tanh(g)
                if attrs.clip:
                    low, high = np.float32(-attrs.clip), np.float32(attrs.clip)
                    cell = float_math.float_minimum(float_math.float_maximum(cell, low), high)
                hidden = float_math.sigmoid(o) * float_math.tanh(cell)
                y[step] = hidden
        return y, hidden, cell

    def scale(self, attrs: LstmFloatAttrs, *scales: float) -> float:
        """One: the error of ONNX Runtime's logistic function stays absolute near 0."""
        return 1.0

    def macs(self, attrs: LstmFloatAttrs, inputs: Types) -> int:
        """The products of all weights, in each step."""
        steps, batch, _ = inputs[0].shape
        return steps * batch * (inputs[3].elements + inputs[4].elements)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A loop over the time steps that updates the states in place."""
        attrs: LstmFloatAttrs = node.attrs
        x = tensor_of(inputs[0], target)
        hidden, cell = (
            target.table("start", state.data) if isinstance(state, Constant) else state
            for state in inputs[1:3]
        )
        y, next_hidden, next_cell = target.targets
        steps, batch, depth = x.shape
        units = hidden.shape[1]
        weights, recurrent = (
            _by_unit(target, "w", constant_of(operand).data) for operand in inputs[3:5]
        )
        offsets = without_negative_zeros(constant_of(inputs[5]).data).reshape(GATES, units)
        bias = target.table("bias", np.ascontiguousarray(offsets.T))
        define = target.definition

        def logistic(value: Any) -> Any:
            return loops.intrinsic("sigmoid_f32", value)

        def tanh(value: Any) -> Any:
            return loops.intrinsic("tanh_f32", value)

        def new_cell(t: Any, n: Any, c: Any) -> Any:
            kept = logistic(gates[n, c, 1]) * next_cell[n, c]
            value = kept + logistic(gates[n, c, 0]) * tanh(gates[n, c, 2])
            if attrs.clip:
                limit = float(np.float32(attrs.clip))
                value = loops.minimum(loops.maximum(value, -limit), limit)
            return value

        define.compute(next_hidden, lambda n, c: hidden[n, c], name="start_hidden")
        define.compute(next_cell, lambda n, c: cell[n, c], name="start_cell")
        with define.steps("steps", steps):
            if (
                steps > 1
            ):  # a copy of this step's inputs, so that the sums do not depend on the step
                now = define.compute(
                    "now", lambda t, n, k: x[t, n, k], shape=(batch, depth), dtype="float32"
                )
            shape = (batch, units, GATES)
            given = define.reduce(
                "given",
                [("k", 0, depth)],
                init=lambda t, n, c, g: bias[c, g],
                update=lambda acc, t, n, c, g, k: (
                    acc + (now[n, k] if steps > 1 else x[0, n, k]) * weights[c, k, g]
                ),
                shape=shape,
                dtype="float32",
            )
            own = define.reduce(
                "own",
                [("k", 0, units)],
                init=lambda t, n, c, g: 0.0,
                update=lambda acc, t, n, c, g, k: acc + next_hidden[n, k] * recurrent[c, k, g],
                shape=shape,
                dtype="float32",
            )
            gates = define.compute(
                "gates",
                lambda t, n, c, g: given[n, c, g] + own[n, c, g],
                shape=shape,
                dtype="float32",
            )
            define.compute(next_cell, new_cell, name="cell")
            define.compute(
                next_hidden,
                lambda t, n, c: logistic(gates[n, c, 3]) * tanh(next_cell[n, c]),
                name="hidden",
            )
            define.compute(
                y,
                lambda t, n, c: next_hidden[n, c],
                shape=(batch, units),
                at=lambda t, n, c: (t, n, c),
                name="out",
            )
        return y

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """LSTM."""
        write_lstm(out, node)


def _by_unit(target: Lowering, name: str, weights: Array) -> Tensor:
    """Weights [4U, K] as a table [unit, input, gate]: the four gates of a unit share an input."""
    packed = weights.reshape(GATES, len(weights) // GATES, -1).transpose(1, 2, 0)
    return target.table(name, np.ascontiguousarray(packed))


def append_tflite_lstm(
    builder: GraphBuilder, raw: RawNode, x: Value, states: Sequence[Value],
    gates: Sequence[Sequence[Value]],
) -> Value:  # fmt: skip
    """TFLite's LSTM on floats; gates: weights, recurrent weights and biases of i, f, g, o.

    Raises ImportFailed for operands that are not float32 constants of the right shape.
    """
    hidden, cell = states
    if any(state.type.dtype != "float32" or len(state.type.shape) != 2 for state in states):
        raise ImportFailed(f"float32 input with states {hidden.type} and {cell.type}")
    batch, units = hidden.type.shape
    time_major = bool(raw.attribute("time_major", False))
    if x.type.shape[1 if time_major else 0] != batch:
        raise ImportFailed(f"the input {x.type} for states of a batch of {batch}")
    depth = x.type.shape[2]
    constants = [
        _stacked(builder, f"{raw.name}.{name}", values, shape)
        for name, values, shape in zip(
            ("weights", "recurrent", "bias"),
            gates,
            ((units, depth), (units, units), (units,)),
            strict=True,
        )
    ]
    sources = (raw.name,)

    def time_first(value: Value, name: str) -> Value:
        """The other order of batch and time; a view where one of them is 1."""
        first, second, last = value.type.shape
        if 1 in (first, second):
            attrs: Any = ReshapeAttrs((second, first, last))
            return builder.op("reshape", [value], attrs, name=name, sources=sources)
        attrs = TransposeAttrs((1, 0, 2))
        return builder.op("transpose", [value], attrs, name=name, sources=sources)

    if not time_major:
        x = time_first(x, f"{raw.name}/steps")
    name = raw.name if time_major else f"{raw.name}/sequence"
    attrs = LstmFloatAttrs(raw.attribute("cell_clip", 0.0))
    y, next_hidden, next_cell = builder.node(
        "lstm_float", [x, hidden, cell, *constants], attrs,
        name=name, output_names=[name, f"{raw.name}.hidden", f"{raw.name}.cell"], sources=sources,
    ).outputs  # fmt: skip
    builder.become(hidden, next_hidden)
    builder.become(cell, next_cell)
    return y if time_major else time_first(y, raw.name)


def _stacked(
    builder: GraphBuilder, name: str, gates: Sequence[Value], shape: tuple[int, ...]
) -> Constant:
    """The constants of four gates, concatenated."""
    for gate in gates:
        if not isinstance(gate, Constant) or gate.type.dtype != "float32":
            raise ImportFailed("its weights and biases are not float32 constants")
        if gate.type.shape != shape:
            raise ImportFailed(f"weights {list(gate.type.shape)} instead of {list(shape)}")
    data = np.concatenate([gate.data for gate in gates if isinstance(gate, Constant)])
    return builder.constant(name, data)


def _stored(builder: GraphBuilder, value: Value) -> Constant | None:
    """A constant operand, or the stored integers that it is dequantized from."""
    if isinstance(value, Constant):
        return value
    above = next((node for node in builder.nodes if value in node.outputs), None)
    if above is None or above.op.name != "dequantize":
        return None
    stored = above.inputs[0]
    return stored if isinstance(stored, Constant) else None


def _in_own_order(rows: Array) -> Array:
    """ONNX's gates i, o, f, g as i, f, g, o."""
    i, o, f, g = np.split(rows, GATES)
    return np.concatenate([i, f, g, o])


@from_onnx("LSTM", since=7)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX LSTM, in all directions: (Y, Y_h, Y_c)."""
    return one_direction(
        builder, raw, partial(_import_forward, builder), partial(by_steps, builder)
    )


def _refuse_unsupported(raw: RawNode, *others: Value | None) -> None:
    """Raise ImportFailed for unsupported attributes; others: lengths and peepholes."""
    if any(value is not None for value in others) or raw.attribute("clip", None):
        raise ImportFailed("sequence lengths, peepholes and clip are not supported")
    kinds = raw.attribute("activations", None)
    if kinds is not None and tuple(kinds) != ("Sigmoid", "Tanh", "Tanh"):
        raise ImportFailed(f"activations {kinds}")
    if raw.attribute("input_forget", 0):
        raise ImportFailed("coupled gates are not supported")


def _constant_weights(builder: GraphBuilder, value: Value | None) -> Constant:
    stored = None if value is None else _stored(builder, value)
    if stored is None:
        raise ImportFailed("the weights must be constants")
    return stored


def _weights(
    builder: GraphBuilder, raw: RawNode, w: Value | None, r: Value | None, b: Value | None
) -> tuple[Constant, Constant, Constant]:
    """The constants W, R and B of one direction; a bias of zeros where the node has none."""
    x = raw.operand(0)
    if b is None and r is not None and len(r.type.shape) == 3:
        b = builder.constant(f"{raw.name}.bias", np.zeros((1, 8 * r.type.shape[2]), np.float32))
    w, r, b = (_constant_weights(builder, value) for value in (w, r, b))
    if len(x.type.shape) != 3 or len(r.type.shape) != 3:
        raise ImportFailed(f"the input {x.type} and weights {r.type} are not of rank 3")
    size, depth = r.type.shape[2], x.type.shape[2]
    if w.type.shape != (1, 4 * size, depth) or r.type.shape != (1, 4 * size, size):
        raise ImportFailed(f"weights {list(w.type.shape)} and {list(r.type.shape)}")
    return w, r, b


def _import_forward(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """One direction of an LSTM node."""
    inputs = (*raw.inputs, *(None for _ in range(8 - len(raw.inputs))))
    x = raw.operand(0)
    _refuse_unsupported(raw, inputs[4], inputs[7])
    w, r, b = _weights(builder, raw, *inputs[1:4])
    (steps, batch, _), size = x.type.shape, r.type.shape[2]
    sources = (raw.name,)

    def dequantized(stored: Constant) -> Value:
        return builder.op("dequantize", [stored], name=f"{stored.name}.dq", sources=())

    def by_gate(name: str, given: Constant, data: Array) -> Value:
        """Rows in the order i, f, g, o, where ONNX has i, o, f, c, as real numbers."""
        full = f"{raw.name}.{name}"
        if given.type.quant is None:
            return builder.constant(full, _in_own_order(data))
        quant = given.type.quant
        if len(quant.scale) == 1:
            quant = Quant(quant.scale, quant.zero_point)
        elif quant.axis == 2:  # of the inputs, which have no integer form
            real = data - np.asarray(quant.zero_point, np.float32)
            real *= np.asarray(quant.scale, np.float32)
            return builder.constant(full, _in_own_order(real))
        if not quant.per_tensor:
            rows = (np.asarray(v)[: 4 * size] for v in (quant.scale, quant.zero_point))
            scales, zeros = (tuple(_in_own_order(each).tolist()) for each in rows)
            quant = Quant(scales, zeros, 0)
        return dequantized(builder.constant(full, _in_own_order(data), quant))

    bias, own = b.data.reshape(2, 4 * size)
    if b.type.quant is not None and np.any(own):
        raise ImportFailed("quantized biases of the recurrent product are not supported")
    sums = bias if b.type.quant is not None else bias + own

    def reshaped(value: Value, name: str, *shape: int) -> Value:
        return builder.op("reshape", [value], ReshapeAttrs(shape), name=name, sources=sources)

    def state(value: Value | None, name: str) -> Value:
        if value is None:
            zeros = np.zeros((batch, size), np.float32)
            return builder.constant(f"{raw.name}.{name}", zeros)
        stored = _stored(builder, value)
        if stored is not None and (stored.type.quant is None or stored.type.quant.per_tensor):
            data = stored.data.reshape(batch, size)
            start = builder.constant(f"{raw.name}.{name}", data, stored.type.quant)
            return start if start.type.quant is None else dequantized(start)
        return reshaped(value, f"{raw.name}/{name}", batch, size)

    y, hidden, cell = builder.node(
        "lstm_float",
        [
            x,
            state(inputs[5], "hidden"),
            state(inputs[6], "cell"),
            by_gate("W", w, w.data[0]),
            by_gate("R", r, r.data[0]),
            by_gate("B", b, sums),
        ],
        LstmFloatAttrs(),
        name=f"{raw.name}/sequence",
        output_names=[f"{raw.name}.y", f"{raw.name}.hidden", f"{raw.name}.cell"],
        sources=sources,
    ).outputs
    return (
        reshaped(y, raw.name, steps, 1, batch, size),
        reshaped(hidden, f"{raw.name}/last_hidden", 1, batch, size),
        reshaped(cell, f"{raw.name}/last_cell", 1, batch, size),
    )
