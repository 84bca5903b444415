"""gru: the recurrence of a gated recurrent unit over a sequence, in integers.

For every step t, with gates z, r, n (update, reset, new) of U units, each in int16 with 12 fraction
bits, and functions of them with 15:

    z, r = logistic(requantize(x[t] W^T + b) + requantize(y[t-1] R^T + c))
    n = tanh(requantize(x[t] W^T + b) + r * requantize(y[t-1] R^T + c))      reset after the product
    n = tanh(requantize(x[t] W^T + b) + requantize((r * y[t-1]) R^T + c))    reset before it
    hidden = (1 - z) * n + z * hidden                        in int16 with 15 fraction bits
    y[t] = requantize(hidden)

Products read int8 or int16, the sequence's dtype. The state keeps 16 bits, so that a gate near 1
still changes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, register
from edgec.graph.traits import Interval, Operand
from edgec.graph.types import Array, Quant, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int16, int32, intrinsic, saturate
from edgec.numerics.fixed_point import check_factors, quantize_multiplier, wrap_int32
from edgec.ops.accumulate import rescale
from edgec.ops.broadcast import constant_of, tensor_of
from edgec.ops.lstm_gates import accumulators, gate_rounding, sums_of
from edgec.ops.op import Op
from edgec.ops.sigmoid_table import ARGUMENT_BITS, SigmoidLoops

GATES = 3
#: Scales of the gates before their functions, of the functions' results, and of the state.
GATE_SCALE, STATE = 2.0**-ARGUMENT_BITS, Quant((2.0**-15,), (0,))
LIMITS = (-32768, 32767)
ONE, HALF = 1 << 15, 1 << 14


@dataclass(frozen=True)
class GruAttrs:
    """given, recurrent: real factors of sums with x and with y, to GATE_SCALE, of each row.

    output: quantization of y. resets_after: the reset gate scales the product, not its operand.
    """

    given: tuple[float, ...]
    recurrent: tuple[float, ...]
    output: Quant
    resets_after: bool = False


@register
class Gru(Op[GruAttrs]):
    """x int8 or int16 [T, K], hidden int16 [1, U], weights int8 [3U, K] and [3U, U], biases int32
    [3U] and [3U] -> y [T, 1, U] of x's dtype, the next hidden. int16 has no zero point.
    """

    name = "gru"
    attrs_class = GruAttrs
    constant_inputs = (2, 3, 4, 5)
    fusion = Fusion.OPAQUE
    approximates = True

    def infer(self, attrs: GruAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Types of the sequence and of the state."""
        x, hidden = inputs[:2]
        units = hidden.shape[-1] if hidden.shape else 0
        _check_shapes(x, units, inputs)
        if x.quant is None or not (x.quant.per_tensor and attrs.output.per_tensor):
            raise TypeMismatch(f"gru of {x}: it needs quantization per tensor")
        if hidden.quant != STATE or {len(attrs.given), len(attrs.recurrent)} != {GATES * units}:
            raise TypeMismatch(f"gru of {hidden} with {len(attrs.given)} factors")
        _check_zero_points(x, attrs.output)
        check_factors((*attrs.given, *attrs.recurrent), gate_rounding(x.dtype))
        check_factors([_to_output(attrs)], "tflm")
        return TensorType((x.shape[0], 1, units), x.dtype, attrs.output), hidden

    def macs(self, attrs: GruAttrs, inputs: Types) -> int:
        """The products of all weights, in each step."""
        return inputs[0].shape[0] * (inputs[2].elements + inputs[3].elements)

    def steps(self, attrs: GruAttrs, inputs: Types) -> int:
        """One after the other."""
        return inputs[0].shape[0]

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A loop of steps over the state in its own place."""
        attrs: GruAttrs = node.attrs
        x, start = tensor_of(inputs[0], target), inputs[1]
        if isinstance(start, Constant):
            start = target.table("start", start.data)
        y, state = target.targets
        define, steps = target.definition, y.shape[0]
        given = _Sums(target, inputs[2], inputs[4], node.inputs[0].type, attrs.given)
        own = _Sums(target, inputs[3], inputs[5], node.outputs[0].type, attrs.recurrent)
        define.compute(state, lambda n, c: start[n, c], name="start_hidden")
        with define.steps("steps", steps):
            # Copies, so that the sums do not depend on the step.
            now = define.compute("now", lambda t, k: x[t, k], shape=x.shape[1:], dtype=x.dtype)
            last = define.compute(
                "last", lambda t, k: _stored(attrs, state[0, k], y.dtype), shape=state.shape[1:],
                dtype=y.dtype,
            )  # fmt: skip
            _Step(target, attrs, (given, now), own, (last, state)).make()
            define.compute(
                y, lambda t, n, c: _stored(attrs, state[n, c], y.dtype), shape=state.shape,
                at=lambda t, n, c: (t, n, c), name="out",
            )  # fmt: skip
        return y

    def sums(self, attrs: GruAttrs, operands: Sequence[Operand]) -> Sequence[Interval]:
        """The products with the input and with the sequence."""
        x, _, weights, recurrent, bias, own = operands
        if x.type.dtype == "int16":  # sums that need more are in int64
            return ()
        output = TensorType((1,), "int8", attrs.output)
        return sums_of(x.type, weights, bias.data), sums_of(output, recurrent, own.data)


def _check_zero_points(x: TensorType, output: Quant) -> None:
    if x.dtype == "int16" and (x.scalar_quant()[1] or output.zero_point[0]):
        raise TypeMismatch(f"gru of {x}: int16 has no zero point")


def _check_shapes(x: TensorType, units: int, inputs: Types) -> None:
    rows = GATES * units
    dtype = "int16" if x.dtype == "int16" else "int8"
    wanted = [(x.shape, dtype), ((1, units), "int16"), ((rows, *x.shape[1:]), "int8"),
              ((rows, units), "int8"), ((rows,), "int32"), ((rows,), "int32")]  # fmt: skip
    if [(each.shape, each.dtype) for each in inputs] != wanted or len(x.shape) != 2:
        raise TypeMismatch(f"gru of {', '.join(map(str, inputs))}")


class _Sums:
    """Products of one side's stored values with its weights, from the bias on: [unit, gate]."""

    def __init__(
        self, target: Lowering, weights: Any, bias: Any, x: TensorType, factors: Sequence[float]
    ) -> None:
        self.target, data = target, constant_of(weights).data
        self.units = len(data) // GATES
        self.zero_point = zero_point = x.scalar_quant()[1]
        self.bias: Array = constant_of(bias).data
        self.by_unit = data.reshape(GATES, self.units, -1).transpose(1, 2, 0)
        self.folded = wrap_int32(self.bias - zero_point * data.sum(axis=1, dtype=np.int64))
        self.dtype = accumulators(x.dtype, data, self.bias)
        by_unit = np.asarray(factors).reshape(GATES, self.units).T.reshape(-1)
        scales = tuple(by_unit.tolist())
        self.rescale = rescale(target, scales, gate_rounding(x.dtype), self.dtype)

    def of(
        self, name: str, read: Tensor, gates: slice = slice(None), *, is_centred: bool = False
    ) -> tuple[Tensor, int]:
        """The stage that computes the sums of some gates, and the first of these gates.

        is_centred: the operand has no zero point.
        """
        bias = self.bias if is_centred else self.folded
        rows = np.ascontiguousarray(bias.astype(self.dtype).reshape(GATES, -1).T[:, gates])
        weights = np.ascontiguousarray(self.by_unit[:, :, gates])
        table, biases = self.target.table("w", weights), self.target.table("bias", rows)
        made = self.target.definition.reduce(
            name,
            [("k", 0, weights.shape[1])],
            init=lambda t, c, g: biases[c, g],
            update=lambda acc, t, c, g, k: (
                acc + cast(read[k], self.dtype) * cast(table[c, k, g], self.dtype)
            ),
            shape=rows.shape,
            dtype=self.dtype,
        )
        return made, gates.start or 0

    def gate(self, made: tuple[Tensor, int], c: Any, g: int) -> Value:
        """A sum in the gates' scale, limited to int16."""
        sums, first = made
        return clamp(self.rescale(sums[c, g - first], GATES * c + g), *LIMITS)


