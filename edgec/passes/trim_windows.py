"""Taps of a window that no output reads from inside the input are removed.

Padding contributes zero, so a tap that only meets padding has no part in any sum: a 3x3 window with
padding over an image of one pixel is a 1x1 window without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.ops.window import output_extent
from edgec.passes.rewriter import Rewriter


@dataclass(frozen=True)
class Taps:
    """One axis of a window: its taps from `first` on, and how they move over the input."""

    first: int
    count: int
    stride: int
    dilation: int
    padding: tuple[int, int]


def trim_windows(function: Function) -> Function:
    """Convolutions with the taps that read the input; of a window that never does, a zero one."""
    return Rewriter(function).run(_visit)


def trimmed(extent: int, outputs: int, taps: Taps) -> Taps | None:
    """The taps that read one of `extent` inputs for one of `outputs` positions.

    None if all do, or if the others cannot be dropped without cropping the input. If no tap reads
    the input, `first` is the old count: the remaining taps read only zeros.
    """
    before = taps.padding[0]
    used = [
        k
        for k in range(taps.count)
        if any(0 <= p * taps.stride + k * taps.dilation - before < extent for p in range(outputs))
    ]
    if not used:
        if outputs == 1:
            return Taps(taps.count, 1, extent, 1, (0, 0))
        after = (outputs - 2) * extent + 1  # an output for each step of a whole extent
        return Taps(taps.count, 2, extent, after, (after, after))
    first, count = used[0], used[-1] - used[0] + 1
    before -= first * taps.dilation
    reach = (outputs - 1) * taps.stride + (count - 1) * taps.dilation + 1
    after = max(reach - extent - before, 0)
    if count == taps.count or before < 0 or max(before, after) >= (count - 1) * taps.dilation + 1:
        return None
    left = replace(taps, first=first, count=count, padding=(before, after))
    made = output_extent(extent, count, left.stride, left.dilation, left.padding)
    return left if made == outputs else None


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    products = node.op.dot_products
    if products is None or not products.window or not isinstance(inputs[1], Constant):
        return None
    data, attrs = inputs[1].data, node.attrs
    found = []
    for place, axis in enumerate(products.window):
        taps = Taps(0, data.shape[axis], attrs.stride[place], attrs.dilation[place],
                    attrs.padding[place])  # fmt: skip
        extent, outputs = (v.type.shape[place + 1] for v in (inputs[0], node.outputs[0]))
        left = trimmed(extent, outputs, taps)
        found.append(taps if left is None else left)
        if left is not None:
            zeros = [(0, left.count if a == axis else 0) for a in range(data.ndim)]
            padded = np.pad(data, zeros)
            data = padded.take(range(left.first, left.first + left.count), axis)
    if data is inputs[1].data:
        return None
    new = replace(
        attrs,
        stride=tuple(taps.stride for taps in found),
        dilation=tuple(taps.dilation for taps in found),
        padding=tuple(taps.padding for taps in found),
    )
    weights = rewriter.builder.constant(
        f"{inputs[1].name}.trimmed", np.ascontiguousarray(data), inputs[1].type.quant
    )
    return rewriter.remake(node, [inputs[0], weights, *inputs[2:]], new)
