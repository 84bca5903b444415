"""reshape: the same elements in row-major order, seen with another shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant
from edgec.graph.op import Fusion, Op, RawNode, from_onnx, from_tflite, register
from edgec.graph.types import Array, TensorType


@dataclass(frozen=True)
class ReshapeAttrs:
    """shape: the result's extents, all known."""

    shape: tuple[int, ...]


@register
class Reshape(Op[ReshapeAttrs]):
    """A view: no code at all. Quantization per tensor stays."""

    name = "reshape"
    attrs_class = ReshapeAttrs
    fusion = Fusion.VIEW

    def infer(self, attrs: ReshapeAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The same dtype and quantization with another shape."""
        (x,) = inputs
        if any(extent < 0 for extent in attrs.shape) or math.prod(attrs.shape) != x.elements:
            raise TypeMismatch(f"{x} has no shape {list(attrs.shape)}")
        if x.quant is not None and not x.quant.per_tensor:
            raise TypeMismatch("reshape of a tensor that is quantized along an axis")
        return (x.with_shape(attrs.shape),)

    def evaluate(
        self,
        attrs: ReshapeAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """NumPy's reshape."""
        return (inputs[0].reshape(attrs.shape),)


@from_tflite("RESHAPE")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite RESHAPE to the shape that the output tensor declares, as TFLite Micro does it."""
    declared = raw.output_types[0]
    if declared is None or not raw.inputs or raw.inputs[0] is None:
        raise ImportFailed("an input is absent")
    return builder.op("reshape", raw.inputs[:1], ReshapeAttrs(declared.shape), name=raw.name)


@from_onnx("Reshape", since=5)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Reshape to a constant shape; 0 keeps an extent, -1 is what remains."""
    x, wanted = raw.inputs
    if not isinstance(wanted, Constant):
        raise ImportFailed("the shape must be a constant")
    shape = [int(extent) for extent in wanted.data.reshape(-1)]
    if not raw.attribute("allowzero", 0):
        shape = [x.type.shape[i] if e == 0 and i < len(x.type.shape) else e
                 for i, e in enumerate(shape)]  # fmt: skip
    if shape.count(-1) == 1:
        known = math.prod(e for e in shape if e != -1)
        shape[shape.index(-1)] = x.type.elements // known if known else 0
    return builder.op("reshape", [x], ReshapeAttrs(tuple(shape)), name=raw.name)


@from_onnx("Flatten")
def import_flatten(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Flatten to two dimensions at `axis`."""
    (x,) = raw.inputs
    axis = int(raw.attribute("axis", 1)) % (len(x.type.shape) + 1)
    shape = (math.prod(x.type.shape[:axis]), math.prod(x.type.shape[axis:]))
    return builder.op("reshape", [x], ReshapeAttrs(shape), name=raw.name)
