"""Padding with inner elements: mirrored at the edges, as reversed slices that are joined.

The edge itself again, or the elements of the other end, are gathers along an axis.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.ops.concat import ConcatAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.scattered import AxisAttrs
from edgec.ops.slice import SliceAttrs


def append_mirrored(
    builder: GraphBuilder,
    raw: RawNode,
    x: Value,
    pairs: Sequence[tuple[int, int]],
    *,
    with_edge: bool = False,
) -> Value:
    """x with (before, after) mirrored elements along each axis; with_edge: the edge's too.

    Raises ImportFailed if there are not this many elements.
    """
    padded = [axis for axis, pair in enumerate(pairs) if any(pair)]
    for axis in padded:
        before, after = pairs[axis]
        shape, edge = x.type.shape, int(with_edge)
        most = shape[axis] - 1 + edge
        if not 0 <= min(before, after) <= max(before, after) <= most:
            raise ImportFailed(
                f"mirrored padding of {before} and {after} along an axis of {shape[axis]}"
            )

        def backwards(
            what: str, first: int, count: int, x: Value = x, axis: int = axis
        ) -> list[Value]:
            if not count:
                return []
            rank = len(x.type.shape)
            attrs = SliceAttrs(
                tuple(first if a == axis else 0 for a in range(rank)),
                tuple(-1 if a == axis else 1 for a in range(rank)),
                tuple(count if a == axis else e for a, e in enumerate(x.type.shape)),
            )
            name = f"{raw.name}/{what}{axis}"
            return [builder.op("slice", [x], attrs, name=name, sources=(raw.name,))]

        parts = [
            *backwards("before", before - edge, before),
            x,
            *backwards("after", shape[axis] - 2 + edge, after),
        ]
        is_last = axis == padded[-1]
        name = raw.name if is_last else f"{raw.name}/axis{axis}"
        sources = () if is_last else (raw.name,)
        x = builder.op("concat", parts, ConcatAttrs(axis, x.type.quant), name=name, sources=sources)
    return x


#: ONNX's modes.
BORDERS = ("reflect", "edge", "wrap")


def append_border(
    builder: GraphBuilder, raw: RawNode, x: Value, pairs: Sequence[tuple[int, int]], mode: str
) -> Value:
    """x with (before, after) elements along each axis, by one of BORDERS."""
    if mode == "reflect":
        return append_mirrored(builder, raw, x, pairs)
    for axis, pair in enumerate(pairs):
        if min(pair) < 0 or not x.type.shape[axis]:
            raise ImportFailed(f"padding {pair} by {mode} along an axis of {x.type.shape[axis]}")
        if any(pair):
            places = np.arange(x.type.shape[axis], dtype=np.int32)
            table = np.pad(places, pair, "wrap" if mode == "wrap" else "edge")
            name = f"{raw.name}/axis{axis}"
            places_value = builder.constant(f"{name}.places", table)
            x = builder.op(
                "gather", [x, places_value], AxisAttrs(axis), name=name, sources=(raw.name,)
            )
    return x


@from_tflite("MIRROR_PAD")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite MIRROR_PAD by constants."""
    x, padding = raw.operands(2)
    if not isinstance(padding, Constant) or padding.data.shape != (len(x.type.shape), 2):
        raise ImportFailed("the padding must be a constant pair for each axis")
    pairs = [(int(before), int(after)) for before, after in np.asarray(padding.data)]
    is_symmetric = raw.attribute("mode", "REFLECT") == "SYMMETRIC"
    return append_mirrored(builder, raw, x, pairs, with_edge=is_symmetric)
