"""pair_coupling: probabilities of classes from probabilities of pairs, by a descent.

Source: Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise
coupling", 2004, second approach, in the form and with the limits of LIBSVM and ONNX Runtime: the
probabilities change one after the other, until no error is above 0.005 / classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Constant, Node
from edgec.graph.operator import Fusion, NoAttrs, register
from edgec.graph.types import Array, Arrays, TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, clamp, index, int32, maximum, select
from edgec.numerics.float_math import float_maximum, float_minimum
from edgec.ops.broadcast import tensor_of
from edgec.ops.op import Op

#: Maximum number of rounds; each updates every probability once.
ROUNDS = 100
#: The largest error that ends the descent, times the classes.
ERROR = 0.005
#: How near the probability of a pair may be to 0 and 1.
EDGE = 1e-7


@register
class PairCoupling(Op[NoAttrs]):
    """x float32 [rows, pairs], of each pair (0, 1), (0, 2), … (1, 2) … the probability of its first
    class: [rows, classes].
    """

    name = "pair_coupling"
    fusion = Fusion.OPAQUE
    tolerance = 2e-5

    def infer(self, attrs: NoAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The number of classes that have this number of pairs."""
        (x,) = inputs
        pairs = x.shape[-1] if len(x.shape) == 2 else 0
        classes = (1 + isqrt(1 + 8 * pairs)) // 2
        if x.dtype != "float32" or classes < 2 or classes * (classes - 1) // 2 != pairs:
            raise TypeMismatch(f"pair_coupling of {x}")
        return (TensorType((x.shape[0], classes), "float32"),)

    def evaluate(
        self, attrs: NoAttrs, inputs: Arrays, input_types: Types, output_types: Types
    ) -> tuple[Array, ...]:
        """The same in NumPy, with the steps after the last change left out."""
        rows, classes = output_types[0].shape
        losses = _known_losses(inputs[0], classes)
        p = np.full((rows, classes), 1 / classes, np.float32)
        going = np.ones(rows, bool)
        for _ in range(ROUNDS):
            slope = _summed(losses * p[:, np.newaxis])
            square = _summed(p * slope)
            going &= np.abs(slope - square[:, np.newaxis]).max(axis=1) >= np.float32(
                ERROR / classes
            )
            if not going.any():
                break
            for i in range(classes):
                own, now = losses[:, i, i], slope[:, i]
                by = np.where(going, (square - now) / own, np.float32(0))
                whole = by + np.float32(1)
                square = (square + by * (by * own + np.float32(2) * now)) / whole / whole
                slope = (slope + by[:, np.newaxis] * losses[:, i]) / whole[:, np.newaxis]
                p[:, i] += by
                p /= whole[:, np.newaxis]
        return (p,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A step for each probability of each round; those after the last change nothing."""
        x = tensor_of(inputs[0])
        define, (p,) = target.definition, target.targets
        rows, classes = node.output.type.shape
        losses = _losses(target, x, classes)
        slope, moved, square, going = (
            define.temporary(target.unique(name), shape, dtype)
            for name, shape, dtype in (("slope", (rows, classes), "float32"),
                                       ("moved", (rows, classes), "float32"),
                                       ("square", (rows,), "float32"), ("going", (rows,), "int32"))
        )  # fmt: skip
        define.compute(p, lambda n, c: 1 / classes, name="start")
        define.compute(moved, lambda n, c: 0.0, name="start_moved")
        define.compute(square, lambda n: 0.0, name="start_square")
        define.compute(going, lambda n: 1, name="start_going")
        with define.steps("steps", ROUNDS * classes):
            fresh = define.reduce(
                "fresh", [("k", 0, classes)], init=lambda t, n, c: 0.0,
                update=lambda sum_, t, n, c, k: sum_ + losses[n, c, k] * p[n, k],
                shape=(rows, classes), dtype="float32",
            )  # fmt: skip
            define.compute(
                slope, lambda t, n, c: select(_is_first(t, classes), fresh[n, c], moved[n, c])
            )
            _measure(target, p, slope, square, going)
            _change(target, p, losses, slope, square, going, moved)
        return p


def _summed(terms: Array) -> Array:
    """Sums along the last axis, one by one."""
    return np.asarray(np.add.accumulate(terms, axis=-1)[..., -1])


def _known_losses(x: Array, classes: int) -> Array:
    """`_losses` for arrays."""
    first, second = np.triu_indices(classes, 1)
    wins = np.zeros((len(x), classes, classes), np.float32)
    low, high = np.float32(EDGE), np.float32(1 - EDGE)
    wins[:, first, second] = float_minimum(float_maximum(x, low), high)
    wins[:, second, first] = np.float32(1) - wins[:, first, second]
    losses = -(wins.transpose(0, 2, 1) * wins)
    losses[:, range(classes), range(classes)] = _summed((wins * wins).transpose(0, 2, 1))
    return losses


def _is_first(step: Any, classes: int) -> Value:
    return index(step % classes).equals(0)


def _losses(target: Lowering, x: Tensor, classes: int) -> Tensor:
    """[rows, classes, classes]: the matrix whose form the descent makes small."""
    pair = np.zeros((classes, classes), np.int32)
    pair[np.triu_indices(classes, 1)] = np.arange(x.shape[1])
    numbers = target.table("pair", pair + pair.T)

    def wins(n: Any, i: Any, j: Any) -> Value:
        """The probability of i against j."""
        first = clamp(x[n, int32(numbers[i, j])], EDGE, 1 - EDGE)
        return select(index(i) < index(j), first, 1.0 - first)

    own = target.definition.reduce(
        "own", [("k", 0, classes)], init=lambda n, i: 0.0,
        update=lambda sum_, n, i, k: sum_ + select(
            index(i).equals(index(k)), 0.0, wins(n, k, i) * wins(n, k, i)
        ),
        shape=(x.shape[0], classes), dtype="float32",
    )  # fmt: skip
    return target.definition.compute(
        "losses",
        lambda n, i, j: select(
            index(i).equals(index(j)), own[n, i], -(wins(n, j, i) * wins(n, i, j))
        ),
        shape=(x.shape[0], classes, classes),
        dtype="float32",
    )


def _measure(target: Lowering, p: Tensor, slope: Tensor, square: Tensor, going: Tensor) -> None:
    """At the beginning of a round: the form itself, and whether an error is too large."""
    define, (rows, classes) = target.definition, p.shape
    total = define.reduce(
        "total", [("k", 0, classes)], init=lambda t, n: 0.0,
        update=lambda sum_, t, n, k: sum_ + p[n, k] * slope[n, k], shape=(rows,), dtype="float32",
    )  # fmt: skip

    def larger(worst: Value, t: Any, n: Any, k: Any) -> Value:
        error = slope[n, k] - total[n]
        found: Value = maximum(maximum(error, -error), worst)
        return found

    worst = define.reduce(
        "worst", [("k", 0, classes)], init=lambda t, n: 0.0, update=larger, shape=(rows,),
        dtype="float32",
    )  # fmt: skip
    define.compute(
        going,
        lambda t, n: select(
            _is_first(t, classes) & (worst[n] < ERROR / classes), going[n] * 0, going[n]
        ),
        name="still_going",
    )
    define.compute(
        square, lambda t, n: select(_is_first(t, classes), total[n], square[n]), name="own_square"
    )


def _change(
    target: Lowering, p: Tensor, losses: Tensor, slope: Tensor, square: Tensor, going: Tensor,
    moved: Tensor,
) -> None:  # fmt: skip
    """One probability changed, and all made a sum of one again."""
    define, (rows, classes) = target.definition, p.shape

    def change(t: Any, n: Any) -> Value:
        i = t % classes
        wanted = (square[n] - slope[n, i]) / losses[n, i, i]
        return select(going[n].equals(1), wanted, 0.0)

    by = define.compute("by", change, shape=(rows,), dtype="float32")

    def new_square(t: Any, n: Any) -> Value:
        i, whole = t % classes, by[n] + 1.0
        grown = by[n] * (by[n] * losses[n, i, i] + 2.0 * slope[n, i])
        return (square[n] + grown) / whole / whole

    define.compute(square, new_square, name="new_square")
    define.compute(
        moved,
        lambda t, n, c: (slope[n, c] + by[n] * losses[n, t % classes, c]) / (by[n] + 1.0),
        name="new_moved",
    )
    define.compute(
        p,
        lambda t, n, c: (
            (p[n, c] + select(index(t % classes).equals(index(c)), by[n], 0.0)) / (by[n] + 1.0)
        ),
        name="new",
    )
