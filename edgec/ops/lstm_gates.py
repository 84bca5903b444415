"""What inputs and hidden values add to the gates of an integer LSTM, in loops.

Gates of one unit lie side by side, [unit, gate]. In plain loops the sums of a unit's four gates
stay in registers until the gates are made of them. In the forms of products the kernels of dense
layers make all gates at once: first of the inputs, then the hidden values are added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.lowering import STEPS, Lowering
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
        by_unit: Array = weights.reshape(GATES, units, -1).transpose(1, 0, 2)
        self.shape: tuple[int, ...] = (units, GATES)
        at_once = STEPS.get(target.form, 1)
        #: Inputs that are read: those that there are, and zeros.
        self.taken = -(-self.depth // at_once) * at_once
        if target.form in STEPS:
            self.shape = (GATES * units,)
            by_unit = by_unit.reshape(*self.shape, -1)
            by_unit = np.pad(by_unit, ((0, 0), (0, self.taken - self.depth)))
        else:  # the four gates of a unit share every input
            by_unit = by_unit.transpose(0, 2, 1)
        self.weights = target.table("w", np.ascontiguousarray(by_unit))
        self.biases = target.table("bias", np.ascontiguousarray(biases.reshape(self.shape)))
        self.rescale = rescale(target, factors, rounding, "int32", any_shift=True)
        self.row: Tensor | None = None

    def sums(self, name: str, read: Read) -> Tensor:
        """Add the stage of the sums of each gate of each unit; read(t, k) is input k of step t."""
        return self.target.definition.reduce(
            name,
            [("k", 0, self.depth)],
            init=lambda t, c, g: self.biases[c, g],
            update=lambda acc, t, c, g, k: acc + int32(read(t, k)) * int32(self.weights[c, k, g]),
            shape=self.shape,
            dtype="int32",
        )

    def limited(self, sum: Value, channel: Any) -> Value:
        """A sum rescaled: an int32 that fits in int16. The zero point of 0 is what kernels have."""
        return clamp(self.rescale(sum, channel) + 0, *LIMITS)

    def make(self, name: str, read: Read, gates: Tensor | str, added: bool) -> Tensor:
        """Add stages that make all gates, or that add this product to them."""
        define = self.target.definition
        taken = self._copied(name, read)
        sums = define.reduce(
            f"{name}_acc",
            [("k", 0, self.taken)],
            init=lambda t, c: self.biases[c],
            update=lambda acc, t, c, k: acc + int32(taken(t, k)) * int32(self.weights[c, k]),
            shape=self.shape,
            dtype="int32",
        )

        def gate(t: Any, c: Any) -> Value:
            share = self.limited(sums[c], c % GATES)
            if added:
                assert isinstance(gates, Tensor)
                share = clamp(int32(gates[c]) + share, *LIMITS)
            return int16(share)

        return define.compute(gates, gate, shape=self.shape, dtype="int16", name=name)

    def prepare(self, name: str, in_place: bool) -> None:
        """Before the loop of steps: room for a copy of a step's inputs, if there is to be one.

        in_place: the inputs lie in the same place in all steps, and are read there where no zeros
        are to follow them.
        """
        if (in_place and self.taken == self.depth) or self.target.form not in STEPS:
            return
        self.row = self.target.definition.compute(
            f"{name}_row", lambda k: 0, shape=(self.taken,), dtype="int8", name=f"{name}_clear"
        )

    def _copied(self, name: str, read: Read) -> Read:
        """The inputs, or their copy, whose zeros after them stay."""
        row = self.row
        if row is None:
            return read
        self.target.definition.compute(row, read, shape=(self.depth,), name=f"{name}_row")
        return lambda t, k: row[k]