@dataclass(frozen=True)
class _Step:
    """The stages that make the next state. given, own: sums of the input and of the last state.

    state: the last one as it was stored, and itself. Where the reset gate comes before the product,
    the third gate's sums are stages of their own: they need the reset gates of all units.
    """

    target: Lowering
    attrs: GruAttrs
    given: tuple[_Sums, Tensor]
    own: _Sums
    state: tuple[Tensor, Tensor]

    def make(self) -> None:
        """The gates z and r, then n, then the state."""
        define, (last, state), (sums, now) = self.target.definition, self.state, self.given
        sigmoid, is_after = SigmoidLoops(self.target), self.attrs.resets_after
        gates = slice(None) if is_after else slice(0, 2)
        first = sums.of("given", now, gates), self.own.of("own", last, gates)

        units = state.shape[1:]
        argument = define.compute(
            "argument",
            lambda t, c, g: self._argument(c, g, first[0], self.own.gate(first[1], c, g)),
            shape=(*units, 2), dtype="int16",
        )  # fmt: skip
        opened = define.compute(
            "opened", lambda t, c, g: int16(sigmoid.logistic(int32(argument[c, g]))),
            shape=argument.shape, dtype="int16",
        )  # fmt: skip
        third = first if is_after else (sums.of("given_new", now, slice(2, 3)),
                                        self._after_reset(opened))  # fmt: skip

        def share(c: Any) -> Value:
            own = self.own.gate(third[1], c, 2)
            return _scaled(int32(opened[c, 1]), own) if is_after else own

        new_argument = define.compute(
            "new_argument", lambda t, c: self._argument(c, 2, third[0], share(c)),
            shape=units, dtype="int16",
        )  # fmt: skip

        def next_state(t: Any, n: Any, c: Any) -> Value:
            new, z = sigmoid.tanh(int32(new_argument[c])), int32(opened[c, 0])
            moved = (ONE - z) * new + z * int32(state[n, c])
            return int16(clamp((moved + HALF) >> 15, *LIMITS))

        define.compute(state, next_state, name="hidden")

    def _after_reset(self, gates: Tensor) -> tuple[Tensor, int]:
        """The third gate's sums plus the last sequence's sums times the reset gate."""
        last = self.state[0]

        def scaled_last(t: Any, k: Any) -> Value:
            real = int32(last[k]) - self.own.zero_point
            return int16(_scaled(int32(gates[k, 1]), real))

        reset = self.target.definition.compute(
            "reset", scaled_last, shape=last.shape, dtype="int16"
        )
        return self.own.of("own_new", reset, slice(2, 3), is_centred=True)

    def _argument(self, c: Any, g: Any, given: tuple[Tensor, int], own: Value) -> Value:
        """The argument of a gate's function."""
        return int16(clamp(self.given[0].gate(given, c, g) + own, *LIMITS))


def _scaled(share: Value, value: Value) -> Value:
    """A part with 15 fraction bits of a value of 16 bits."""
    return (share * value + HALF) >> 15


def _to_output(attrs: GruAttrs) -> float:
    return STATE.scale[0] / attrs.output.scale[0]


def _stored(attrs: GruAttrs, state: Value, dtype: str) -> Value:
    """The state as y stores it."""
    factor = quantize_multiplier(_to_output(attrs))
    moved = intrinsic("requantize_tflm", int32(state), *factor) + attrs.output.zero_point[0]
    return saturate(moved, dtype)
