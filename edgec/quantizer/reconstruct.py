"""Choose weights' rounding and biases to keep each layer's outputs close to the float model's.

Rounding up or down is chosen for each weight (as AdaRound does, arXiv:2004.10568) to make the
variance of the output error least: with e the rounding errors of one output in steps of its scale,
e Cov e^T. AdaRound relaxes this problem and follows gradients; here one weight after the other goes
to its other neighbour where that makes the error smaller, until none does. The mean of the error is
taken out of the bias.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from edgec.graph.ir import Node
from edgec.graph.types import Array
from edgec.quantizer.moments import Moments, as_rows, from_rows, weights_of
from edgec.quantizer.scheme import Weights, limits

#: Turns over all weights of a layer, at most.
MOST_TURNS = 30
#: Added to the diagonal of the covariance, relative to its mean: directions that samples hardly
#: show are rounded to nearest.
DAMPING = 0.01


def reconstruct(weights: Mapping[Node, Weights], moments: Mapping[Node, Moments]) -> dict[
    Node, Weights
]:  # fmt: skip
    """Weights rounded anew, with the scales that they have; without moments they stay."""
    return {
        node: rounded(node, given, moments[node]) if node in moments else given
        for node, given in weights.items()
    }


def with_rounding(
    weights: Mapping[Node, Weights], chosen: Mapping[Node, Weights]
) -> dict[Node, Weights]:
    """Weights with the rounding that was chosen for the same scales; others stay."""
    return {
        node: replace(given, data=chosen[node].data) if chosen[node].quant == given.quant else given
        for node, given in weights.items()
    }


def correct_biases(weights: Mapping[Node, Weights], moments: Mapping[Node, Moments]) -> dict[
    Node, Weights
]:  # fmt: skip
    """The mean of each output's error taken out of its bias (arXiv:1906.04721, 4.2)."""
    return {
        node: _corrected(node, given, moments[node]) if node in moments else given
        for node, given in weights.items()
    }


def _corrected(node: Node, weights: Weights, moments: Moments) -> Weights:
    if not moments.count:
        return weights
    error = weights.real().astype(np.float64) - weights_of(node)
    shift = np.einsum("gok,gk->go", as_rows(node, error), moments.mean).reshape(-1)
    return replace(weights, bias=(weights.bias.astype(np.float64) - shift).astype(np.float32))


def rounded(node: Node, weights: Weights, moments: Moments) -> Weights:
    """One layer's weights, rounded for the least variance of the output error."""
    covariance = moments.covariance
    if covariance is None or not moments.part_count:
        return weights
    quant = weights.quant
    shape = [-1 if axis == quant.axis else 1 for axis in range(weights.data.ndim)]
    scales = np.asarray(quant.scale).reshape(shape)
    exact = as_rows(node, weights_of(node).astype(np.float64) / scales)
    start = as_rows(node, weights.data.astype(np.float64))
    chosen = choose_rounding(exact, start, covariance, weights.bits)
    return replace(weights, data=from_rows(node, chosen.astype(np.int8)))


def choose_rounding(
    exact: Array, start: Array, covariance: Array, bits: int = 8, steps: Array | float = 1.0
) -> Array:
    """Integers next to `exact` that make e covariance e^T small for each row e of errors.

    exact: weights in steps, start: integers to begin with, both [groups, rows, K]; covariance
    [groups, K, K]. The descent begins there, and a second one where each weight compensates the
    errors before it; each row takes the better result. Returns float64 integers within the limits
    of this many bits, multiples of `steps` (one number, or one for each weight).
    """
    diagonal = np.einsum("gkk->gk", covariance)
    damping = DAMPING * diagonal.mean(axis=1)
    quadratic = covariance + damping[:, None, None] * np.eye(exact.shape[2])
    low = np.clip(np.floor(exact / steps), *limits(bits)) * steps
    high = np.clip(np.ceil(exact / steps), *limits(bits)) * steps
    wide = np.broadcast_to(np.asarray(steps, np.float64), exact.shape)
    ends = [
        _descend(exact, begin, low, high, quadratic)
        for begin in (start, _making_up(exact, low, high, wide, quadratic))
    ]
    costs = [np.sum(np.matmul(e - exact, quadratic) * (e - exact), axis=2) for e in ends]
    return np.where((costs[1] < costs[0])[:, :, None], ends[1], ends[0])


def _descend(exact: Array, start: Array, low: Array, high: Array, quadratic: Array) -> Array:
    """Move one weight after the other to its other neighbour where that costs less."""
    chosen = start.copy()
    slope = np.matmul(chosen - exact, quadratic)  # half the gradient, [groups, rows, K]
    for _ in range(MOST_TURNS):
        flips = 0
        for k in range(exact.shape[2]):
            step = np.where(chosen[:, :, k] == low[:, :, k], high[:, :, k], low[:, :, k])
            step -= chosen[:, :, k]
            change = 2 * step * slope[:, :, k] + step * step * quadratic[:, k, k, None]
            step = np.where(change < 0, step, 0.0)
            if not step.any():
                continue
            flips += int(np.count_nonzero(step))
            chosen[:, :, k] += step
            slope += step[:, :, None] * quadratic[:, None, k, :]
        if not flips:
            break
    return chosen


def _making_up(exact: Array, low: Array, high: Array, steps: Array, quadratic: Array) -> Array:
    """Each weight rounded to compensate the errors of the ones before it."""
    chosen = np.empty_like(exact)
    slope = np.zeros_like(exact)
    for k in range(exact.shape[2]):
        curve = np.maximum(quadratic[:, k, k, None], 1e-300)
        wanted = exact[:, :, k] - slope[:, :, k] / curve
        near = np.rint(wanted / steps[:, :, k]) * steps[:, :, k]
        chosen[:, :, k] = np.clip(near, low[:, :, k], high[:, :, k])
        error = chosen[:, :, k] - exact[:, :, k]
        slope += error[:, :, None] * quadratic[:, None, k, :]
    return chosen
