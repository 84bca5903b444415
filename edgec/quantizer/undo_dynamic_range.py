"""Dynamic range undone: products of run-time int8 and int8 weights as the floats they stand for.

Some float models come with stored int8 weights; their activations are floats, which such layers
quantize anew in every run (`edgec.ops.dynamic_range`). To quantize the model statically, the layers
become float layers again, with dequantized weights. Weights whose channels all reach -127 or 127
then get the same integers and scales again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Movement, Storage
from edgec.graph.types import Array
from edgec.passes.rewriter import Rewriter


def undo_dynamic_range(function: Function) -> Function:
    """The function without dynamic range; itself if it has none."""
    if not any(node.op.storage is Storage.RESCALE_ROWS for node in function.nodes):
        return function
    return Rewriter(function).run(_visit)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    """rescale_rows(product(quantize_rows(x), weights)) as one float product; else None."""
    if node.op.storage is not Storage.RESCALE_ROWS:
        return None
    product = rewriter.producer(inputs[0])
    if product is None or product.op.dot_products is None:
        return None
    steps, weights, _ = product.inputs
    quantize = _behind_views(rewriter, steps)
    if quantize is None or quantize.op.storage is not Storage.QUANTIZE_ROWS:
        return None
    if not isinstance(weights, Constant):
        return None
    x = quantize.inputs[0]
    if x.type.shape != steps.type.shape:
        before = rewriter.producer(x)
        if before is None or before.op.movement is not Movement.RESHAPE:
            return None
        x = before.inputs[0]
    if x.type.shape != steps.type.shape:
        return None
    real = _real(weights.data, node.attrs.scales, product.op.dot_products.outputs)
    builder = rewriter.builder
    stored = builder.constant(f"{weights.name}.real", real, origin=weights.origin)
    return builder.node(
        product.op, [x, stored, inputs[1]], product.attrs, name=node.name, sources=node.sources,
        output_names=[node.output.name], origins=[node.output.origin],
    ).outputs  # fmt: skip


def _behind_views(rewriter: Rewriter, value: Value) -> Node | None:
    node = rewriter.producer(value)
    if node is not None and node.op.movement is Movement.RESHAPE:
        node = rewriter.producer(node.inputs[0])
    return node


def _real(stored: Array, scales: tuple[float, ...], axis: int) -> Array:
    """Stored weights times their scales, one for all or one for each index along `axis`."""
    shape = [-1 if a == axis else 1 for a in range(stored.ndim)]
    if len(scales) == 1:
        shape = [1] * stored.ndim
    return stored.astype(np.float32) * np.asarray(scales, np.float32).reshape(shape)
