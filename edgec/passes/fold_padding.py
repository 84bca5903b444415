"""Let windows read padding as such instead of a copy of their input with it.

A pad with the zero point around height and width, before a convolution, becomes the convolution's
own padding, since that contributes nothing either; before a max pool, a pad with the smallest
value of the dtype, which never wins. The pad goes when nobody else reads it. Padding as wide as
the window stays a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgec.errors import TypeMismatch
from edgec.graph.ir import Function, Node, Value
from edgec.ops.window import Padding
from edgec.passes.rewriter import Rewriter

CONVOLUTIONS = ("conv2d", "depthwise_conv2d")


def fold_padding(function: Function) -> Function:
    """The function with fewer pads."""
    return Rewriter(function).run(_visit)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.op.name not in (*CONVOLUTIONS, "max_pool2d"):
        return None
    pad = rewriter.producer(inputs[0])
    if pad is None or pad.op.name != "pad" or pad.attrs.value != _neutral(node):
        return None
    outermost, height, width, innermost = pad.attrs.padding
    if any((*outermost, *innermost)):
        return None
    own: Padding = node.attrs.padding
    merged = tuple(
        (pair[0] + more[0], pair[1] + more[1])
        for pair, more in zip(own, (height, width), strict=True)
    )
    attrs = replace(node.attrs, padding=merged)
    operands = (pad.inputs[0], *inputs[1:])
    try:
        node.op.infer(attrs, *(value.type for value in operands))
    except TypeMismatch:
        return None
    return rewriter.builder.node(
        node.op,
        operands,
        attrs,
        name=node.name,
        output_names=[value.name for value in node.outputs],
        origins=[value.origin for value in node.outputs],
        sources=(*pad.sources, *node.sources),
    ).outputs


def _neutral(node: Node) -> float:
    """The stored value that adds nothing to a window."""
    x = node.inputs[0].type
    if node.op.name == "max_pool2d":
        return -np.inf if x.is_float else int(np.iinfo(x.dtype).min)
    return 0 if x.quant is None else x.quant.zero_point[0]
