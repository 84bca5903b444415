"""leaky_relu: x where it is positive, alpha * x elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Node
from edgec.graph.ir import Value as GraphValue
from edgec.graph.operator import register
from edgec.graph.types import Quant, TensorType
from edgec.loop.lowering import Lowering
from edgec.loop.values import Value, intrinsic, select
from edgec.numerics.fixed_point import IntArray, Rounding, quantize_multiplier, requantize
from edgec.ops.onnx_graph import OnnxGraph
from edgec.ops.op import RawNode, from_onnx, from_tflite
from edgec.ops.table import ByTable, tflite_unary


@dataclass(frozen=True)
class LeakyReluAttrs:
    """alpha: a float32 number. output: quantization of the result.

    rounding: see `edgec.numerics.fixed_point`; `onnx` is not defined yet.
    """

    alpha: float
    output: Quant | None = None
    rounding: Rounding = "tflm"


#: Factors from here on are refused: a product may leave int32.
MOST_FACTOR = 1 << 14


def leaky_multipliers(alpha: float, x: float, y: float) -> tuple[float, float]:
    """Real factors of positive and negative values, computed in float32.

    Source: LiteRT's LeakyReluPrepare, and the golden files of TFLite Micro's own int16 models.
    Interpreters of TFLite Micro from 2026 compute in double: of int16 results next to a tie, about
    one in 5000, theirs are one off from their golden files.
    """
    single = np.float32
    return (float(single(x) / single(y)), float(single(single(x) * single(alpha)) / single(y)))


@register
class LeakyRelu(ByTable[LeakyReluAttrs]):
    """int8 and int16 as TFLite Micro: one rescaling for each sign; floats: a product."""

    name = "leaky_relu"
    attrs_class = LeakyReluAttrs
    keeps_factors = True
    dtypes = ("int8", "int16")

    def check(self, attrs: LeakyReluAttrs, x: TensorType) -> None:
        """Factors that keep 17 bits of input within int32."""
        assert attrs.output is not None
        factors = leaky_multipliers(attrs.alpha, x.scalar_quant()[0], attrs.output.scale[0])
        if not all(abs(factor) < MOST_FACTOR for factor in factors):
            raise TypeMismatch("leaky_relu: the output scale is too small for the input scale")

    def stored(self, attrs: LeakyReluAttrs, values: IntArray, x: TensorType) -> IntArray:
        """Rescaled from the input's to the output's scale."""
        assert attrs.output is not None
        scale, zero_point = x.scalar_quant()
        factors = leaky_multipliers(attrs.alpha, scale, attrs.output.scale[0])
        positive, negative = (
            requantize(values - zero_point, (factor,), attrs.rounding) for factor in factors
        )
        return np.where(values >= zero_point, positive, negative) + attrs.output.zero_point[0]

    def arithmetic(
        self, attrs: LeakyReluAttrs, x: TensorType, target: Lowering
    ) -> Callable[[Value], Value]:
        """The cost of both rescalings; a run takes one of them."""
        assert attrs.output is not None
        factors = leaky_multipliers(attrs.alpha, x.scalar_quant()[0], attrs.output.scale[0])
        pairs = [quantize_multiplier(factor) for factor in factors]

        def result(value: Value) -> Value:
            positive, negative = (
                intrinsic(f"requantize_{attrs.rounding}", value, *pair) for pair in pairs
            )
            return select(value >= 0, positive, negative)

        return result

    def of_float(self, attrs: LeakyReluAttrs, x: Value) -> Value:
        """The function of a float32 value."""
        return select(x > 0.0, x, x * attrs.alpha)

    def write_onnx(self, out: OnnxGraph, node: Node) -> None:
        """LeakyRelu."""
        inputs, output, _ = out.tensors_of(node)
        out.emit("LeakyRelu", inputs, output, alpha=node.attrs.alpha)


@from_tflite("LEAKY_RELU")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """TFLite LEAKY_RELU of int8, int16 or float32 values."""
    x, declared = tflite_unary(raw)
    if raw.rounding == "onnx":
        raise ImportFailed("it has no rounding of ONNX")
    attrs = LeakyReluAttrs(raw.attribute("alpha"), declared.quant, raw.rounding)
    return builder.op("leaky_relu", [x], attrs, name=raw.name)


@from_onnx("LeakyRelu")
def import_onnx(builder: GraphBuilder, raw: RawNode) -> GraphValue:
    """ONNX LeakyRelu of floats."""
    attrs = LeakyReluAttrs(float(raw.attribute("alpha", 0.01)))
    return builder.op("leaky_relu", raw.operands(), attrs, name=raw.name)
