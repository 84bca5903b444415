"""max_pool2d: the largest element of each window; padding never wins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import register
from edgec.graph.traits import IntegerForm, Interval, Operand, StoredAs
from edgec.graph.types import TensorType, Types
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import cast, maximum, minimum
from edgec.loop.window import clipped
from edgec.ops.activation import append_activation, check_range
from edgec.ops.avg_pool2d import Pool2d, pool_type, tflite_pool
from edgec.ops.broadcast import tensors_of
from edgec.ops.intervals import clamped
from edgec.ops.onnx_graph import OnnxGraph, write_pool
from edgec.ops.op import RawNode, from_tflite
from edgec.ops.window import NO_PADDING, Padding, Pair


@dataclass(frozen=True)
class MaxPool2dAttrs:
    """kernel, stride: (height, width). padding: ((top, bottom), (left, right)).

    minimum, maximum: inclusive range of the stored integer result; ignored for floats.
    """

    kernel: Pair
    stride: Pair
    padding: Padding = NO_PADDING
    minimum: int = -128
    maximum: int = 127


@register
class MaxPool2d(Pool2d[MaxPool2dAttrs]):
    """x [N, H, W, C] -> [N, OH, OW, C], int8, int16 or float32, with x's own quantization."""

    name = "max_pool2d"
    attrs_class = MaxPool2dAttrs
    integer_form = IntegerForm.SHARED

    def infer(self, attrs: MaxPool2dAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """Extents by the window's geometry."""
        (x,) = inputs
        pooled = pool_type(self.name, x, attrs.kernel, attrs.stride, attrs.padding)
        check_range(x, attrs.minimum, attrs.maximum)
        return (pooled,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """The maximum over the part of each window inside x; it starts with the clamp's minimum."""
        attrs: MaxPool2dAttrs = node.attrs
        (x,) = tensors_of(inputs)
        is_float = node.output.type.is_float
        lowest = -math.inf if is_float else attrs.minimum
        (stride_h, stride_w), ((top, _), (left, _)) = attrs.stride, attrs.padding
        rows = clipped(x.shape[1], attrs.kernel[0], stride_h, 1, top)
        columns = clipped(x.shape[2], attrs.kernel[1], stride_w, 1, left)
        wide = x.dtype if is_float else "int32"
        largest = target.definition.reduce(
            "acc",
            [
                ("kh", lambda n, h, w, c: rows[0](h), lambda n, h, w, c: rows[1](h)),
                ("kw", lambda n, h, w, c: columns[0](w), lambda n, h, w, c: columns[1](w)),
            ],
            init=lambda n, h, w, c: lowest,
            update=lambda acc, n, h, w, c, kh, kw: maximum(
                acc, cast(x[n, h * stride_h + kh - top, w * stride_w + kw - left, c], wide)
            ),
            shape=node.output.type.shape,
            dtype=wide,
        )

        def element(*indices: Any) -> Any:
            value = largest[indices]
            return value if is_float else cast(minimum(value, attrs.maximum), x.dtype)

        return target.compute("element", node.output.type.shape, node.output.type.dtype, element)

    def neutral(self, x: TensorType) -> float:
        """The smallest number."""
        return -np.inf if x.is_float else int(np.iinfo(x.dtype).min)

    def attrs_for_integers(
        self, attrs: MaxPool2dAttrs, inputs: Types, result: StoredAs
    ) -> MaxPool2dAttrs:
        """Between these bounds."""
        return replace(attrs, minimum=result.minimum, maximum=result.maximum)

    def interval(
        self, attrs: MaxPool2dAttrs, operands: Sequence[Operand], output: TensorType
    ) -> Interval | None:
        """The largest lies between the elements."""
        return clamped(operands[0], output, attrs.minimum, attrs.maximum)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """MaxPool."""
        write_pool(out, node, "MaxPool")


@from_tflite("MAX_POOL_2D")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Value:
    """TFLite MAX_POOL_2D."""
    attrs = MaxPool2dAttrs(*tflite_pool(raw))
    if raw.operand(0).type.is_float:
        return append_activation(builder, raw, "max_pool2d", raw.operands(), attrs)
    return builder.op("max_pool2d", raw.operands(), attrs, name=raw.name)
