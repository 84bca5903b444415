"""Windows of convolutions."""

from __future__ import annotations

from edgec.graph.ir import Node
from edgec.loop.window import Window


def known_window(node: Node, kernel: tuple[int, int]) -> Window | None:
    """The window of a convolution node of either kind; `kernel` is (height, width).

    None where the input's integers have scales that only a run computes.
    """
    attrs = node.attrs
    (top, _), (left, _) = attrs.padding
    _, height, width, channels = node.inputs[0].type.shape
    quant = node.inputs[0].type.quant
    if quant is None and not node.output.type.is_float:
        return None
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
