"""Random quantized operands for TFLite models of one operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from tflite_builder import TfliteBuilder

ACTIVATIONS = {"NONE": 0, "RELU": 1, "RELU_N1_TO_1": 2, "RELU6": 3}


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """A float32 number whose logarithm is uniform."""
    return float(np.float32(np.exp(rng.uniform(np.log(low), np.log(high)))))


def random_activation(rng: np.random.Generator) -> int:
    return int(rng.choice(list(ACTIVATIONS.values())))


def random_zero_point(rng: np.random.Generator) -> int:
    """Anywhere in int8, often at an end, where converters put it after a ReLU."""
    return int(rng.choice([-128, 127, 0, int(rng.integers(-128, 128))]))


@dataclass(frozen=True)
class Accumulation:
    """Operands of a convolution or fully connected layer, added to a builder."""

    x: int
    inputs: list[int]
    output_scale: float
    output_zero_point: int


def add_accumulation(
    model: TfliteBuilder,
    rng: np.random.Generator,
    x_shape: tuple[int, ...],
    weight_shape: tuple[int, ...],
    channel_axis: int,
    taps: int,
    per_channel: bool,
    bias_axis: int = 0,
    wide: str = "",
    weight_bits: int = 8,
) -> Accumulation:
    """Add x, weights and mostly a bias, with an output scale at which few results saturate.

    taps: products summed for one output. Small weights in some cases make multipliers over one.
    wide: "int32" or "int64" for an int16 input and a bias of this dtype; "" for int8.
    weight_bits: 8, or 4 for INT4 weights.
    """
    channels = weight_shape[channel_axis]
    small = rng.random() < 0.2
    whole = 8 if weight_bits == 4 else 128
    low, high = (-1, 2) if small else (-whole, whole)
    weights = rng.integers(low, high, weight_shape).astype(np.int8)
    x_scale = log_uniform(rng, 1e-3, 1.0)
    scales = [log_uniform(rng, 1e-3, 0.1) for _ in range(channels if per_channel else 1)]
    spread = (18900.0 if wide else 74.0) * (1.0 if small else 0.58 * whole) * np.sqrt(taps)
    steps = log_uniform(rng, 1000, 100000) if wide else log_uniform(rng, 10, 400)
    output_scale = float(np.float32(spread * x_scale * float(np.median(scales)) / steps))

    zero_points = [0, 0] if wide else [random_zero_point(rng) for _ in range(2)]
    dtype = "int16" if wide else "int8"
    x = model.tensor("x", x_shape, dtype, scale=x_scale, zero_point=zero_points[0])
    inputs = [x, model.tensor(
        "weights", weight_shape, f"int{weight_bits}", scale=scales, zero_point=[0] * len(scales),
        axis=channel_axis, data=weights if weight_bits == 8 else int4(weights),
    )]  # fmt: skip
    if rng.random() < 0.8:
        bias = np.round(rng.normal(0, spread, channels)).astype(wide or "int32")
        bias_scale = [float(np.float32(x_scale) * np.float32(scale)) for scale in scales]
        inputs.append(model.tensor(
            "bias", (channels,), wide or "int32", scale=bias_scale, zero_point=[0] * len(scales),
            axis=bias_axis, data=bias,
        ))  # fmt: skip
    return Accumulation(x, inputs, output_scale, zero_points[1])


def int4(values: np.ndarray) -> np.ndarray:
    """Numbers in [-8, 7] two to a byte, the first in the low half, as INT4 tensors hold them."""
    flat = values.reshape(-1)
    pairs = np.append(flat, np.zeros(flat.size % 2, flat.dtype)).reshape(-1, 2) & 15
    return (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)


@dataclass(frozen=True)
class Window:
    """A random sliding window and the output extents that TensorFlow gives it."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    same: bool
    output: tuple[int, int]

    def options(self, *, dilated: bool = True) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "Padding": 0 if self.same else 1,
            "StrideH": self.stride[0],
            "StrideW": self.stride[1],
        }
        if dilated:
            fields |= {"DilationHFactor": self.dilation[0], "DilationWFactor": self.dilation[1]}
        return fields


def random_window(
    rng: np.random.Generator, extents: tuple[int, int], largest: int, *, dilated: bool = True
) -> Window:
    """A window that fits in `extents` (always, with SAME padding)."""
    while True:
        kernel, stride = (tuple(rng.integers(1, largest + 1, 2).tolist()) for _ in range(2))
        dilation = tuple(rng.choice([1, 1, 2, 3], 2).tolist()) if dilated else (1, 1)
        same = bool(rng.random() < 0.5)
        reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        if same:
            output = tuple(-(-e // s) for e, s in zip(extents, stride, strict=True))
        elif all(r <= e for r, e in zip(reach, extents, strict=True)):
            output = tuple((e - r) // s + 1 for e, r, s in zip(extents, reach, stride, strict=True))
        else:
            continue
        return Window(kernel, stride, dilation, same, output)
