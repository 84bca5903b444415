"""Windows of convolutions."""

from __future__ import annotations

from edgec.graph.ir import Node
from edgec.loop.lowering import Lowering
from edgec.loop.window import Window


def window_of(node: Node, kernel: tuple[int, int]) -> Window:
    """The window of a convolution node of either kind; `kernel` is (height, width)."""
    attrs = node.attrs
    (top, _), (left, _) = attrs.padding
    _, height, width, channels = node.inputs[0].type.shape
    quant = node.inputs[0].type.quant
    return Window(
        shape=(height, width, channels),
        kernel=kernel,
        stride=attrs.stride,
        dilation=attrs.dilation,
        corner=(top, left),
        out_width=node.output.type.shape[2],
        is_padded=any(any(pair) for pair in attrs.padding),
        zero_point=0 if quant is None else quant.zero_point[0],
    )


def known_window(node: Node, kernel: tuple[int, int], target: Lowering) -> Window | None:
    """The same, of a convolution that is lowered plainly; None where it does not have the form that
    was asked for, and where the input's integers have scales that only a run computes.
    """
    is_known = node.output.type.is_float or node.inputs[0].type.quant is not None
    return window_of(node, kernel) if is_known and target.form == "direct" else None
