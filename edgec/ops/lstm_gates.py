"""What inputs and hidden values add to the gates of an integer LSTM, in loops.

Gates of one unit lie side by side, [unit, gate], and share every input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, clamp, int16, int32
from edgec.numerics.fixed_point import Rounding, wrap_int32
from edgec.ops.accumulate import rescale

GATES = 4
LIMITS = (-32768, 32767)

Read = Callable[[Any, Any], Value]


class GateShare:
    """One of the two products, limited to int16.

    weights: int8 [4U, K], gate by gate, of inputs with this zero point. bias: int32 [4U] or None.
    factors: of the sums, to the gates' scale.
    """

    def __init__(
        self,
        target: Lowering,
        weights: Array,
        zero_point: int,
        bias: Array | None,
        factors: Sequence[float],
        rounding: Rounding,
    ) -> None:
        self.target = target
        units, self.depth = len(weights) // GATES, weights.shape[1]
        folded = -zero_point * weights.sum(axis=1, dtype=np.int64)
        if bias is not None:
            folded = folded + bias
        biases = wrap_int32(folded).astype(np.int32).reshape(GATES, units).T
        by_unit: Array = weights.reshape(GATES, units, -1).transpose(1, 2, 0)
        self.shape = (units, GATES)
        self.weights = target.table("w", np.ascontiguousarray(by_unit))
        self.biases = target.table("bias", np.ascontiguousarray(biases))
        self.rescale = rescale(target, factors, rounding)

    def gates(self, name: str, read: Read, others: Tensor | None = None) -> Tensor:
        """Add the stages of the sums of each gate of each unit, and of gates: `<name>_gates`.

        read(t, k) is input k of step t. others: those that this product is added to, in `gates`.
        """
        define = self.target.definition
        sums = define.reduce(
            name,
            [("k", 0, self.depth)],
            init=lambda t, c, g: self.biases[c, g],
            update=lambda acc, t, c, g, k: acc + int32(read(t, k)) * int32(self.weights[c, k, g]),
            shape=self.shape,
            dtype="int32",
        )

        def gate(t: Any, c: Any, g: Any) -> Value:
            # The zero point of 0 is what kernels have.
            share = clamp(self.rescale(sums[c, g], g) + 0, *LIMITS)
            return int16(share if others is None else clamp(int32(others[c, g]) + share, *LIMITS))

        block = f"{name}_gates" if others is None else "gates"
        return define.compute(block, gate, shape=self.shape, dtype="int16")
