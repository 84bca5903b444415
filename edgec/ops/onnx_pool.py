"""ONNX Runtime's QLinearAveragePool, in every bit.

Stored x and y with scales s and zero points z, n elements in the window:

    y = clamp(rint(mean / s_y + z_y)),    mean = (sum of (x - z_x) * s_x, row by row) / n

all in float32.
"""

from __future__ import annotations

from edgec.graph.types import Quant
from edgec.loop.values import Value, cast, int32, round_half_even


def real_element(x: Value, quant: Quant) -> Value:
    return cast(int32(x) - quant.zero_point[0], "float32") * quant.scale[0]


def stored_value(mean: Value, quant: Quant, output: Quant) -> Value:
    """`stored_mean` of one value, the mean of elements with this quantization."""
    ratio = mean / output.scale[0] + float(output.zero_point[0])
    # A mean of floats is larger than each of them by rounding alone.
    return round_half_even(ratio, 512.0 * quant.scale[0] / output.scale[0] + 256.0)
