"""clip: y = min(max(x, minimum), maximum), element by element; ReLU and ReLU6 are clips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant
from edgec.graph.op import Fusion, Op, RawNode, from_onnx, register
from edgec.graph.types import Array, TensorType


@dataclass(frozen=True)
class ClipAttrs:
    """minimum, maximum: real numbers; infinite where there is no bound."""

    minimum: float = -math.inf
    maximum: float = math.inf


@register
class Clip(Op[ClipAttrs]):
    """On floats only; integer graphs have their bounds in `requantize`."""

    name = "clip"
    attrs_class = ClipAttrs
    fusion = Fusion.ELEMENTWISE

    def infer(self, attrs: ClipAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the input."""
        (x,) = inputs
        if not x.is_float:
            raise TypeMismatch(f"clip needs a float, not {x}")
        return (x,)

    def evaluate(
        self,
        attrs: ClipAttrs,
        inputs: Sequence[Array],
        input_types: Sequence[TensorType],
        output_types: Sequence[TensorType],
    ) -> tuple[Array, ...]:
        """NumPy's clip in the input's own dtype."""
        x = inputs[0]
        low, high = x.dtype.type(attrs.minimum), x.dtype.type(attrs.maximum)
        return (np.clip(x, low, high),)


@from_onnx("Relu")
def import_relu(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Relu."""
    return builder.op("clip", raw.inputs, ClipAttrs(minimum=0.0), name=raw.name)


@from_onnx("Clip", since=11)
def import_clip(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Clip with constant bounds; an absent one is the largest finite number."""
    largest = float(np.finfo(raw.inputs[0].type.dtype).max)
    bounds = [-largest, largest]
    for position, value in enumerate(raw.inputs[1:3]):
        if value is None:
            continue
        if not isinstance(value, Constant):
            raise ImportFailed("the bounds must be constants")
        bounds[position] = float(value.data)
    return builder.op("clip", raw.inputs[:1], ClipAttrs(bounds[0], bounds[1]), name=raw.name)
