"""Loops that add the products of inputs and hidden values to the gates of an integer LSTM.

Gates of one unit lie side by side, [unit, gate], and share every input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.graph.traits import Interval, Operand
from edgec.graph.types import Array, TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, cast, clamp, int16, int32
from edgec.numerics.fixed_point import Rounding, wrap_int32
from edgec.ops.accumulate import rescale

GATES = 4
LIMITS = (-32768, 32767)

Read = Callable[[Any, Any], Value]


def gate_rounding(dtype: str) -> Rounding:
    """TFLite's rounding of rescaled sums of this dtype."""
    return "tflm16" if dtype == "int16" else "tflm"


def sums_of(x: TensorType, weights: Operand, start: Array | None) -> Interval:
    """The interval of the sums of products for any x, less its zero point."""
    assert weights.data is not None and start is not None
    info, zero_point = np.iinfo(x.dtype), x.scalar_quant()[1]
    ends = [weights.data * (np.int64(end) - zero_point) for end in (info.min, info.max)]
    low, high = (each.sum(axis=1) + start for each in np.sort(ends, axis=0))
    return low, high


def accumulators(dtype: str, weights: Array, bias: Array) -> str:
    """The dtype of sums of values of this dtype by the rows of weights [R, K], and bias [R].

    Sums of int8 wrap in int32, as in TFLite; sums of int16 are in int64 if int32 may overflow.
    """
    if dtype == "int8":
        return "int32"
    most = np.abs(weights.astype(np.int64)).sum(axis=1) * 2**15 + np.abs(bias.astype(np.int64))
    return "int32" if int(most.max(initial=0)) < 2**31 else "int64"


class GateShare:
    """One of the two products, limited to int16.

    weights: int8 [4U, K], gate by gate, of inputs of type x. bias: integers [4U] or None.
    factors: of the sums, to the gates' scale.
    """

    def __init__(
        self,
        target: Lowering,
        weights: Array,
        x: TensorType,
        bias: Array | None,
        factors: Sequence[float],
    ) -> None:
        self.target = target
        units, self.depth = len(weights) // GATES, weights.shape[1]
        folded = -x.scalar_quant()[1] * weights.sum(axis=1, dtype=np.int64)
        if bias is not None:
            folded = folded + bias
        self.dtype = accumulators(x.dtype, weights, folded)
        stored = wrap_int32(folded) if self.dtype == "int32" else folded
        biases = stored.astype(self.dtype).reshape(GATES, units).T
        by_unit: Array = weights.reshape(GATES, units, -1).transpose(1, 2, 0)
        self.shape = (units, GATES)
        self.weights = target.table("w", np.ascontiguousarray(by_unit))
        self.biases = target.table("bias", np.ascontiguousarray(biases))
        self.rescale = rescale(target, factors, gate_rounding(x.dtype), self.dtype)

    def gates(self, name: str, read: Read, others: Tensor | None = None) -> Tensor:
        """Add stages for the sums of each gate of each unit, and for `<name>_gates`.

        read(t, k) is input k of step t. others: sums in `gates` to which this product is added.
        """
        define = self.target.definition
        sums = define.reduce(
            name,
            [("k", 0, self.depth)],
            init=lambda t, c, g: self.biases[c, g],
            update=lambda acc, t, c, g, k: (
                acc + cast(read(t, k), self.dtype) * cast(self.weights[c, k, g], self.dtype)
            ),
            shape=self.shape,
            dtype=self.dtype,
        )

        def gate(t: Any, c: Any, g: Any) -> Value:
            # A zero point of 0, as the kernels have.
            share = clamp(self.rescale(sums[c, g], g) + 0, *LIMITS)
            return int16(share if others is None else clamp(int32(others[c, g]) + share, *LIMITS))

        block = f"{name}_gates" if others is None else "gates"
        return define.compute(block, gate, shape=self.shape, dtype="int16")
