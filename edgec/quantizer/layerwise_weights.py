"""Choose weights layer after layer, each for the actual outputs of the quantized layers before it.

A layer computes y = W x + b of x; in integers it reads x', which has the errors of all layers
before it. So its weights are chosen anew for x' (as in "asymmetric reconstruction", AdaRound,
arXiv:2004.10568, 4.2): with covariances over some samples,

    W* = (W Cov[x, x'] + d W) (Cov[x', x'] + d I)^-1        least squares, held near W by d

is the best real weights; its scales and rounding are chosen for Cov[x', x'], and the bias restores
the mean of the output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.types import Array
from edgec.quantizer.batches import Batch, parts_of
from edgec.quantizer.group_scales import group_scales
from edgec.quantizer.insert import insert_qdq, nodes_by_name
from edgec.quantizer.moments import (
    MOST_INPUTS,
    as_rows,
    from_rows,
    input_rows,
    products_of,
    weights_of,
)
from edgec.quantizer.reconstruct import choose_rounding
from edgec.quantizer.scheme import (
    Scheme,
    Stored,
    Weights,
    least_scales,
    limits,
    nearest_weights,
    quantize_weights,
)

#: Rows of a layer's inputs that count, at most, over all samples.
MOST_ROWS = 1 << 15
#: Regularization toward the original weights, relative to the mean variance of an input.
HOLD = 0.02
#: The scales to try for few bits, relative to the smallest scale that clips no weight.
SHARES = np.linspace(1.0, 0.4, 25)
#: Means of fewer rows are not reliable.
LEAST_ROWS = 32


@dataclass(frozen=True)
class LayerwiseWeights:
    """scheme: with the chosen weights. others: each layer's weights in other bits, if only this
    layer had them.
    """

    scheme: Scheme
    others: Mapping[Node, Weights]


def layerwise_weights(
    function: Function,
    scheme: Scheme,
    samples: Sequence[Sequence[Array]],
    *,
    biases: bool = True,
    other_bits: int | None = None,
    group: int = 0,
) -> LayerwiseWeights:
    """The scheme with weights chosen on these samples, and biases too unless they are to stay.

    other_bits: choose weights of this many bits beside them, for layers that have others, in groups
    of at most `group` inputs.
    """
    quantized = insert_qdq(function, scheme).function
    batches = Batch(function), Batch(quantized)
    at_once = min(batch.count for batch in batches)
    exact, found = (_Side(batch, samples, at_once) for batch in batches)
    named = nodes_by_name(quantized)
    weights: dict[Node, Weights] = dict(scheme.weights)
    others: dict[Node, Weights] = {}
    for node in function.nodes:
        if node not in weights or node.op.dot_products is None:
            continue
        twin = named[node.name]
        exact.run_before(node)
        found.run_before(twin)
        x = scheme.values.get(node.inputs[0])
        given = [weights[node]]
        if other_bits is not None and other_bits != given[0].bits:
            given.append(nearest_weights(node, x, other_bits, group))
        depth = as_rows(node, weights_of(node)).shape[2]
        moments = None if depth > MOST_INPUTS else _Moments(exact.inputs(node), found.inputs(twin))
        if moments is not None and moments.count >= LEAST_ROWS:
            chosen = [_chosen(node, each, moments, x) for each in given]
            given = [
                new if biases else replace(new, bias=old.bias)
                for new, old in zip(chosen, given, strict=True)
            ]
        weights[node] = given[0]
        if len(given) > 1:
            others[node] = given[1]
        found.override(twin, weights[node])
    return LayerwiseWeights(replace(scheme, weights=weights), others)


class _Side:
    """One function on all samples, part by part, as far as it has been run."""

    def __init__(self, batch: Batch, samples: Sequence[Sequence[Array]], at_once: int) -> None:
        self.batch = batch
        self.nodes = batch.function.nodes
        self.done = 0
        params = batch.function.params
        self.known: list[dict[Value, Array]] = [
            dict(zip(params, inputs, strict=True)) for inputs in parts_of(samples, at_once)
        ]
        self.counts = [len(known[params[0]]) for known in self.known]
        self.last_use = {v: i for i, node in enumerate(self.nodes) for v in node.inputs}

    def run_before(self, node: Node) -> None:
        """Run all nodes before this one; values that nothing reads again are forgotten."""
        while self.nodes[self.done] is not node:
            step = self.nodes[self.done]
            for known, count in zip(self.known, self.counts, strict=True):
                known.update(zip(step.outputs, self.batch.step(step, known, count), strict=True))
                for value in step.inputs:
                    if self.last_use[value] == self.done:
                        known.pop(value, None)
            self.done += 1

    def inputs(self, node: Node) -> list[Array]:
        """The factors of a node's weights, [groups, rows, K] for each part."""
        return [input_rows(node, known[node.inputs[0]]) for known in self.known]

    def override(self, node: Node, weights: Weights) -> None:
        for known in self.known:
            known[node.inputs[1]] = weights.real()
            known[node.inputs[2]] = weights.bias


