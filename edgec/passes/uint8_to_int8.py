"""Values stored as uint8 become int8: each number and its zero point minus 128.

Quantization-aware training exports uint8 values. The real numbers, their sums and products are the
same, and operators have kernels only for int8. Values that leave the model as uint8, or are read as
such, are converted back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgec.graph.ir import Constant, Function, Node, Value
from edgec.graph.traits import Storage
from edgec.graph.types import Quant
from edgec.ops.requantize import Requantize, RequantizeAttrs
from edgec.passes.rewriter import Rewriter

#: The difference of zero points between uint8 and int8.
MOVE = 128


def uint8_to_int8(function: Function) -> Function:
    """The function with int8 in place of uint8 between quantize and dequantize."""
    return Rewriter(function).run(_visit)


def _visit(rewriter: Rewriter, node: Node, inputs: tuple[Value, ...]) -> Sequence[Value] | None:
    if node.op.storage is Storage.QUANTIZE and _is_byte(node.output):
        attrs = replace(node.attrs, output=_moved(node.attrs.output), dtype="int8")
        return _unsigned(rewriter, node, inputs[0], attrs)
    stored = _signed(rewriter, inputs[0]) if inputs else None
    if stored is None:
        return None
    if node.op.storage is Storage.DEQUANTIZE:
        return rewriter.keep(node, (stored,))
    attrs = node.attrs
    if node.op.storage is Storage.REQUANTIZE and _is_byte(node.output):
        low, high = attrs.minimum - MOVE, attrs.maximum - MOVE
        attrs = replace(attrs, output=_moved(attrs.output), minimum=low, maximum=high, dtype="int8")
        return _unsigned(rewriter, node, stored, attrs)
    if node.op.rearranges:
        return _unsigned(rewriter, node, stored, attrs)
    return None


def _is_byte(value: Value) -> bool:
    """Whether a value is uint8 with one scale."""
    quant = value.type.quant
    return value.type.dtype == "uint8" and quant is not None and quant.per_tensor


def _moved(quant: Quant) -> Quant:
    return replace(quant, zero_point=tuple(zero - MOVE for zero in quant.zero_point))


def _unsigned(rewriter: Rewriter, node: Node, x: Value, attrs: object) -> Sequence[Value]:
    """The node with its result in int8, and that as uint8, which nothing may read."""
    (output,) = node.outputs
    origin = None if output.origin is None else replace(output.origin, is_moved=True)
    stored = rewriter.builder.op(
        node.op, [x], attrs, name=node.name, output_names=[f"{output.name}.int8"],
        origins=[origin], sources=node.sources,
    )  # fmt: skip
    quant = output.type.quant
    assert quant is not None
    bounds = np.iinfo(output.type.dtype)
    back = RequantizeAttrs((1.0,), quant, int(bounds.min), int(bounds.max), "onnx", "uint8")
    return rewriter.remake(node, [stored], back, op=Requantize, name=f"{node.name}/uint8")


def _signed(rewriter: Rewriter, value: Value) -> Value | None:
    """The int8 that a uint8 value is made of, or is from outside; None for all else."""
    if not _is_byte(value) or isinstance(value, Constant):
        return None
    assert value.type.quant is not None
    quant = _moved(value.type.quant)
    node = rewriter.producer(value)
    if node is None:
        attrs = RequantizeAttrs((1.0,), quant, -MOVE, MOVE - 1, "onnx", "int8")
        return rewriter.builder.op(Requantize, [value], attrs, name=f"{value.name}/int8")
    if node.op.storage is not Storage.REQUANTIZE:
        return None
    (stored,) = node.inputs
    is_same = stored.type.dtype == "int8" and stored.type.quant == quant
    return stored if is_same and node.attrs.multiplier == (1.0,) else None
