"""leaky_relu: x where it is positive, alpha * x elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgec.errors import ImportFailed
from edgec.fixed_point import IntArray, Rounding, requantize
from edgec.graph.builder import GraphBuilder
from edgec.graph.op import RawNode, from_tflite, register
from edgec.graph.types import Quant, TensorType
from edgec.ops.table import ByTable, tflite_unary


@dataclass(frozen=True)
class LeakyReluAttrs:
    """alpha: a float32 number. output: quantization of an int8 result, None for floats.

    rounding: see `edgec.fixed_point`; `onnx` is not defined yet.
    """

    alpha: float
    output: Quant | None = None
    rounding: Rounding = "tflm"


def leaky_multipliers(alpha: float, x: float, y: float) -> tuple[float, float]:
    """Real factors of positive and negative values, computed in float32.

    Source: CalculateOpDataLeakyRelu of TFLite Micro.
    """
    single = np.float32
    return (
        float(single(x) / single(y)),
        float(single(single(x) * single(alpha)) / single(y)),
    )


@register
class LeakyRelu(ByTable[LeakyReluAttrs]):
    """int8 as TFLite Micro: one rescaling for each sign."""

    name = "leaky_relu"
    attrs_class = LeakyReluAttrs

    def stored(self, attrs: LeakyReluAttrs, values: IntArray, x: TensorType) -> IntArray:
        """Rescaled from the input's to the output's scale."""
        assert attrs.output is not None
        scale, zero_point = x.scalar_quant()
        factors = leaky_multipliers(attrs.alpha, scale, attrs.output.scale[0])
        positive, negative = (
            requantize(values - zero_point, (factor,), attrs.rounding) for factor in factors
        )
        return np.where(values >= zero_point, positive, negative) + attrs.output.zero_point[0]


@from_tflite("LEAKY_RELU")
def import_tflite(builder: GraphBuilder, raw: RawNode) -> Any:
    """TFLite LEAKY_RELU of int8 values."""
    x, declared = tflite_unary(raw)
    if raw.rounding == "onnx":
        raise ImportFailed("it has no rounding of ONNX")
    attrs = LeakyReluAttrs(raw.attribute("alpha"), declared.quant, raw.rounding)  # type: ignore[arg-type]
    return builder.op("leaky_relu", [x], attrs, name=raw.name)
