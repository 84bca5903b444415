"""tile: a tensor repeated along its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import register
from edgec.graph.traits import IntegerForm
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.numerics.term import Term
from edgec.ops.moved import Moved
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import RawNode, from_onnx, from_tflite
from edgec.ops.reshape import ReshapeAttrs, declared_shape
from edgec.ops.slice import constant_integers

#: More elements than this cannot be meant for a small machine.
MOST_ELEMENTS = 1 << 28


@dataclass(frozen=True)
class TileAttrs:
    """repeats: how often along each axis, at least once. terms: the same, where open sizes say."""

    repeats: tuple[int, ...]
    terms: tuple[Term, ...] = ()


@register
class Tile(Moved[TileAttrs]):
    """Element i of an axis is element i modulo the input's extent; quantization stays."""

    name = "tile"
    attrs_class = TileAttrs
    integer_form = IntegerForm.SHARED
    numbers = "repeats"

    def shape(self, attrs: TileAttrs, x: TensorType, *others: TensorType) -> tuple[int, ...]:
        """Each extent times its repeats."""
        if len(attrs.repeats) != len(x.shape) or min(attrs.repeats, default=1) < 1:
            raise TypeMismatch(f"tile by {attrs.repeats} of {x}")
        return tuple(e * count for e, count in zip(x.shape, attrs.repeats, strict=True))

    def source(self, attrs: TileAttrs, at: tuple[Any, ...], x: Tensor, *others: Tensor) -> Any:
        """An axis of extent 1 is read again for every index."""
        axes = zip(at, x.shape, attrs.repeats, strict=True)
        return tuple(0 if e == 1 else i if count == 1 else i % e for i, e, count in axes)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Tile."""
        output = out.define_own(node.output)
        repeats = out.initializer(f"{output}.repeats", np.asarray(node.attrs.repeats, np.int64))
        out.emit("Tile", [out.own(node.inputs[0]), repeats], output)


def _tiled(builder: GraphBuilder, raw: RawNode, x: Value, repeats: Sequence[int]) -> Value:
    """Append a tile, or a view where nothing is repeated."""
    elements = x.type.elements
    for count in repeats:
        if count < 1:
            raise ImportFailed(f"repeats {list(repeats)}: a result without elements")
        elements *= count
    if elements > MOST_ELEMENTS:
        raise ImportFailed(f"repeats {list(repeats)} of {x.type} are {elements} elements")
    if all(count == 1 for count in repeats):
        return builder.op("reshape", [x], ReshapeAttrs(x.type.shape), name=raw.name)
    return builder.op("tile", [x], TileAttrs(tuple(repeats)), name=raw.name)


@from_onnx("Tile", since=6)
@from_tflite("TILE")
def import_tile(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Tile and TFLite TILE by constant repeats, or to the shape that an ONNX file declares."""
    x = raw.operand(0)
    if isinstance(raw.optional(1), Constant) or raw.kind != "Tile":
        return _tiled(builder, raw, x, constant_integers(raw.optional(1), "the repeats"))
    wanted = declared_shape(raw, "the repeats")
    pairs = list(zip(wanted, x.type.shape, strict=True))
    if any(not extent or size % extent for size, extent in pairs):
        raise ImportFailed(f"{x.type} is not repeated to {list(wanted)}")
    return _tiled(builder, raw, x, [size // extent for size, extent in pairs])


@from_onnx("Expand", since=8)
@from_tflite("BROADCAST_TO")
def import_expand(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Expand and TFLite BROADCAST_TO, both ways as NumPy broadcasts.

    The shape is a constant, or the ONNX file declares it.
    """
    x = raw.operand(0)
    if isinstance(raw.operand(1), Constant) or raw.kind != "Expand":
        wanted = constant_integers(raw.optional(1), "the shape")
    else:
        wanted = list(declared_shape(raw, "the shape"))
    rank = max(len(wanted), len(x.type.shape))
    extents = (*(1,) * (rank - len(x.type.shape)), *x.type.shape)
    target = (*(1,) * (rank - len(wanted)), *wanted)
    if any(
        extent != size and 1 not in (extent, size)
        for extent, size in zip(extents, target, strict=True)
    ):
        raise ImportFailed(f"{list(x.type.shape)} does not broadcast to {list(wanted)}")
    if extents != x.type.shape:
        x = builder.op(
            "reshape", [x], ReshapeAttrs(extents), name=f"{raw.name}/rank", sources=(raw.name,)
        )
    repeats = [size if extent == 1 else 1 for extent, size in zip(extents, target, strict=True)]
    return _tiled(builder, raw, x, repeats)
