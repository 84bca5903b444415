"""TFLite's LSTM of floats with peepholes, projections, normalized gates or without an input gate.

    i, f, g, o = x W^T + hidden R^T [+ aux A^T] [+ cell * peephole] + bias
    cell = logistic(f) * cell + logistic(i) * act(g)
    hidden = logistic(o) * act(cell) [P^T + projection bias]

A gate that is normalized has its bias after that. Without an input gate, i is 1 - f. The output
gate's peephole sees the new cell. Source: LstmStepWithAuxInput in TFLite's lstm_eval.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgec.errors import ImportFailed
from edgec.graph.ir import Value
from edgec.ops.add import AddAttrs
from edgec.ops.layer_norm import LayerNormAttrs
from edgec.ops.logistic import LogisticAttrs
from edgec.ops.op import RawNode
from edgec.ops.parts import Parts
from edgec.ops.steps import activated, added, constant, limited, product, scaled

#: Added to a variance. Source: MeanStddevNormalization of portable_tensor_utils.cc.
EPSILON = 1e-8
#: Gates in TFLite's order.
INPUT, FORGET, NEW, OUTPUT = range(4)
Operands = Sequence["Value | None"]


@dataclass(frozen=True)
class LstmCell:
    """Operands of one direction.

    given, recurrent, bias, norms, aux: by gate, in the order INPUT, FORGET, NEW, OUTPUT.

    peephole: of all but NEW. projection: weights and bias. activation, cell_clip, projection_clip:
    the node's attributes.
    """

    given: Operands
    recurrent: Operands
    peephole: Operands
    bias: Operands
    projection: Operands
    norms: Operands = (None,) * 4
    aux: Operands = (None,) * 4
    activation: str = "TANH"
    cell_clip: float = 0.0
    projection_clip: float = 0.0

    def step(
        self, parts: Parts, states: Sequence[Value], inputs: Sequence[Value]
    ) -> tuple[list[Value], Value]:
        """The next hidden and cell, and the output, which is hidden."""
        hidden, cell = states
        forget = self.gate(parts, FORGET, inputs, hidden, cell)
        kept = scaled(parts, forget, cell, "kept")
        new = activated(parts, self.activation, self.sums(parts, NEW, inputs, hidden, None), "new")
        if self.given[INPUT] is None:
            one = parts.table(1, "one", "float32")
            share = parts.op("sub", [one, forget], AddAttrs(), "share")
        else:
            share = self.gate(parts, INPUT, inputs, hidden, cell)
        cell = added(parts, kept, scaled(parts, new, share, "gained"), "cell")
        cell = limited(parts, cell, self.cell_clip, "limited_cell")
        out = self.gate(parts, OUTPUT, inputs, hidden, cell)
        hidden = scaled(parts, out, activated(parts, self.activation, cell, "shown"), "hidden")
        if self.projection[0] is not None:
            weights, bias = self.projection
            hidden = product(parts, hidden, weights, bias, "projection")
            hidden = limited(parts, hidden, self.projection_clip, "limited")
        return [hidden, cell], hidden

    def gate(
        self, parts: Parts, gate: int, inputs: Sequence[Value], hidden: Value, cell: Value
    ) -> Value:
        """The logistic function of a gate's sums."""
        sums = self.sums(parts, gate, inputs, hidden, cell)
        return parts.op("logistic", [sums], LogisticAttrs(), f"gate{gate}")

    def sums(
        self, parts: Parts, gate: int, inputs: Sequence[Value], hidden: Value, cell: Value | None
    ) -> Value:
        """The argument of a gate's function."""
        norm, bias = self.norms[gate], self.bias[gate]
        weights = [(self.given, inputs[0]), (self.recurrent, hidden)]
        if self.aux[gate] is not None:
            weights.append((self.aux, inputs[1]))
        total = None
        for number, (taps, x) in enumerate(weights):
            first = bias if norm is None and number == 0 else None
            share = product(parts, x, taps[gate], first, f"gate{gate}.share{number}")
            total = share if total is None else added(parts, total, share, f"gate{gate}.{number}")
        assert total is not None
        total = self.with_peephole(parts, gate, total, cell)
        if norm is None:
            return total
        tables = [
            parts.table(constant(value, "a norm").data, f"norm{gate}{name}", "float32")
            for name, value in (("", norm), (".bias", bias))
        ]
        return parts.op("layer_norm", [total, *tables], LayerNormAttrs(EPSILON), f"normed{gate}")

    def with_peephole(self, parts: Parts, gate: int, total: Value, cell: Value | None) -> Value:
        """The sums plus the peephole's product with the cell."""
        peephole = None if gate == NEW else self.peephole[min(gate, 2)]
        if peephole is None or cell is None:
            return total
        by = parts.table(constant(peephole, "a peephole").data, f"peephole{gate}", "float32")
        return added(parts, total, scaled(parts, cell, by, f"seen{gate}"), f"sum{gate}")


def cell_of(raw: RawNode, first: int, norms: int | None = None, aux: int | None = None) -> LstmCell:
    """The cell whose operands begin at a position, with 17 in TFLite's order."""

    def operands(start: int, count: int) -> tuple[Value | None, ...]:
        return tuple(raw.optional(first + start + n) for n in range(count))

    def listed(start: int | None) -> tuple[Value | None, ...]:
        return (None,) * 4 if start is None else tuple(raw.optional(start + n) for n in range(4))

    cell = LstmCell(
        operands(0, 4), operands(4, 4), operands(8, 3), operands(11, 4), operands(15, 2),
        listed(norms), listed(aux), str(raw.attribute("fused_activation", "NONE")),
        float(raw.attribute("cell_clip", 0.0)), float(raw.attribute("proj_clip", 0.0)),
    )  # fmt: skip
    for number, (given, recurrent) in enumerate(zip(cell.given, cell.recurrent, strict=True)):
        if (given is None) != (recurrent is None) or (given is None and number != INPUT):
            raise ImportFailed("weights of a gate are absent")
    return cell
