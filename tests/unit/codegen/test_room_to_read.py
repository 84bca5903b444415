"""A kernel that reads past its scratch stays within the arena."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

from edgec.loop.microkernel import bytes_read_past
from edgec.pipeline import compile_model
from edgec.targets.core import find_core


def depthwise_model(path: Path, channels: int) -> Path:
    """A 3x3 depthwise convolution with ReLU of an image of 12x12."""
    rng = np.random.default_rng(5)
    model, shape = TfliteBuilder(), (1, 12, 12, channels)
    x = model.tensor("x", shape, "int8", scale=0.05, zero_point=-128)
    taps = rng.integers(-127, 128, (1, 3, 3, channels)).astype(np.int8)
    w = model.tensor("w", taps.shape, "int8", scale=0.01, data=taps)
    bias = np.arange(channels, dtype="<i4")
    b = model.tensor("b", (channels,), "int32", scale=0.0005, data=bias)
    y = model.tensor("y", shape, "int8", scale=0.1, zero_point=-128)
    model.operator("DEPTHWISE_CONV_2D", [x, w, b], [y], "DepthwiseConv2DOptions", Padding=0,
                   StrideH=1, StrideW=1, DepthMultiplier=1, DilationWFactor=1, DilationHFactor=1,
                   FusedActivationFunction=1)  # fmt: skip
    path.write_bytes(model.build([x], [y]))
    return path


@pytest.mark.parametrize("channels", [16, 32])
def test_planes_of_vectors_end_before_the_arena(channels: int, tmp_path: Path) -> None:
    path = depthwise_model(tmp_path / "model.tflite", channels)
    compiled = compile_model(path, find_core("cortex-m55"))
    (variant,), program = compiled.chosen, compiled.program
    ((name, past),) = bytes_read_past(variant.function).items()
    (scratch,) = [buffer for buffer in program.offsets if buffer.endswith(name)]
    end = program.offsets[scratch] + program.buffers[scratch]
    assert past == 7
    assert end + past <= program.arena_bytes <= max(compiled.plan.peak_bytes["arena"], end + 8)
