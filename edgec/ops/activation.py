"""TFLite's fused activations: the output range of integers, a clip after floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from edgec.errors import ImportFailed, TypeMismatch
from edgec.graph.builder import GraphBuilder
from edgec.graph.ir import Constant, Value
from edgec.graph.types import Quant, TensorType
from edgec.ops.clip import ClipAttrs
from edgec.ops.op import RawNode

#: Real bounds of the activations that TFLite fuses into operators.
_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}


def round_half_away(value: float) -> int:
    """C's round(): to the nearest integer, ties away from zero."""
    return math.floor(value + 0.5) if value >= 0 else -math.floor(0.5 - value)


def check_range(x: TensorType, minimum: int, maximum: int) -> None:
    """TypeMismatch unless a clamp of integers lies within their dtype."""
    if x.is_float:
        return
    info = np.iinfo(x.dtype)
    if not info.min <= minimum <= maximum <= info.max:
        raise TypeMismatch(f"range {minimum}..{maximum} does not fit in {x.dtype}")


def quantize_bound(real: float, quant: Quant) -> int:
    """zero_point + round(float32(real / scale)): TFLite's Quantize in kernel_util.cc."""
    ratio = float(np.float32(real) / np.float32(quant.scale[0]))
    if not abs(ratio) < 2**31:
        raise ImportFailed(f"output scale {quant.scale[0]} is too small for the activation")
    return quant.zero_point[0] + round_half_away(ratio)


def activation_range(kind: str, output: TensorType) -> tuple[int, int]:
    """(minimum, maximum) of the stored output under a fused activation.

    kind: the schema's ActivationFunctionType. output: an integer type quantized per tensor.
    Source: TFLite's CalculateActivationRangeQuantized. Raises ImportFailed for other kinds.
    """
    if kind not in _BOUNDS:
        raise ImportFailed(f"fused activation {kind} is not supported")
    if output.quant is None or not output.quant.per_tensor:
        raise ImportFailed("the output is not quantized per tensor")
    info = np.iinfo(output.dtype)
    low, high = _BOUNDS[kind]
    minimum, maximum = int(info.min), int(info.max)
    if low is not None:
        minimum = max(minimum, quantize_bound(low, output.quant))
    if high is not None:
        maximum = min(maximum, quantize_bound(high, output.quant))
    return minimum, maximum


def append_activation(
    builder: GraphBuilder, raw: RawNode, op: str, inputs: Sequence[Value], attrs: Any = None
) -> Value:
    """Append a float operator and, where the TFLite node has a fused activation, its clip.

    The result is named after the node. With an activation, the operator's own result is
    `<node>.linear` and the clip is the node `<node>/activation`. A division by a computed value is
    limited to finite numbers; a NaN stays a NaN. Raises ImportFailed for activations that are not
    piecewise linear.
    """
    low, high = _float_bounds(raw, inputs)
    if (low, high) == (-math.inf, math.inf):
        return builder.op(op, inputs, attrs, name=raw.name)
    linear = builder.op(op, inputs, attrs, name=raw.name, output_names=[f"{raw.name}.linear"])
    clip = ClipAttrs(low, high)
    return builder.op(
        "clip", [linear], clip, name=f"{raw.name}/activation", output_names=[raw.name],
        sources=(raw.name,),
    )  # fmt: skip


def _float_bounds(raw: RawNode, inputs: Sequence[Value]) -> tuple[float, float]:
    """The limits of a float result.

    The frameworks limit every result to finite numbers. Here only a division is limited, where its
    divisor is computed or near 0.
    """
    kind = raw.attribute("fused_activation", "NONE")
    if kind not in _BOUNDS:
        raise ImportFailed(f"fused activation {kind} is not supported")
    divides = raw.kind == "DIV" and not (
        isinstance(inputs[1], Constant) and np.all(np.abs(inputs[1].data) > 1e-6)
    )
    most = float(np.finfo(np.float32).max) if divides else math.inf
    low, high = _BOUNDS[kind]
    return -most if low is None else low, most if high is None else high
