"""lstm: the recurrence of a long short-term memory over a sequence, in integers.

For every step t, with gates i, f, g, o (input, forget, cell, output), each of U units:

    gates = saturate(requantize(x[t] W^T + bias) + requantize(hidden R^T))
    cell = saturate(logistic(f) * cell + logistic(i) * tanh(g))
    hidden = logistic(o) * tanh(cell)
    y[t] = hidden
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Interval, Operand
from edgec.graph.types import Array, Arrays, Quant, TensorType, Types
from edgec.loop import values as loops
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.numerics.fixed_point import (
    IntArray,
    Rounding,
    quantize_multiplier,
    requantize,
    requantize_tflm,
    wrap_int32,
)
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.lstm_float import append_tflite_lstm
from edgec.ops.lstm_gates import GATES, GateShare, gate_rounding, sums_of
from edgec.ops.op import Op, RawNode, from_tflite
from edgec.ops.requantize import weight_scales
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.sigmoid_table import (
    ARGUMENT_BITS,
    SigmoidLoops,
    logistic_int16,
    tanh_factor,
    tanh_int16,
)
from edgec.ops.tflite_recurrent import append_cell

#: Scales of the gates before their functions, and of the functions' results.
GATE_SCALE, ACTIVATED_SCALE = 2.0**-ARGUMENT_BITS, 2.0**-15


@dataclass(frozen=True)
class LstmAttrs:
    """given, recurrent: real factors of x W^T and of hidden R^T for each gate, to GATE_SCALE.

    hidden: quantization of hidden and y; the cell's is in its type, a power of two without zero
    point. clip: limit of stored cells, 0 for none. time_major: y is [T, 1, U], not [1, T, U].
    """

    given: tuple[float, float, float, float]
    recurrent: tuple[float, float, float, float]
    hidden: Quant
    clip: int = 0
    time_major: bool = False
    rounding: Rounding = "tflm"


def _cell_bits(cell: TensorType) -> int:
    """Integer bits of a cell; TypeMismatch unless its scale is a power of two."""
    scale, zero_point = cell.scalar_quant()
    mantissa, exponent = math.frexp(scale)
    if mantissa != 0.5 or zero_point or not -15 <= exponent - 1 <= -1:
        raise TypeMismatch(f"the cell {cell} needs a scale of a power of two, and no zero point")
    return exponent - 1 + 15


@register
class Lstm(Op[LstmAttrs]):
    """x int8 [T, K], hidden int8 [1, U], cell int16 [1, U], weights int8 [4U, K] and [4U, U],
    bias int32 [4U] -> y int8 [1, T, U], the next hidden and cell. Or x, hidden and y are int16
    without a zero point, and the bias int32 or int64.

    Gates lie one after the other in the order i, f, g, o. Exact as TFLite Micro's.
    """

    name = "lstm"
    attrs_class = LstmAttrs
    constant_inputs = (3, 4, 5)
    fusion = Fusion.OPAQUE

    def infer(self, attrs: LstmAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Types of the sequence and of both states."""
        x, hidden, cell, weights, recurrent, bias = inputs
        units = hidden.shape[-1] if hidden.shape else 0
        dtype = "int16" if x.dtype == "int16" else "int8"
        is_long = dtype == "int16" and bias.dtype == "int64"
        wanted = (
            (x.shape[1:], x.dtype, weights.shape[1:], dtype),
            (hidden.shape, hidden.dtype, (1, units), dtype),
            (cell.shape, cell.dtype, (1, units), "int16"),
            (weights.shape[:1], weights.dtype, (GATES * units,), "int8"),
            (recurrent.shape, recurrent.dtype, (GATES * units, units), "int8"),
            (bias.shape, bias.dtype, (GATES * units,), "int64" if is_long else "int32"),
        )
        if any((shape, dtype) != (want, kind) for shape, dtype, want, kind in wanted):
            raise TypeMismatch(f"lstm of {', '.join(map(str, inputs))}")
        if hidden.quant != attrs.hidden or cell.quant is None or attrs.rounding != "tflm":
            raise TypeMismatch(f"lstm of {hidden} and {cell} with rounding {attrs.rounding!r}")
        if x.quant is None or not x.quant.per_tensor or len(x.shape) != 2:
            raise TypeMismatch(f"lstm of {x}")
        if dtype == "int16" and (x.quant.zero_point[0] or attrs.hidden.zero_point[0]):
            raise TypeMismatch(f"lstm of {x} and {hidden}: int16 has no zero point")
        _cell_bits(cell)
        outer = (x.shape[0], 1) if attrs.time_major else (1, x.shape[0])
        return (TensorType((*outer, units), dtype, attrs.hidden), hidden, cell)

    def evaluate(
        self, attrs: LstmAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """Step by step, as TFLite Micro's lstm_eval.cc."""
        x, hidden, cell, weights, recurrent, bias = (array.astype(np.int64) for array in inputs)
        zero_point = attrs.hidden.zero_point[0]
        bits = _cell_bits(input_types[2])
        forget, update, output = _products(attrs, input_types[2])
        dtype = output_types[0].dtype
        limits = np.iinfo(dtype)

        def share(sums: IntArray, factors: Sequence[float]) -> IntArray:
            stored = wrap_int32(sums) if dtype == "int8" else sums
            return _gate_share(stored, factors, gate_rounding(dtype))

        given = share((x - input_types[0].scalar_quant()[1]) @ weights.T + bias, attrs.given)
        y = np.empty((x.shape[0], hidden.size), dtype)
        for step, now in enumerate(given):
            own = share((hidden - zero_point) @ recurrent.T, attrs.recurrent)
            gates = np.clip(now + own, -32768, 32767)[0]
            i, f, g, o = np.split(gates, GATES)
            kept = _rescaled(logistic_int16(f) * cell[0], forget)
            new = _rescaled(logistic_int16(i) * tanh_int16(g), update)
            cell = np.clip(kept + new, -32768, 32767)[None]
            if attrs.clip:
                cell = np.clip(cell, -attrs.clip, attrs.clip)
            product = tanh_int16(cell[0], tanh_factor(bits)) * logistic_int16(o)
            rounded = requantize_tflm(product, *map(np.asarray, quantize_multiplier(output)))
            hidden = np.clip(rounded + zero_point, limits.min, limits.max)[None]
            y[step] = hidden[0]
        y = y.reshape(output_types[0].shape)
        return y, hidden.astype(dtype), cell.astype(np.int16)

    def macs(self, attrs: LstmAttrs, inputs: Types) -> int:
        """The products of all weights, in each step."""
        return inputs[0].shape[0] * (inputs[3].elements + inputs[4].elements)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A loop of steps over the states in their own places."""
        attrs: LstmAttrs = node.attrs
        x = tensor_of(inputs[0], target)
        hidden, cell = (
            target.table("start", state.data) if isinstance(state, Constant) else state
            for state in inputs[1:3]
        )
        y, next_hidden, next_cell = target.targets
        units, steps = hidden.shape[1], x.shape[0]
        zero_point = attrs.hidden.zero_point[0]
        own = GateShare(
            target, constant_of(inputs[4]).data, node.inputs[1].type, None, attrs.recurrent
        )
        given = GateShare(
            target, constant_of(inputs[3]).data, node.inputs[0].type, constant_of(inputs[5]).data,
            attrs.given,
        )  # fmt: skip
        forget, update, output = _products(attrs, node.inputs[2].type)
        bits = _cell_bits(node.inputs[2].type)
        sigmoid = SigmoidLoops(target)
        define = target.definition

        def scaled(product: Any, factor: float) -> Any:
            multiplier, shift = quantize_multiplier(factor)
            if multiplier == 1 << 30 and shift <= 0:  # products are too small to overflow
                half = (product + 1) >> 1
                return loops.intrinsic("rounding_divide_by_power_of_two", half, -shift)
            return loops.intrinsic("requantize_tflm", product, multiplier, shift)

        define.compute(next_hidden, lambda n, c: hidden[n, c], name="start_hidden")
        define.compute(next_cell, lambda n, c: cell[n, c], name="start_cell")
        with define.steps("steps", steps):
            # A copy of this step's inputs, so that the sums do not depend on the step.
            now = define.compute("now", lambda t, k: x[t, k], shape=x.shape[1:], dtype=x.dtype)
            gates = given.gates("given", lambda t, k: now[k])
            gates = own.gates("own", lambda t, k: next_hidden[0, k], gates)

            def of_gate(number: int, c: Any) -> Any:
                return loops.int32(gates[c, number])

            def new_cell(t: Any, n: Any, c: Any) -> Any:
                kept = sigmoid.logistic(of_gate(1, c)) * loops.int32(next_cell[n, c])
                new = sigmoid.logistic(of_gate(0, c)) * sigmoid.tanh(of_gate(2, c))
                parts = [
                    loops.clamp(scaled(kept, forget), -32768, 32767),
                    loops.clamp(scaled(new, update), -32768, 32767),
                ]
                both = loops.clamp(parts[0] + parts[1], -32768, 32767)
                if attrs.clip:
                    both = loops.clamp(both, -attrs.clip, attrs.clip)
                return loops.int16(both)

            def new_hidden(t: Any, n: Any, c: Any) -> Any:
                active = sigmoid.tanh(loops.int32(next_cell[n, c]), tanh_factor(bits))
                product = active * sigmoid.logistic(of_gate(3, c))
                return loops.saturate(scaled(product, output) + zero_point, y.dtype)

            define.compute(next_cell, new_cell, name="cell")
            define.compute(next_hidden, new_hidden, name="hidden")
            define.compute(
                y,
                lambda t, c: next_hidden[0, c],
                shape=(units,),
                at=lambda t, c: (t, 0, c) if attrs.time_major else (0, t, c),
                name="out",
            )
        return y

    def sums(self, attrs: LstmAttrs, operands: Sequence[Operand]) -> Sequence[Interval]:
        """The products with the input and with the hidden state."""
        x, hidden, _, weights, recurrent, bias = operands
        assert bias.data is not None
        if x.type.dtype == "int16":  # sums that need more are in int64
            return ()
        start = bias.data.astype(np.int64)
        own = np.zeros_like(start)
        return sums_of(x.type, weights, start), sums_of(hidden.type, recurrent, own)


def _gate_share(sums: IntArray, factors: Sequence[float], rounding: Rounding) -> IntArray:
    """Sums [steps, 4U] as gates."""
    each = tuple(np.repeat(factors, sums.shape[1] // GATES).tolist())
    return np.clip(requantize(sums, each, rounding), -32768, 32767)


def _products(attrs: LstmAttrs, cell: TensorType) -> tuple[float, float, float]:
    """Real factors of f * cell, of i * g, and of o * tanh(cell)."""
    scale = cell.scalar_quant()[0]
    return (
        ACTIVATED_SCALE * scale / scale,
        ACTIVATED_SCALE * ACTIVATED_SCALE / scale,
        ACTIVATED_SCALE * ACTIVATED_SCALE / attrs.hidden.scale[0],
    )


def _rescaled(product: IntArray, factor: float) -> IntArray:
    rounded = requantize_tflm(product, *map(np.asarray, quantize_multiplier(factor)))
    return np.clip(rounded, -32768, 32767)


#: Inputs of TFLite's operator by position.
_X, _WEIGHTS, _RECURRENT, _BIAS = 0, slice(1, 5), slice(5, 9), slice(12, 16)
_HIDDEN, _CELL, _COUNT = 18, 19, 24


@from_tflite("UNIDIRECTIONAL_SEQUENCE_LSTM")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite's LSTM on int8 or int16 with int16 cells, or on floats.

    Source: TFLite Micro's unidirectional_sequence_lstm.cc; factors of gates are float32 products.
    """
    inputs = (*raw.inputs, *[None] * (_COUNT - len(raw.inputs)))
    if raw.operand(_X).type.is_float and not _is_plain(raw, inputs):
        return append_cell(builder, raw, [raw.operand(_HIDDEN), raw.operand(_CELL)])
    groups = [inputs[part] for part in (_WEIGHTS, _RECURRENT, _BIAS)]
    gates = [[value for value in group if value is not None] for group in groups]
    x, hidden, cell = inputs[_X], inputs[_HIDDEN], inputs[_CELL]
    needed = (x, hidden, cell, *(value for group in groups for value in group))
    if x is None or hidden is None or cell is None or None in needed:
        raise ImportFailed("without an input gate, a bias or a state it is not supported")
    if sum(value is not None for value in inputs) > len(needed):
        raise ImportFailed("peepholes, projections and layer normalization are not supported")
    if raw.attribute("fused_activation", "NONE") != "TANH":
        raise ImportFailed("only the activation TANH is supported")
    if len(x.type.shape) != 3:
        raise ImportFailed(f"the input {x.type} is not of rank 3")
    if x.type.is_float:
        return append_tflite_lstm(builder, raw, x, [hidden, cell], gates)
    dtypes = x.type.dtype, hidden.type.dtype, cell.type.dtype
    if dtypes not in (("int8", "int8", "int16"), ("int16", "int16", "int16")):
        raise ImportFailed(
            f"{x.type.dtype} input with {cell.type.dtype} cells: only int8 or int16 with int16"
            " cells, or floats"
        )
    declared = raw.output_types[0]
    quant = hidden.type.quant
    if declared is None or quant is None or declared.quant != quant:
        raise ImportFailed("the output is not quantized as the hidden state")
    units = hidden.type.shape[-1]
    batch = x.type.shape[1 if raw.attribute("time_major", False) else 0]
    if batch != 1 or hidden.type.shape != (1, units):
        raise ImportFailed(f"a batch of {batch}: only 1 is supported")
    steps = x.type.elements // x.type.shape[-1]
    flat = builder.op(
        "reshape", [x], ReshapeAttrs((steps, x.type.shape[-1])), name=f"{raw.name}/flat",
        sources=(raw.name,),
    )  # fmt: skip
    stacked = _Stacked(builder, raw, units)
    weights, given = stacked.weights("weights", gates[0], x.type)
    recurrent, factors = stacked.weights("recurrent", gates[1], hidden.type)
    bias = stacked.bias(gates[2], "int64" if x.type.dtype == "int16" else "int32")
    clip = raw.attribute("cell_clip", 0.0) / cell.type.scalar_quant()[0]
    attrs = LstmAttrs(
        given=given,
        recurrent=factors,
        hidden=quant,
        clip=int(min(clip, 32767)),
        time_major=bool(raw.attribute("time_major", False)),
        rounding=raw.rounding,
    )
    node = builder.node(
        "lstm", [flat, hidden, cell, weights, recurrent, bias], attrs, name=raw.name,
        output_names=[raw.name, f"{raw.name}.hidden", f"{raw.name}.cell"],
    )  # fmt: skip
    y, next_hidden, next_cell = node.outputs
    builder.become(hidden, next_hidden)
    builder.become(cell, next_cell)
    return y


def _is_plain(raw: RawNode, inputs: Sequence[Value | None]) -> bool:
    """Whether all gates are there, of floats, and nothing else."""
    weights = (*inputs[_WEIGHTS], *inputs[_RECURRENT])
    others = (*inputs[9:12], *inputs[16:18], *inputs[20:])
    has_gates = None not in (*weights, *inputs[_BIAS])
    is_hybrid = any(value is not None and not value.type.is_float for value in weights)
    is_tanh = raw.attribute("fused_activation", "NONE") == "TANH"
    return has_gates and is_tanh and not is_hybrid and all(value is None for value in others)


@dataclass(frozen=True)
class _Stacked:
    """Concatenates the constants of four gates."""

    builder: GraphBuilder
    raw: RawNode
    units: int

    def weights(
        self, name: str, gates: Sequence[Any], x: TensorType
    ) -> tuple[Constant, tuple[float, float, float, float]]:
        """[4 units, inputs] with a scale for each row, and the gates' factors to GATE_SCALE."""
        scale = np.float32(x.scalar_quant()[0])
        scales: list[float] = []
        for gate in gates:
            if not isinstance(gate, Constant) or gate.type.dtype != "int8":
                raise ImportFailed("its weights are not int8 constants")
            if len(gate.type.shape) != 2 or gate.type.shape[0] != self.units:
                raise ImportFailed(f"weights {list(gate.type.shape)} for {self.units} units")
            scales.append(weight_scales(gate.type, 1)[0])
        data = np.concatenate([gate.data for gate in gates])
        quant = Quant(tuple(s for s in scales for _ in range(self.units)), (0,) * len(data), axis=0)
        i, f, g, o = (float(scale) * s / GATE_SCALE for s in scales)
        constant = self.builder.constant(f"{self.raw.name}.{name}", data, quant)
        return constant, (i, f, g, o)

    def bias(self, biases: Sequence[Any], dtype: str) -> Constant:
        """[4 units], of the input's share."""
        if any(not isinstance(b, Constant) or b.type.dtype != dtype for b in biases):
            raise ImportFailed(f"its biases are not {dtype} constants")
        data = np.concatenate([b.data for b in biases])
        if data.shape != (GATES * self.units,):
            raise ImportFailed(f"{data.size} biases for {self.units} units")
        return self.builder.constant(f"{self.raw.name}.bias", data)
