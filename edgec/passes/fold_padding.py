"""Let windows read padding as such instead of a copy of their input with it.

A pad with the zero point around height and width, before a convolution, becomes the convolution's
own padding, since that contributes nothing either; before a max pool, a pad with the smallest
value of the dtype, which never wins. The pad goes when nobody else reads it. Padding as wide as
the window stays a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgec.errors import TypeMismatch
from edgec.graph.ir import Function, Node, Value
from edgec.graph.traits import Movement
from edgec.ops.window import Padding
from edgec.passes.rewriter import Rewriter


def fold_padding(function: Function) -> Function:
    """The function with fewer pads."""
    return Rewriter(function).run(_visit)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    neutral = node.op.neutral(node.inputs[0].type) if inputs else None
    pad = rewriter.producer(inputs[0]) if neutral is not None else None
    if pad is None or pad.op.movement is not Movement.PAD or pad.attrs.value != neutral:
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
    return rewriter.remake(node, operands, attrs, sources=(*pad.sources, *node.sources))
