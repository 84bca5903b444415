"""Convolutions and dense lowered as plain matrix products over gathered inputs.

All of a pixel's inputs k are stored as int16 in pairs: k = 4 * q + 2 * r + s is element r of the
pair s of the quad q, because that is what SXTB16 makes of four int8. Weights are in the same order.
Where the inputs are no whole number of quads, zeros are added to both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import Array
from edgec.loop.define import Tensor
from edgec.loop.gathered import input_of, offset_pair
from edgec.loop.lowering import OFFSET_ROW, ROW, Lowering
from edgec.loop.values import Value, index, int16, int32, minimum, select

Read = Callable[[Any, Any], Value]


def lower_product(node: Node, target: Lowering, w: Array, bias: Array, read: Read) -> Tensor:
    """acc[p, o] = bias[o] + sum over k of read(p, k) * w[o, k], in the form that `target` asks for.

    w: int8 [O, K]; bias: int32 [O], the input's zero point folded in; read(p, k) is input k of the
    pixel p, an int8 value.
    """
    channels, depth = w.shape
    unit = 8 if target.form == ROW else 4
    quads = -(-depth // unit) * unit // 4
    pixels = node.output.type.elements // channels
    weights = target.table("w", _paired_weights(w, quads))
    biases = target.table("bias", bias)

    def element(p: Any, q: Any, s: Any, r: Any) -> Value:
        k = 4 * q + 2 * r + s
        if 4 * quads == depth:
            return read(p, k)
        return select(index(k) < depth, read(p, minimum(k, depth - 1)), 0)

    taken: Callable[..., Value]
    if target.form == ROW:
        row = target.definition.compute(
            "col",
            lambda p, q, s, r: int16(element(p, q, s, r)),
            shape=(pixels, quads, 2, 2),
            dtype="int16",
        )
        taken = lambda p, q, s, r: row[p, q, s, r]  # noqa: E731
    elif target.form == OFFSET_ROW:
        pairs = target.definition.compute(
            "col",
            lambda p, q, r: offset_pair(element(p, q, 0, r), element(p, q, 1, r)),
            shape=(pixels, quads, 2),
            dtype="int16",
        )
        taken = lambda p, q, s, r: input_of(pairs[p, q, r], s)  # noqa: E731
    else:
        columns = target.definition.compute(
            "col",
            lambda q, s, p, r: int16(element(p, q, s, r)),
            shape=(quads, 2, pixels, 2),
            dtype="int16",
        )
        taken = lambda p, q, s, r: columns[q, s, p, r]  # noqa: E731
    return target.reduce(
        "acc",
        node.output.type.shape,
        "int32",
        [("q", 0, quads), ("s", 0, 2), ("r", 0, 2)],
        init=lambda p, c: biases[c],
        update=lambda acc, p, c, q, s, r: (
            acc + int32(taken(p, q, s, r)) * int32(weights[c, q, s, r])
        ),
    )


def _paired_weights(w: Array, quads: int) -> Array:
    """[O, K] as [O, quads, 2 (s), 2 (r)]."""
    padded = np.pad(w, ((0, 0), (0, 4 * quads - w.shape[1])))
    return np.ascontiguousarray(padded.reshape(w.shape[0], quads, 2, 2).transpose(0, 1, 3, 2))
