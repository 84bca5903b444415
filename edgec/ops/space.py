"""Blocks of pixels moved to channels or to the batch, and back: reshapes and transposes.

Importers append these operators; passes fuse and remove them like any others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.onnx_layout import channels_first, channels_last
from edgec.ops.op import RawNode, from_onnx, from_tflite
from edgec.ops.pad import PadAttrs
from edgec.ops.reshape import ReshapeAttrs
from edgec.ops.slice import constant_integers, sliced
from edgec.ops.transpose import TransposeAttrs


def _shuffled(
    builder: GraphBuilder,
    x: Value,
    split: Sequence[int],
    permutation: Sequence[int],
    shape: Sequence[int],
    name: str,
) -> Value:
    """reshape to `split`, transpose, reshape to `shape`."""
    value = x
    for op, attrs in (
        ("reshape", ReshapeAttrs(tuple(split))),
        ("transpose", TransposeAttrs(tuple(permutation))),
        ("reshape", ReshapeAttrs(tuple(shape))),
    ):
        value = builder.op(op, [value], attrs, name=name, sources=(name,))
    return value


def _depth_to_space(
    builder: GraphBuilder, x: Value, block: int, name: str, *, depth_first: bool = True
) -> Value:
    """[N, H, W, b * b * C] -> [N, b * H, b * W, C].

    depth_first: a pixel's channels are numbered (row in the block, column, C); otherwise
    (C, row, column), ONNX's mode CRD.
    """
    n, h, w, c = x.type.shape
    if block < 1 or c % (block * block):
        raise ImportFailed(f"{c} channels in blocks of {block} x {block}")
    c //= block * block
    shape = (n, h * block, w * block, c)
    if depth_first:
        return _shuffled(builder, x, (n, h, w, block, block, c), (0, 1, 3, 2, 4, 5), shape, name)
    return _shuffled(builder, x, (n, h, w, c, block, block), (0, 1, 4, 2, 5, 3), shape, name)


def _space_to_depth(
    builder: GraphBuilder, x: Value, block: int, name: str, *, depth_first: bool = True
) -> Value:
    """[N, b * H, b * W, C] -> [N, H, W, b * b * C], with channels as in `_depth_to_space`."""
    n, h, w, c = x.type.shape
    if block < 1 or h % block or w % block:
        raise ImportFailed(f"{h} x {w} pixels in blocks of {block} x {block}")
    h, w = h // block, w // block
    split = (n, h, block, w, block, c)
    order = (0, 1, 3, 2, 4, 5) if depth_first else (0, 1, 3, 5, 2, 4)
    return _shuffled(builder, x, split, order, (n, h, w, block * block * c), name)


@from_tflite("DEPTH_TO_SPACE")
def import_depth_to_space(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite DEPTH_TO_SPACE."""
    return _depth_to_space(builder, raw.operand(0), raw.attribute("block_size"), raw.name)


@from_tflite("SPACE_TO_DEPTH")
def import_space_to_depth(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SPACE_TO_DEPTH."""
    return _space_to_depth(builder, raw.operand(0), raw.attribute("block_size"), raw.name)


@from_onnx("DepthToSpace")
def import_onnx_depth_to_space(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX DepthToSpace, both modes."""
    return _moved(builder, raw, _depth_to_space)


@from_onnx("SpaceToDepth")
def import_onnx_space_to_depth(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX SpaceToDepth, both modes."""
    return _moved(builder, raw, _space_to_depth)


def _moved(builder: GraphBuilder, raw: RawNode, move: Callable[..., Value]) -> Value:
    x = channels_last(builder, raw.operand(0))
    mode = raw.attribute("mode", "DCR")
    if mode not in ("DCR", "CRD"):
        raise ImportFailed(f"mode {mode!r} is unknown")
    block = int(raw.attribute("blocksize", 0))
    return channels_first(
        builder, move(builder, x, block, raw.name, depth_first=mode == "DCR"), raw
    )


def _blocks(raw: RawNode) -> tuple[list[int], list[tuple[int, int]]]:
    """Block extents, and pairs of padding or cropping, for the axes after the batch."""
    blocks = constant_integers(raw.operand(1), "the block shape")
    flat = constant_integers(raw.operand(2), "paddings and crops")
    rank = len(raw.operand(0).type.shape)
    if not 1 <= len(blocks) < rank or len(flat) != 2 * len(blocks) or min(blocks) < 1:
        raise ImportFailed(f"blocks {blocks} of a tensor of rank {rank}")
    return blocks, list(zip(flat[::2], flat[1::2], strict=True))


@from_tflite("SPACE_TO_BATCH_ND")
def import_space_to_batch(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite SPACE_TO_BATCH_ND: padded with the zero point, then blocks go to the batch."""
    x = raw.operand(0)
    blocks, pairs = _blocks(raw)
    count = len(blocks)
    rest = x.type.shape[1 + count :]
    quant = x.type.quant
    value = quant.zero_point[0] if quant is not None else 0
    padding = ((0, 0), *pairs, *((0, 0) for _ in rest))
    padded = builder.op(
        "pad", [x], PadAttrs(padding, value), name=f"{raw.name}/pad", sources=(raw.name,)
    )
    n, *spatial = padded.type.shape[: 1 + count]
    split = [n]
    for extent, block in zip(spatial, blocks, strict=True):
        if extent % block:
            raise ImportFailed(f"{extent} elements in blocks of {block}")
        split += [extent // block, block]
    inside = [2 * axis + 2 for axis in range(count)]
    outside = [2 * axis + 1 for axis in range(count)]
    last = range(1 + 2 * count, 1 + 2 * count + len(rest))
    batch = n
    for block in blocks:
        batch *= block
    shape = (batch, *(split[axis] for axis in outside), *rest)
    order = (*inside, 0, *outside, *last)
    return _shuffled(builder, padded, (*split, *rest), order, shape, raw.name)


@from_tflite("BATCH_TO_SPACE_ND")
def import_batch_to_space(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite BATCH_TO_SPACE_ND: blocks come from the batch, then the crops are cut off."""
    x = raw.operand(0)
    blocks, crops = _blocks(raw)
    count = len(blocks)
    n, *spatial = x.type.shape[: 1 + count]
    rest = x.type.shape[1 + count :]
    batch = n
    for block in blocks:
        if batch % block:
            raise ImportFailed(f"{n} images for blocks {blocks}")
        batch //= block
    order = [count]
    for axis in range(count):
        order += [count + 1 + axis, axis]
    order += range(1 + 2 * count, 1 + 2 * count + len(rest))
    extents = [extent * block for extent, block in zip(spatial, blocks, strict=True)]
    whole = _shuffled(
        builder, x, (*blocks, batch, *spatial, *rest), order, (batch, *extents, *rest), raw.name
    )
    ranges = [(0, 1, batch)]
    for extent, (before, after) in zip(extents, crops, strict=True):
        ranges.append((before, 1, extent - before - after))
    ranges += [(0, 1, extent) for extent in rest]
    return sliced(builder, whole, ranges, f"{raw.name}/crop", (raw.name,))
