"""Build ONNX models as quantization-aware training exports them, for tests.

Weights are floats with QuantizeLinear, perhaps Clip, and DequantizeLinear after them, biases are
floats, values are uint8 or int8, and what is between two layers is as the exporter left it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx_builder import OnnxBuilder


@dataclass
class Trained:
    """What a builder wrote into its file: weights [shape as in ONNX] and parameters of values.

    weights: as stored (less their zero points), and their scales. values: (scale, zero point).
    """

    weights: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)
    values: set[tuple[float, int]] = field(default_factory=set)


class TrainedBuilder(OnnxBuilder):
    """dtype: of values. limits: least and largest number that is used of it, with a Clip."""

    def __init__(
        self,
        seed: int,
        input_shape: Sequence[int],
        dtype: str = "uint8",
        limits: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(seed, input_shape)
        self.dtype = np.dtype(dtype).type
        self.limits = limits
        self.trained = Trained()

    def parameters(self, scale: float, zero_point: int) -> list[str]:
        """Scale and zero point as if values were uint8; within other limits they hold as much."""
        info = np.iinfo(self.dtype)
        low, high = self.limits or (int(info.min), int(info.max))
        scale, zero_point = scale * 255 / (high - low), low + zero_point * (high - low) // 255
        self.trained.values.add((float(np.float32(scale)), zero_point))
        zero = self.dtype(zero_point)
        return [self.constant(np.float32(scale), "scale"), self.constant(zero, "zero_point")]

    def fake(self, value: str, scale: float, zero_point: int) -> str:
        """A fake quantization of a value; parameters as if it were uint8."""
        return self.fake_by(value, self.parameters(scale, zero_point))

    def fake_by(self, value: str, parameters: Sequence[str]) -> str:
        """The same by parameters that others have, too."""
        stored = self.add("QuantizeLinear", [value, *parameters])
        if self.limits is not None:
            bounds = [self.constant(self.dtype(bound), "bound") for bound in self.limits]
            stored = self.add("Clip", [stored, *bounds])
        return self.add("DequantizeLinear", [stored, *parameters])

    def fake_weights(
        self,
        shape: Sequence[int],
        *,
        per_channel: bool = True,
        narrow: bool = False,
        dtype: str = "int8",
        zero_point: int = 0,
        is_stored: bool = False,
    ) -> str:
        """Weights of which axis 0 are the output channels, most within the range, some beyond.

        narrow: a Clip to -127..127. is_stored: as integers instead of as floats.
        """
        weights = self.rng.normal(0, 1.0 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32)
        others = tuple(range(1, len(shape))) if per_channel else None
        scale = np.asarray(np.abs(weights).max(axis=others) * 0.9 / 127, np.float32)
        wide = scale.reshape([-1, *[1] * (len(shape) - 1)] if per_channel else [])
        info = np.iinfo(dtype)
        low, high = (-127, 127) if narrow else (int(info.min), int(info.max))
        stored = np.clip(np.rint(weights / wide) + zero_point, low, high).astype(dtype)
        self.trained.weights.append((stored.astype(np.int64) - zero_point, scale))
        how: dict[str, Any] = {"axis": 0} if per_channel else {}
        parameters = [
            self.constant(scale, "w_scale"),
            self.constant(np.full(scale.shape, zero_point, dtype), "w_zero"),
        ]
        if is_stored:
            value = self.constant(stored, "w")
        else:
            value = self.add("QuantizeLinear", [self.constant(weights, "w"), *parameters], **how)
        if narrow:
            bounds = [self.constant(np.asarray(bound, dtype), "bound") for bound in (low, high)]
            value = self.add("Clip", [value, *bounds])
        return self.add("DequantizeLinear", [value, *parameters], **how)

    def bias(self, channels: int) -> str:
        """A bias in floats, as training leaves it."""
        return self.constant(self.rng.normal(0, 0.5, channels).astype(np.float32), "b")

    def relu6(self, value: str) -> str:
        bounds = [self.constant(np.float32(bound), "bound") for bound in (0, 6)]
        return self.add("Clip", [value, *bounds])


def convolutions(b: TrainedBuilder, **weights: Any) -> str:
    """All that a small network for pictures has; weights: how `fake_weights` makes them."""
    channels = b.input_shape[1]
    x = b.fake("x", 0.025, 100)
    y = b.add("Conv", [x, b.fake_weights((8, channels, 3, 3), **weights), b.bias(8)],
              pads=[1, 1, 1, 1])  # fmt: skip
    y = b.fake(b.add("Relu", [y]), 0.03, 0)
    z = b.add("Conv", [y, b.fake_weights((8, 1, 3, 3), **weights), b.bias(8)],
              pads=[1, 1, 1, 1], group=8)  # fmt: skip
    z = b.fake(b.relu6(z), 6 / 255, 0)
    z = b.add("Conv", [z, b.fake_weights((8, 8, 1, 1), **weights), b.bias(8)])
    z = b.fake(z, 0.028, 120)
    parameters = b.parameters(0.031, 3)  # of sum and pool
    y = b.fake_by(b.add("Relu", [b.add("Add", [z, y])]), parameters)
    y = b.fake_by(b.add("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2]), parameters)
    y = b.fake(b.add("GlobalAveragePool", [y]), 0.01, 0)
    y = b.add("Flatten", [y])
    y = b.add("Gemm", [y, b.fake_weights((5, 8), **weights), b.bias(5)], transB=1)
    return b.fake(y, 0.02, 110)


def products(b: TrainedBuilder, **weights: Any) -> str:
    """Linear layers as they are of more than two axes: a transposed matrix, then a bias."""
    x = b.fake("x", 0.025, 100)
    depth = b.input_shape[-1]
    for outputs, scale, zero in ((16, 0.03, 0), (6, 0.02, 90)):
        matrix = b.add("Transpose", [b.fake_weights((outputs, depth), **weights)], perm=[1, 0])
        y = b.add("Add", [b.bias(outputs), b.add("MatMul", [x, matrix])])
        x = b.fake(y if zero else b.add("Relu", [y]), scale, zero)
        depth = outputs
    return x
