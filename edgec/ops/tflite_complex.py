"""TFLite's complex numbers as pairs of floats: RFFT2D, REAL, IMAG, COMPLEX_ABS.

The parts lie along one axis more. A graph has no complex inputs and outputs.
"""

from __future__ import annotations

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Value
from edgec.ops.dft import DftAttrs
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.pad import PadAttrs
from edgec.ops.parts import Parts
from edgec.ops.reduce import ReduceAttrs
from edgec.ops.slice import constant_integers, sliced


@from_tflite("RFFT2D")
def import_rfft2d(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite RFFT2D of constant lengths: of the last axis, then of the one before it."""
    x = raw.operand(0)
    lengths = constant_integers(raw.operand(1), "the lengths")
    rank, parts = len(x.type.shape), Parts(builder, raw)
    if rank < 2 or len(lengths) != 2 or min(lengths) < 1:
        raise ImportFailed(f"lengths {lengths} of {x.type}")
    rows, columns = lengths
    extents = x.type.shape[-2:]
    ranges = [(0, 1, e) for e in x.type.shape[:-2]]
    ranges += [(0, 1, min(n, e)) for n, e in zip(lengths, extents, strict=True)]
    if any(n < e for n, e in zip(lengths, extents, strict=True)):
        x = sliced(builder, x, ranges, f"{raw.name}/cut", (raw.name,))
    if x.type.shape[-2] < rows:
        missing = rows - x.type.shape[-2]
        around = (*((0, 0) for _ in range(rank - 2)), (0, missing), (0, 0))
        x = parts.op("pad", [x], PadAttrs(around), "longer")
    real = parts.reshaped(x, (*x.type.shape, 1), "real")
    half = parts.op("dft", [real], DftAttrs(rank - 1, columns, columns // 2 + 1), "rows")
    return parts.op("dft", [half], DftAttrs(rank - 2, rows, rows))


@from_tflite("REAL")
@from_tflite("IMAG")
def import_part(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite REAL and IMAG."""
    (x,) = raw.operands(1)
    *outer, pair = x.type.shape
    if pair != 2:
        raise ImportFailed(f"{x.type} is not a pair of parts")
    ranges = [*((0, 1, extent) for extent in outer), (int(raw.kind == "IMAG"), 1, 1)]
    part = sliced(builder, x, ranges, f"{raw.name}/part", (raw.name,))
    return Parts(builder, raw).reshaped_last(part, outer)


@from_tflite("COMPLEX_ABS")
def import_complex_abs(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite COMPLEX_ABS: the norm of each pair."""
    (x,) = raw.operands(1)
    norm = Parts(builder, raw).op("reduce", [x], ReduceAttrs((len(x.type.shape) - 1,), "l2"), "l2")
    return Parts(builder, raw).reshaped_last(norm, x.type.shape[:-1])
