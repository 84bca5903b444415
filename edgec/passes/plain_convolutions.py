"""A depthwise convolution of one channel is a convolution, and large ones are faster as such.

Small windows stay, which become straight code. Integers only: the order in which a convolution
adds up floats is its own.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.ops.conv2d import Conv2d, Conv2dAttrs
from edgec.passes.rewriter import Rewriter

#: Most taps of a window that stays depthwise.
MOST_TAPS = 16


def plain_convolutions(function: Function) -> Function:
    """Depthwise weights [KH, KW, O] of one channel become [O, KH, KW, 1]."""
    return Rewriter(function).run(_visit)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    products = node.op.products
    if products is None or not products.is_depthwise or inputs[0].type.shape[3] != 1:
        return None
    weights = inputs[1]
    if not isinstance(weights, Constant) or inputs[0].type.is_float:
        return None
    quant = weights.type.quant
    if quant is not None and quant.axis is not None:
        quant = quant.with_axis(0)
    if weights.data.shape[0] * weights.data.shape[1] <= MOST_TAPS:
        return None
    data = np.ascontiguousarray(weights.data.transpose(2, 0, 1)[..., None])
    old = node.attrs
    made = rewriter.builder.constant(f"{weights.name}.ohwi", data, quant)
    attrs = Conv2dAttrs(old.stride, old.dilation, old.padding)
    return rewriter.remake(node, [inputs[0], made, *inputs[2:]], attrs, op=Conv2d)
