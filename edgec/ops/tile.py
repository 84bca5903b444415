"""tile: a tensor repeated along its axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.ops.broadcast import operand_tensors
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import constant_integers

#: More elements than this cannot be meant for a small machine.
MOST_ELEMENTS = 1 << 28


@dataclass(frozen=True)
class TileAttrs:
    """repeats: how often along each axis, at least once."""

    repeats: tuple[int, ...]


@register
class Tile(Op[TileAttrs]):
    """Element i of an axis is element i modulo the input's extent; quantization stays."""

    name = "tile"
    attrs_class = TileAttrs
    fusion = Fusion.INJECTIVE

    def infer(self, attrs: TileAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Each extent times its repeats."""
        (x,) = inputs
        if len(attrs.repeats) != len(x.shape) or min(attrs.repeats, default=1) < 1:
            raise TypeMismatch(f"tile by {attrs.repeats} of {x}")
        if x.quant is not None and not x.quant.per_tensor:
            raise TypeMismatch("tile of a tensor that is quantized along an axis")
        extents = zip(x.shape, attrs.repeats, strict=True)
        return (x.with_shape(tuple(extent * count for extent, count in extents)),)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """A copy; an axis of extent 1 is read again for every index."""
        (x,) = operand_tensors(target, inputs)
        repeats: tuple[int, ...] = node.attrs.repeats

        def element(*at: Any) -> Any:
            return x[
                tuple(
                    0 if extent == 1 else i if count == 1 else i % extent
                    for i, extent, count in zip(at, x.shape, repeats, strict=True)
                )
            ]

        return target.compute("element", node.output.type.shape, node.output.type.dtype, element)


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
    """ONNX Tile and TFLite TILE by constant repeats."""
    return _tiled(builder, raw, raw.operand(0), constant_integers(raw.optional(1), "the repeats"))


@from_onnx("Expand", since=8)
@from_tflite("BROADCAST_TO")
def import_expand(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Expand and TFLite BROADCAST_TO to a constant shape, both ways as NumPy broadcasts."""
    x = raw.operand(0)
    wanted = constant_integers(raw.optional(1), "the shape")
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
