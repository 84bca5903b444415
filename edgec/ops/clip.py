"""clip: y = min(max(x, minimum), maximum), element by element; ReLU and ReLU6 are clips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Node, Value
from edgec.graph.operator import Fusion, register
from edgec.graph.types import TensorType
from edgec.loop.define import Tensor
from edgec.loop.lowering import Lowering
from edgec.loop.values import maximum, minimum
from edgec.ops.broadcast import tensors_of
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import Op, RawNode, from_onnx, from_tflite


@dataclass(frozen=True)
class ClipAttrs:
    """minimum, maximum: real numbers; infinite for no bound."""

    minimum: float = -math.inf
    maximum: float = math.inf


@register
class Clip(Op[ClipAttrs]):
    """On floats only; integer graphs have their bounds in `requantize`."""

    name = "clip"
    attrs_class = ClipAttrs
    fusion = Fusion.ELEMENTWISE
    is_limit = True

    def infer(self, attrs: ClipAttrs, *inputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the input."""
        (x,) = inputs
        if x.dtype != "float32":
            raise TypeMismatch(f"clip needs float32, not {x}")
        return (x,)

    def lower(self, node: Node, target: Lowering, inputs: Sequence[Tensor | Constant]) -> Tensor:
        """Only the bounds that there are."""
        (x,) = tensors_of(inputs)
        low, high = _bounds(node.attrs)

        def element(*indices: Any) -> Any:
            value = x[indices]
            if low is not None:
                value = maximum(float(low), value)
            return value if high is None else minimum(float(high), value)

        output = node.output.type
        return target.compute("element", output.shape, output.dtype, element)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """Relu, or Clip."""
        inputs, output, _ = out.tensors_of(node)
        low, high = node.attrs.minimum, node.attrs.maximum
        if low == 0.0 and np.isinf(high):
            out.emit("Relu", inputs, output)
            return
        bounds = [
            ""
            if np.isinf(bound)
            else out.initializer(f"{output}.{name}", np.asarray(bound, np.float32))
            for name, bound in (("minimum", low), ("maximum", high))
        ]
        out.emit("Clip", [*inputs, *bounds], output)


def _bounds(attrs: ClipAttrs) -> tuple[Any, Any]:
    """(minimum, maximum) as float32, None for one that is infinite."""
    low = np.float32(attrs.minimum) if attrs.minimum > -math.inf else None
    high = np.float32(attrs.maximum) if attrs.maximum < math.inf else None
    return low, high


def _import_tflite(kind: str, attrs: ClipAttrs) -> None:
    @from_tflite(kind)
    def importer(builder: GraphBuilder, raw: RawNode) -> Value:
        (x,) = raw.operands(1)
        if x.type.quant is not None:
            return _clip_stored(builder, raw, x)
        if x.type.dtype != "float32":
            raise ImportFailed(f"{x.type.dtype} input: only float32 is supported yet")
        return builder.op("clip", [x], attrs, name=raw.name)


def _clip_stored(builder: GraphBuilder, raw: RawNode, x: Value) -> Value:
    """Stored integers, rescaled to the output and limited to the activation's range."""
    from edgec.ops.activation import activation_range  # which has these clips
    from edgec.ops.requantize import RequantizeAttrs

    declared = raw.declared()
    low, high = activation_range(raw.kind, declared)
    assert declared.quant is not None
    if raw.kind == "RELU6" and declared.quant != x.type.quant:
        raise ImportFailed(
            "the output has another scale: LiteRT rescales to it, TFLite Micro does not"
        )
    factor = x.type.scalar_quant()[0] / declared.scalar_quant()[0]
    attrs = RequantizeAttrs((factor,), declared.quant, low, high, raw.rounding, declared.dtype)
    return builder.op("requantize", [x], attrs, name=raw.name)


_import_tflite("RELU", ClipAttrs(minimum=0.0))
_import_tflite("RELU6", ClipAttrs(0.0, 6.0))
_import_tflite("RELU_N1_TO_1", ClipAttrs(-1.0, 1.0))
_import_tflite("RELU_0_TO_1", ClipAttrs(0.0, 1.0))


@from_onnx("Relu")
def import_relu(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Relu."""
    return builder.op("clip", raw.operands(), ClipAttrs(minimum=0.0), name=raw.name)


@from_onnx("Clip", since=6)
def import_old_clip(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Clip up to opset 10, of floats within the bounds of its attributes."""
    x = raw.operand(0)
    if not x.type.is_float:
        raise ImportFailed(f"{x.type.dtype} input: up to opset 10 it is of floats")
    most = float(np.finfo(x.type.dtype).max)
    low, high = (float(raw.attribute(key, end)) for key, end in (("min", -most), ("max", most)))
    return builder.op("clip", [x], ClipAttrs(low, high), name=raw.name)


@from_onnx("Clip", since=11)
def import_clip(builder: GraphBuilder, raw: RawNode) -> Value:
    """ONNX Clip with constant bounds; an absent one is the dtype's own (largest finite number).

    Of stored integers, as of values of fewer bits than their dtype has: a constant, or a requantize
    to the same parameters.
    """
    x = raw.operand(0)
    info: Any = np.finfo(x.type.dtype) if x.type.is_float else np.iinfo(x.type.dtype)
    bounds = [float(info.min), float(info.max)]
    for position, value in enumerate(raw.inputs[1:3]):
        if value is None:
            continue
        if not isinstance(value, Constant):
            raise ImportFailed("the bounds must be constants")
        bounds[position] = float(value.data.item())
    low, high = bounds
    if x.type.is_float:
        return builder.op("clip", [x], ClipAttrs(low, high), name=raw.name)
    return _clip_integers(builder, raw, x, int(low), int(high))


def _clip_integers(builder: GraphBuilder, raw: RawNode, x: Value, low: int, high: int) -> Value:
    """Stored integers within bounds, of the same quantization."""
    if isinstance(x, Constant):
        return builder.constant(raw.name, np.clip(x.data, low, high), x.type.quant)
    from edgec.ops.requantize import RequantizeAttrs  # which has activations, and these clips

    if x.type.quant is None:
        raise ImportFailed(f"{x.type.dtype} that is not quantized is not supported")
    attrs = RequantizeAttrs((1.0,), x.type.quant, low, high, "onnx", x.type.dtype)
    return builder.op("requantize", [x], attrs, name=raw.name)
