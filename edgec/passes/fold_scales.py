"""Fold a factor and an offset of each channel into the float convolution or dense before them.

conv(x, w, b) * m + a = conv(x, w * m, b * m + a). The products with constants are computed in
double and rounded once; sums may differ from the unfolded ones in their last bits. A reshape that
keeps the channels' axis may stand between, as one does where a product of matrices has three axes.

Where weights are dequantized, `fold_stored_biases` makes an addition after a product of matrices
its bias, and leaves weights and their scales as they are stored.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Arithmetic, Movement, Storage
from edgec.graph.types import Array
from edgec.ops.reshape import Reshape, attrs_of_view
from edgec.passes.rewriter import Rewriter

#: Arithmetic that goes into weights and biases.
FOLDED = (Arithmetic.SUM, Arithmetic.DIFFERENCE, Arithmetic.PRODUCT)


def fold_scales(function: Function) -> Function:
    """The function without `mul`, `add` and `sub` of channel constants after products."""
    return Rewriter(function).run(_Fold(function, is_stored=False))


def fold_stored_biases(function: Function) -> Function:
    """The function without `add` of channel constants after `dense` of dequantized weights."""
    return Rewriter(function).run(_Fold(function, is_stored=True))


class _Fold:
    def __init__(self, function: Function, *, is_stored: bool) -> None:
        self.function = function
        self.is_stored = is_stored
        self.readers = function.consumers()
        self.producers = function.producers()
        self.folded: set[Value] = set()

    def __call__(
        self, rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        computes = node.op.computes
        if computes not in FOLDED or not node.output.type.is_float:
            return None
        data, constant = inputs
        source = node.inputs[0]
        if isinstance(data, Constant) and computes is not Arithmetic.DIFFERENCE:
            data, constant, source = constant, data, node.inputs[1]
        if not isinstance(constant, Constant) or not self._is_read_once(source):
            return None
        above = self._product(rewriter, data, source)
        if above is None or not above.output.type.is_float:
            return None
        values = _of_channels(constant.data, data.type.shape)
        if values is None or not isinstance(above.inputs[2], Constant):
            return None
        if self.is_stored:
            return self._with_bias(rewriter, node, above, above.inputs[2], values)
        folded = _folded(node.op.computes, above, values)
        if folded is None:
            return None
        constants = [
            rewriter.builder.constant(old.name, array)
            for old, array in zip(above.inputs[1:], folded, strict=True)
        ]
        return self._made(rewriter, node, above, [above.inputs[0], *constants])

    def _with_bias(
        self, rewriter: Rewriter, node: Node, above: Node, bias: Constant, values: Array
    ) -> Sequence[Value] | None:
        """A product of matrices, whose bias is all zeros, with these values for one."""
        x, weights = above.inputs[:2]
        stored = rewriter.producer(weights)
        products = above.op.products
        if node.op.computes is not Arithmetic.SUM or products is None or products.window:
            return None
        if bias.data.any() or stored is None or stored.op.storage is not Storage.DEQUANTIZE:
            return None
        made = rewriter.builder.constant(bias.name, values.astype(np.float32))
        return self._made(rewriter, node, above, [x, weights, made])

    def _made(
        self, rewriter: Rewriter, node: Node, above: Node, operands: Sequence[Value]
    ) -> Sequence[Value]:
        """The product of these operands, followed by the nodes after the old one."""
        builder = rewriter.builder
        (output,) = node.outputs
        is_viewed = above.output.type.shape != output.type.shape
        made = builder.op(
            above.op, operands, above.attrs, name=above.name,
            output_names=None if is_viewed else [output.name],
            origins=None if is_viewed else [output.origin],
            sources=(*above.sources, *node.sources),
        )  # fmt: skip
        self.folded.add(made)
        if not is_viewed:
            return (made,)
        attrs, name = attrs_of_view(output.type.shape, output.type.extents), f"{above.name}/view"
        return rewriter.remake(node, [made], attrs, op=Reshape, name=name, sources=())

    def _product(self, rewriter: Rewriter, data: Value, source: Value) -> Node | None:
        """The product with `data` as its only reader's operand, directly or through a view of the
        same channels.

        source: `data` in the old function.
        """
        above = rewriter.producer(data)
        if above is not None and above.op.movement is Movement.RESHAPE:
            inner = above.inputs[0]
            if inner.type.shape[-1:] != data.type.shape[-1:]:
                return None
            if inner not in self.folded:
                view = self.producers.get(source)
                if view is None or view.op.movement is not Movement.RESHAPE:
                    return None
                if not self._is_read_once(view.inputs[0]):
                    return None
            above = rewriter.producer(inner)
        return above if above is not None and above.op.dot_products is not None else None

    def _is_read_once(self, value: Value) -> bool:
        return len(self.readers.get(value, [])) == 1 and value not in self.function.results


def _folded(computes: Arithmetic | None, above: Node, values: Array) -> list[Array] | None:
    """Weights and bias of a product with this arithmetic in them; None where they overflow."""
    weights, bias = above.inputs[1:]
    if not isinstance(weights, Constant) or not isinstance(bias, Constant):
        return None
    new_weights, new_bias = weights.data.astype(np.float64), bias.data.astype(np.float64)
    if computes is Arithmetic.PRODUCT:
        assert above.op.products is not None
        shape = [1] * new_weights.ndim
        shape[above.op.products.outputs] = -1
        new_weights, new_bias = new_weights * values.reshape(shape), new_bias * values
    else:
        new_bias = new_bias + (values if computes is Arithmetic.SUM else -values)
    with np.errstate(over="ignore"):
        folded = [array.astype(np.float32) for array in (new_weights, new_bias)]
    return folded if all(np.isfinite(array).all() for array in folded) else None


def _of_channels(constant: Array, shape: tuple[int, ...]) -> Array | None:
    """The constant as one value for each index of the last axis of `shape`, if it is that."""
    if constant.ndim > len(shape) or any(extent != 1 for extent in constant.shape[:-1]):
        return None
    if constant.size not in (1, shape[-1]):
        return None
    return np.broadcast_to(constant.reshape(-1).astype(np.float64), (shape[-1],))
