"""ONNX models with weights of four bits as the same numbers in bytes, for ONNX Runtime.

Its integer operators read bytes alone: with four bits it computes in float, where sums of which
half a step is left round either way. Scales stay, so every dequantized weight is the same float:

1. INT4 constants that DequantizeLinear alone reads become INT8, with their zero points.
2. Where each group of inputs has its own scale, a power of two times the channel's, the numbers
   are multiplied by it (`edgec/quantize/group_scales.py`), and one scale is left for a channel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def with_byte_weights(data: bytes) -> bytes:
    """The model with what point 1 and 2 apply to; as it is if that is nothing.

    data: an ONNX file. What does not fit into bytes stays.
    """
    import onnx
    from google.protobuf.message import DecodeError

    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        return data  # ONNX Runtime says so
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    readers: dict[str, list[Any]] = {}
    for node in model.graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    changed = False
    for node in model.graph.node:
        if node.op_type != "DequantizeLinear":
            continue
        given = [constants.get(name) for name in node.input]
        own = [given[0], *given[2:]]  # the numbers and their zero points
        if any(t is None or t.data_type != onnx.TensorProto.INT4 for t in own):
            continue
        if any(readers[name] != [node] for name in node.input):
            continue
        changed = _store_bytes(node, given) or changed
    if not changed:
        return data
    stored: bytes = model.SerializeToString()
    return stored


def _store_bytes(node: Any, given: list[Any]) -> bool:
    """Rewrite the constants of a DequantizeLinear in place; whether they fit."""
    from onnx import numpy_helper

    numbers, *zeros = (
        numpy_helper.to_array(tensor).astype(np.int8) for tensor in (given[0], *given[2:])
    )
    scales = numpy_helper.to_array(given[1])
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    block = attributes.get("block_size", 0)
    if block:
        if any(zero.any() for zero in zeros):
            return False
        axis = attributes.get("axis", 1)
        channel = 1 if axis == 0 else 0
        one = _one_scale(numbers, scales, axis, block, channel)
        if one is None:
            return False
        numbers, scales = one
        zeros = [np.zeros(scales.shape, np.int8) for _ in zeros]
        kept = [each for each in node.attribute if each.name not in ("block_size", "axis")]
        del node.attribute[:]
        node.attribute.extend(kept)
        added = node.attribute.add()
        added.name, added.i, added.type = "axis", channel, 2  # AttributeProto.INT
    for tensor, array in zip(given, (numbers, scales, *zeros), strict=True):
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return True


def _one_scale(
    numbers: Array, scales: Array, axis: int, block: int, channel: int
) -> tuple[Array, Array] | None:
    """Numbers with one scale for each channel, or None where they are no such groups."""
    others = tuple(n for n in range(scales.ndim) if n != channel)
    least = scales.min(axis=others)
    shape = [-1 if n == channel else 1 for n in range(scales.ndim)]
    factors = scales / least.reshape(shape)
    if not (least > 0).all() or (np.frexp(factors)[0] != 0.5).any() or factors.max() > 8:
        return None
    each = np.repeat(factors, block, axis=axis).take(range(numbers.shape[axis]), axis=axis)
    return (numbers * each).astype(np.int8), least