class _Moments:
    """Means and covariances of rows x and x', [groups, K] and [groups, K, K].

    Sums of products are taken in float64 and rounded to float32, so that the order in which the
    machine's matrix product adds, another on other cores and threads, does not choose weights.
    """

    def __init__(self, exact: Sequence[Array], found: Sequence[Array]) -> None:
        rows = sum(part.shape[1] for part in exact)
        step = -(-rows // MOST_ROWS)
        self.count = rows
        self.mean = sum(part.sum(axis=1, dtype=np.float64) for part in exact) / rows
        self.found_mean = sum(part.sum(axis=1, dtype=np.float64) for part in found) / rows
        self.cross: Array = np.zeros(())
        self.covariance: Array = np.zeros(())
        used = 0
        for x, y in zip(exact, found, strict=True):
            x = x[:, ::step] - self.mean[:, None]
            y = y[:, ::step] - self.found_mean[:, None]
            used += x.shape[1]
            self.cross = self.cross + np.matmul(x.transpose(0, 2, 1), y)
            self.covariance = self.covariance + np.matmul(y.transpose(0, 2, 1), y)
        self.cross = _in_float32(self.cross / used)
        self.covariance = _in_float32(self.covariance / used)


def _chosen(node: Node, given: Weights, moments: _Moments, x: Stored | None) -> Weights:
    own, bits = as_rows(node, weights_of(node).astype(np.float64)), given.bits
    target = _least_squares(own, moments)
    bias = node.inputs[2]
    assert isinstance(bias, Constant)
    real, axis = from_rows(node, target), products_of(node).outputs
    least = least_scales(real, bias.data, axis, x)
    _, quant = quantize_weights(real, axis, least, bits)
    scales = np.asarray(quant.scale).reshape(target.shape[:2])
    if bits < 8:
        shares = _best_shares(target, scales, moments.covariance, bits)
        scales = np.maximum(scales * shares, least.reshape(scales.shape))
        scales = scales.astype(np.float32).astype(np.float64)
    stored, costs = _rounded(target, scales, moments.covariance, bits)
    if given.group:  # each channel with groups or without, whatever costs less
        own_scales, steps = group_scales(target[0], given.group, least, moments.covariance[0])
        others = own_scales.reshape(scales.shape)
        grouped, found = _rounded(target, others, moments.covariance, bits, steps[np.newaxis])
        is_better = found < costs
        stored = np.where(is_better[:, :, None], grouped, stored)
        scales = np.where(is_better, others, scales)
    # W x + b and W' x' + b' have one mean.
    wanted = np.einsum("gok,gk->go", own, moments.mean)
    made = np.einsum("gok,gk->go", stored * scales[:, :, None], moments.found_mean)
    shifted = bias.data.astype(np.float64) + (wanted - made).reshape(-1)
    return replace(
        given,
        data=from_rows(node, stored.astype(np.int8)),
        quant=replace(quant, scale=tuple(map(float, scales.reshape(-1)))),
        bias=shifted.astype(np.float32),
    )


def _rounded(
    target: Array, scales: Array, covariance: Array, bits: int, steps: Array | float = 1.0
) -> tuple[Array, Array]:
    """Stored numbers [groups, rows, K] of real weights, and the error of each row."""
    exact = target / scales[:, :, None]
    start = np.clip(np.rint(exact / steps), *limits(bits)) * steps
    stored = choose_rounding(exact, start, covariance, bits, steps)
    error = (stored - exact) * scales[:, :, None]
    return stored, np.sum(np.matmul(error, covariance) * error, axis=2)


def _least_squares(own: Array, moments: _Moments) -> Array:
    """Real weights [groups, rows, K] that are best for x'."""
    depth = own.shape[2]
    mean = np.einsum("gkk->g", moments.covariance) / depth
    hold = max(HOLD, depth / moments.count) * mean + 1e-30
    identity = hold[:, None, None] * np.eye(depth)
    right = np.matmul(own, moments.cross + identity)
    solved = np.linalg.solve(moments.covariance + identity, right.transpose(0, 2, 1))
    return _in_float32(solved.transpose(0, 2, 1))


def _in_float32(sums: Array) -> Array:
    """Float64 numbers that float32 holds, so that the last bits of sums do not count."""
    return np.asarray(sums.astype(np.float32).astype(np.float64))


def _best_shares(target: Array, scales: Array, covariance: Array, bits: int) -> Array:
    """Return, for each row of weights, the part of its scale with the least rounding error."""
    costs = []
    for share in SHARES:
        steps = scales[:, :, None] * share
        error = np.clip(np.rint(target / steps), *limits(bits)) * steps - target
        costs.append(np.sum(np.matmul(error, covariance) * error, axis=2))
    return np.asarray(SHARES[np.argmin(costs, axis=0)])
