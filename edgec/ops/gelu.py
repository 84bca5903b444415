"""gelu: x times the probability that a normal number is smaller, or the tanh that is near it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.graph.builder import GraphBuilder
from edgec.graph.operator import register
from edgec.graph.types import Array
from edgec.loop.values import Value, intrinsic
from edgec.numerics import float_math
from edgec.ops.op import RawNode, from_onnx, from_tflite
from edgec.ops.unary import Unary

_HALF_ROOT = math.sqrt(0.5)
#: Source of the approximation: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
_ROOT, _CUBE = math.sqrt(2 / math.pi), 0.044715


@register
class Gelu(Unary):
    """x / 2 * (1 + erf(x / sqrt(2))), float32."""

    name = "gelu"

    def of_array(self, x: Array) -> Array:
        """The function on an array."""
        single = np.float32
        return np.asarray(x * single(0.5) * (single(1) + float_math.erf(x * single(_HALF_ROOT))))

    def of_value(self, x: Value) -> Value:
        """The function in a loop."""
        return x * 0.5 * (1.0 + intrinsic("erf_f32", x * _HALF_ROOT))


@register
class GeluTanh(Unary):
    """x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3))), float32."""

    name = "gelu_tanh"

    def of_array(self, x: Array) -> Array:
        """The function on an array."""
        single = np.float32
        inner = (x + x * x * x * single(_CUBE)) * single(_ROOT)
        return np.asarray(x * single(0.5) * (single(1) + float_math.tanh(inner)))

    def of_value(self, x: Value) -> Value:
        """The function in a loop."""
        return x * 0.5 * (1.0 + intrinsic("tanh_f32", (x + x * x * x * _CUBE) * _ROOT))


@from_onnx("Gelu", since=20)
def import_onnx(builder: GraphBuilder, raw: RawNode) -> Any:
    """ONNX Gelu, `approximate` "none" or "tanh"."""
    names = {"none": "gelu", "tanh": "gelu_tanh"}
    kind = raw.attribute("approximate", "none")
    if kind not in names:
        raise ImportFailed(f"approximate {kind!r} is unknown")
    return builder.op(names[kind], raw.inputs, name=raw.name)


@from_tflite("GELU")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite GELU of floats."""
    (x,) = raw.inputs
    if x.type.dtype != "float32":
        raise ImportFailed(f"{x.type.dtype} input: only float32 is supported yet")
    name = "gelu_tanh" if raw.attribute("approximate", False) else "gelu"
    return builder.op(name, [x], name=raw.name)
