"""gru_float and rnn_float: recurrences of one hidden state over a sequence, in floats.

GRU, for every step t, with gates z, r, n (update, reset, new), each of U units:

    z, r = logistic(x[t] W^T + b + hidden R^T + c)          of their own rows
    n = tanh(x[t] W^T + b + r * (hidden R^T + c))           reset after the product
    n = tanh(x[t] W^T + b + (r * hidden) R^T + c)           reset before it
    hidden = (1 - z) * n + z * hidden

RNN: hidden = tanh(x[t] W^T + b + hidden R^T + c). In both, y[t] = hidden.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.evaluate import evaluate_constant
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.traits import IntegerForm
from edgec.graph.types import Quant, TensorType, Types
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics.ordered_sum import without_negative_zeros
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.onnx_lstm import written_state
from edgec.ops.onnx_recurrent import one_direction
from edgec.ops.onnx_recurrent_steps import by_steps
from edgec.ops.op import Op, RawNode, from_onnx
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.transpose import dequantized


@dataclass(frozen=True)
class GruFloatAttrs:
    """resets_after: the reset gate scales the product of the hidden state, not the state."""

    resets_after: bool = False


class _Recurrence(Op[Any]):
    """x [T, N, K], hidden [N, U], weights [G U, K] and [G U, U], two biases [G U], all float32
    -> y [T, N, U], the next hidden state. Gates lie one after the other.

    Each product is a sum in the order of its inputs, from its bias on.
    """

    fusion = Fusion.OPAQUE
    tolerance = 2e-6
    constant_inputs = (2, 3, 4, 5)
    gates: ClassVar[int]

    def infer(self, attrs: Any, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Types of the sequence and of the state."""
        x, hidden, *weights = inputs
        if len(x.shape) != 3 or len(hidden.shape) != 2:
            raise TypeMismatch(f"{self.name} of {x} and {hidden}")
        (steps, batch, depth), units = x.shape, hidden.shape[1]
        rows = self.gates * units
        shapes = [hidden.shape, *(type_.shape for type_ in weights)]
        wanted = [(batch, units), (rows, depth), (rows, units), (rows,), (rows,)]
        if shapes != wanted or any(type_.dtype != "float32" for type_ in inputs):
            raise TypeMismatch(f"{self.name} of {', '.join(map(str, inputs))}")
        return TensorType((steps, batch, units), "float32"), hidden

    def scale(self, attrs: Any, *scales: float) -> float:
        """One: ONNX Runtime's logistic function is off by parts of one also where it is near 0."""
        return 1.0

    def macs(self, attrs: Any, inputs: Types) -> int:
        """The products of all weights, in each step."""
        steps, batch, _ = inputs[0].shape
        return steps * batch * (inputs[2].elements + inputs[3].elements)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A loop of steps over the state in its own place."""
        start = inputs[1]
        if isinstance(start, Constant):
            start = target.table("start", start.data)
        y, state = target.targets
        steps, batch, units = y.shape
        define = target.definition
        define.compute(state, lambda n, c: start[n, c], name="start_hidden")
        with define.steps("steps", steps):
            given = self.given(target, inputs, steps)
            self.lower_step(node, target, inputs, given, state)
            define.compute(
                y,
                lambda t, n, c: state[n, c],
                shape=(batch, units),
                at=lambda t, n, c: (t, n, c),
                name="out",
            )
        return y

    def given(self, target: Lowering, inputs: Sequence[Any], steps: int) -> Tensor:
        """The stage of all gates' products of a step's inputs."""
        x, weights, define = inputs[0], self.by_unit(target, "w", inputs[2]), target.definition
        _, batch, depth = x.shape
        offsets = self.by_unit(target, "bias", inputs[4])
        now = None
        if steps > 1:  # a copy of the step's inputs, so that the sums do not depend on the step
            now = define.compute(
                "now", lambda t, n, k: x[t, n, k], shape=(batch, depth), dtype="float32"
            )
        return define.reduce(
            "given",
            [("k", 0, depth)],
            init=lambda t, n, c, g: offsets[c, 0, g],
            update=lambda acc, t, n, c, g, k: (
                acc + (x[0, n, k] if now is None else now[n, k]) * weights[c, k, g]
            ),
            shape=(batch, weights.shape[0], self.gates),
            dtype="float32",
        )

    def lower_step(
        self, node: Node, target: Lowering, inputs: Sequence[Any], given: Tensor, state: Tensor
    ) -> None:
        """Stages that make the next state of the inputs' products and the state."""
        raise NotImplementedError

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """GRU or RNN, whose operands have an axis of directions."""
        x, hidden, weights, recurrent, bias, own = node.inputs
        steps, batch, units = node.outputs[0].type.shape
        if not isinstance(bias, Constant) or not isinstance(own, Constant):
            raise ImportFailed(f"{node.name}: computed biases cannot be written")
        biases = np.concatenate([bias.data, own.data])[np.newaxis]
        operands = [
            out.own(x), *(out.operand(rows, lambda data: data[np.newaxis], 1)
                          for rows in (weights, recurrent)),
            out.initializer(f"{node.name}.bias", biases), "", written_state(out, hidden),
        ]  # fmt: skip
        found = [out.fresh(f"{value.name}.directions") for value in node.outputs]
        order = {}
        if isinstance(node.attrs, GruFloatAttrs):
            order["linear_before_reset"] = int(node.attrs.resets_after)
        out.emit_several(self.onnx_name, operands, found, hidden_size=units, **order)
        for value, name, shape in zip(
            node.outputs, found, ((steps, batch, units), (batch, units)), strict=True
        ):
            listed = out.initializer(f"{value.name}.shape", np.asarray(shape, np.int64))
            out.emit("Reshape", [name, listed], out.define_own(value))

    def by_unit(self, target: Lowering, name: str, rows: Constant, gates: slice = slice(None)
                ) -> Tensor:  # fmt: skip
        """Rows [G U, K] as a table [unit, input, gate]: the gates of a unit share an input."""
        data = rows.data.reshape(self.gates, len(rows.data) // self.gates, -1)
        data = data if rows.data.ndim > 1 else without_negative_zeros(data)
        packed = np.ascontiguousarray(data[gates].transpose(1, 2, 0))
        return target.table(name, packed)


@register
class GruFloat(_Recurrence):
    """Gated recurrent unit; gates z, r, n."""

    name = "gru_float"
    attrs_class = GruFloatAttrs
    onnx_name = "GRU"
    gates = 3
    integer_form = IntegerForm.RECURRENT

    def lower_step(
        self, node: Node, target: Lowering, inputs: Sequence[Any], given: Tensor, state: Tensor
    ) -> None:
        """The products of z and r, the reset, the product of n, and the new state."""
        attrs: GruFloatAttrs = node.attrs
        define, (batch, units) = target.definition, state.shape

        def product(name: str, gates: slice, count: int, read: Any) -> Tensor:
            weights = self.by_unit(target, "w", inputs[3], gates)
            offsets = self.by_unit(target, "bias", inputs[5], gates)
            return define.reduce(
                name,
                [("k", 0, units)],
                init=lambda t, n, c, g: offsets[c, 0, g],
                update=lambda acc, t, n, c, g, k: acc + read(n, k) * weights[c, k, g],
                shape=(batch, units, count),
                dtype="float32",
            )

        own = product("own", slice(0, 2), 2, lambda n, k: state[n, k])

        def gate(n: Any, c: Any, g: int) -> Any:
            return loops.intrinsic("sigmoid_f32", given[n, c, g] + own[n, c, g])

        if attrs.resets_after:
            last = product("last", slice(2, 3), 1, lambda n, k: state[n, k])
        else:
            reset = define.compute(
                "reset",
                lambda t, n, c: gate(n, c, 1) * state[n, c],
                shape=(batch, units),
                dtype="float32",
            )
            last = product("last", slice(2, 3), 1, lambda n, k: reset[n, k])

        def new_state(t: Any, n: Any, c: Any) -> Any:
            z, share = gate(n, c, 0), last[n, c, 0]
            if attrs.resets_after:
                share = gate(n, c, 1) * share
            new = loops.intrinsic("tanh_f32", given[n, c, 2] + share)
            return (1.0 - z) * new + z * state[n, c]

        define.compute(state, new_state, name="hidden")


@register
class RnnFloat(_Recurrence):
    """Elman's recurrence with tanh."""

    name = "rnn_float"
    attrs_class = NoAttrs
    onnx_name = "RNN"
    gates = 1

    def lower_step(
        self, node: Node, target: Lowering, inputs: Sequence[Any], given: Tensor, state: Tensor
    ) -> None:
        """The product of the state, then the new one."""
        define, (batch, units) = target.definition, state.shape
        weights = self.by_unit(target, "w", inputs[3])
        offsets = self.by_unit(target, "bias", inputs[5])
        own = define.reduce(
            "own",
            [("k", 0, units)],
            init=lambda t, n, c: offsets[c, 0, 0],
            update=lambda acc, t, n, c, k: acc + state[n, k] * weights[c, k, 0],
            shape=(batch, units),
            dtype="float32",
        )
        define.compute(
            state,
            lambda t, n, c: loops.intrinsic("tanh_f32", given[n, c, 0] + own[n, c]),
            name="hidden",
        )


def _rows(builder: GraphBuilder, name: str, value: Value) -> Value:
    """The rows of a constant of one direction, dequantized where it is."""
    above = dequantized(builder, value)
    stored = value if above is None else above.inputs[0]
    if not isinstance(stored, Constant) or len(stored.data) != 1:
        raise ImportFailed("the weights must be constants")
    quant = stored.type.quant
    if above is None or quant is None:
        return builder.constant(name, np.ascontiguousarray(stored.data[0]))
    if len(quant.scale) > 1 and quant.axis != 1:  # of the inputs, which have no integer form
        (real,) = evaluate_constant(above, above.inputs)
        return builder.constant(name, np.ascontiguousarray(real.data[0]))
    own = Quant(quant.scale, quant.zero_point, 0 if len(quant.scale) > 1 else None)
    constant = builder.constant(name, np.ascontiguousarray(stored.data[0]), own)
    return builder.op("dequantize", [constant], name=f"{name}.dq", sources=())


def _append(
    builder: GraphBuilder, raw: RawNode, name: str, gates: int, attrs: Any, kinds: tuple[str, ...]
) -> tuple[Value, Value]:  # fmt: skip
    """One direction of a GRU or RNN node: (Y [T, 1, N, U], Y_h [1, N, U])."""
    x, w, r, b, lengths, h = (*raw.inputs, *(None for _ in range(6 - len(raw.inputs))))[:6]
    if lengths is not None or raw.attribute("clip", None):
        raise ImportFailed("sequence lengths and clip are not supported")
    given_kinds = raw.attribute("activations", None)
    if given_kinds is not None and tuple(given_kinds) != kinds:
        raise ImportFailed(f"activations {given_kinds}")
    if w is None or r is None:
        raise ImportFailed("the weights must be constants")
    rows = [_rows(builder, f"{raw.name}.{key}", value) for key, value in (("W", w), ("R", r))]
    if x is None or len(x.type.shape) != 3 or len(r.type.shape) != 3:
        raise ImportFailed("the input and weights are not of rank 3")
    steps, batch, _ = x.type.shape
    size = r.type.shape[2]
    if b is not None and not isinstance(b, Constant):
        raise ImportFailed("the biases must be constants")
    biases = np.zeros(2 * gates * size, np.float32) if b is None else b.data.reshape(-1)
    sources = (raw.name,)
    if h is None or isinstance(h, Constant):
        data = np.zeros((batch, size), np.float32) if h is None else h.data.reshape(batch, size)
        start: Value = builder.constant(f"{raw.name}.hidden", data)
    else:
        start = builder.op(
            "reshape", [h], ReshapeAttrs((batch, size)), name=f"{raw.name}/hidden", sources=sources
        )
    constants = [
        builder.constant(f"{raw.name}.{key}", np.ascontiguousarray(data))
        for key, data in (("bias", biases[: gates * size]), ("own_bias", biases[gates * size :]))
    ]
    y, hidden = builder.node(
        name, [x, start, *rows, *constants], attrs, name=f"{raw.name}/sequence",
        output_names=[f"{raw.name}.y", f"{raw.name}.hidden"], sources=sources,
    ).outputs  # fmt: skip
    whole, last = ReshapeAttrs((steps, 1, batch, size)), ReshapeAttrs((1, batch, size))
    return (
        builder.op("reshape", [y], whole, name=raw.name, sources=sources),
        builder.op("reshape", [hidden], last, name=f"{raw.name}/last", sources=sources),
    )


@from_onnx("GRU", since=7)
def import_gru(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX GRU, in all directions: (Y, Y_h)."""
    attrs = GruFloatAttrs(bool(raw.attribute("linear_before_reset", 0)))

    def single(part: RawNode) -> tuple[Value, ...]:
        return _append(builder, part, "gru_float", 3, attrs, ("Sigmoid", "Tanh"))

    return one_direction(builder, raw, single, partial(by_steps, builder))


@from_onnx("RNN", since=7)
def import_rnn(builder: GraphBuilder, raw: RawNode) -> tuple[Value, ...]:
    """ONNX RNN, in all directions: (Y, Y_h)."""

    def single(part: RawNode) -> tuple[Value, ...]:
        return _append(builder, part, "rnn_float", 1, NoAttrs(), ("Tanh",))

    return one_direction(builder, raw, single, partial(by_steps, builder))
