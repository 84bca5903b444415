"""First and second moments of the operands of a layer's weights.

A layer with weights [O, K] turns an input row x [K] into W x + b; a convolution does so for every
window. Rounding errors D = W' - W of the weights change its outputs by D x, with mean D E[x] and
variance D Cov[x] D^T: E and Cov suffice to correct biases and to choose how weights are rounded.
"""

from __future__ import annotations

import numpy as np

from edgec.graph.ir import Constant, Node
from edgec.graph.traits import Products
from edgec.graph.types import Array
from edgec.ops.window import pad_hw, patches, taps

#: Rows of one sample that count for the second moments; means are of all rows.
MOST_ROWS = 512
#: Beyond this many inputs of one output no second moments are kept.
MOST_INPUTS = 2048


class Moments:
    """Sums over the input rows of one node with weights.

    Depthwise convolutions have a group of rows for each input channel, other layers one group.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        groups, _, depth = as_rows(node, weights_of(node)).shape
        self.count = 0
        self.sums = np.zeros((groups, depth))
        self.part_count = 0
        self.part_sums = np.zeros((groups, depth))
        self.products = np.zeros((groups, depth, depth)) if depth <= MOST_INPUTS else None

    def add(self, x: Array) -> None:
        rows = input_rows(self.node, x)
        self.count += rows.shape[1]
        self.sums += rows.sum(axis=1, dtype=np.float64)
        if self.products is None:
            return
        step = -(-rows.shape[1] // MOST_ROWS)
        # Another phase for each sample, so that every place is seen.
        part = rows[:, self.part_count % step :: step]
        self.part_count += part.shape[1]
        self.part_sums += part.sum(axis=1, dtype=np.float64)
        self.products += np.matmul(part.transpose(0, 2, 1), part)

    @property
    def mean(self) -> Array:
        """E[x], [groups, K]."""
        return self.sums / max(self.count, 1)

    @property
    def covariance(self) -> Array | None:
        """Cov[x], [groups, K, K]; None if there are too many inputs."""
        if self.products is None:
            return None
        count = max(self.part_count, 1)
        mean = self.part_sums / count
        return np.asarray(self.products / count - mean[:, :, None] * mean[:, None, :])


def weights_of(node: Node) -> Array:
    weights = node.inputs[1]
    assert isinstance(weights, Constant)
    return weights.data


def products_of(node: Node) -> Products:
    """The products of a node with weights. ValueError if it has none."""
    found = node.op.dot_products
    if found is None:
        raise ValueError(f"{node.name} has no weights")
    return found


def as_rows(node: Node, weights: Array) -> Array:
    """Weights [groups, outputs of a group, K] in the order of `input_rows`."""
    if not products_of(node).is_depthwise:
        return weights.reshape(1, len(weights), -1)
    channels = node.inputs[0].type.shape[3]
    return weights.reshape(-1, channels, weights.shape[2] // channels).transpose(1, 2, 0)


def from_rows(node: Node, rows: Array) -> Array:
    """The inverse of `as_rows`."""
    shape = weights_of(node).shape
    if not products_of(node).is_depthwise:
        return rows.reshape(shape)
    return np.ascontiguousarray(rows.transpose(2, 0, 1).reshape(shape))


def some_input_rows(node: Node, x: Array, samples: int, most: int) -> Array:
    """At most this many rows, evenly spread, of each sample: [samples, groups, rows, K] float32.

    x: the node's input for all samples, one after another along its first axis.
    """
    if not products_of(node).window:
        rows = x.reshape(samples, 1, -1, x.shape[-1])
        return rows[:, :, :: -(-rows.shape[2] // most)]
    count, height, width = node.output.type.shape[:3]
    step = -(-count * height * width // most)
    image, pixel = np.divmod(np.arange(0, count * height * width, step), height * width)
    images = image + count * np.arange(samples)[:, np.newaxis]
    down, along = np.divmod(pixel, width)
    kernel, is_deep = _kernel(node), products_of(node).is_depthwise
    padded = pad_hw(x, node.attrs.padding, 0.0)
    views = taps(padded, kernel, node.attrs.stride, node.attrs.dilation, (height, width))
    stacked = np.stack([view[images, down, along] for _, _, view in views], axis=2)
    if is_deep:
        return stacked.transpose(0, 3, 1, 2)
    return stacked.reshape(samples, 1, len(pixel), -1)


def _kernel(node: Node) -> tuple[int, int]:
    """Height and width of a node's window."""
    height, width = (node.inputs[1].type.shape[axis] for axis in products_of(node).window)
    return height, width


def input_rows(node: Node, x: Array) -> Array:
    """The operands of the weights, [groups, rows, K] float32."""
    if not products_of(node).window:
        return x[np.newaxis]
    padded = pad_hw(x, node.attrs.padding, 0.0)
    extents = node.output.type.shape[1:3]
    kernel = _kernel(node)
    if not products_of(node).is_depthwise:
        rows = patches(padded, kernel, node.attrs.stride, node.attrs.dilation, extents)
        return np.asarray(rows)[np.newaxis]
    views = taps(padded, kernel, node.attrs.stride, node.attrs.dilation, extents)
    stacked = np.stack([view for _, _, view in views], axis=-1)  # [N, OH, OW, C, K]
    channels, depth = stacked.shape[-2:]
    return np.ascontiguousarray(stacked.reshape(-1, channels, depth).transpose(1, 0, 2))
