"""Depthwise convolutions of whole, short windows: at `time` neighbouring outputs share inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx_builder import OnnxBuilder
from tflite_builder import TfliteBuilder

import edgec
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.runners.samples import generate_inputs

#: Shape of the input, kernel, strides: a line of 12, one of 7 that nothing divides, an image,
#: windows of one input.
SHAPES = {
    "down": ((16, 1, 6), (5, 1), (1, 1)),
    "prime": ((1, 9, 3), (1, 3), (1, 1)),
    "image": ((7, 9, 5), (2, 3), (1, 2)),
    "one": ((6, 6, 4), (1, 1), (1, 1)),
}


def one_layer(path: Path, name: str) -> tuple[int, ...]:
    """A depthwise convolution without padding; returns the input's shape."""
    (height, width, channels), kernel, stride = SHAPES[name]
    sizes = zip((height, width), kernel, stride, strict=True)
    high, wide = ((extent - taps) // step + 1 for extent, taps, step in sizes)
    rng = np.random.default_rng(3)
    model = TfliteBuilder()
    shape = (1, height, width, channels)
    x = model.tensor("x", shape, "int8", scale=0.05, zero_point=3)
    taps = rng.integers(-127, 128, (1, *kernel, channels)).astype(np.int8)
    w = model.tensor("w", taps.shape, "int8", scale=0.01, data=taps)
    bias = np.arange(channels, dtype="<i4")
    b = model.tensor("b", (channels,), "int32", scale=0.0005, data=bias)
    y = model.tensor("y", (1, high, wide, channels), "int8", scale=0.1, zero_point=-4)
    model.operator("DEPTHWISE_CONV_2D", [x, w, b], [y], "DepthwiseConv2DOptions", Padding=1,
                   StrideH=stride[0], StrideW=stride[1], DepthMultiplier=1, DilationWFactor=1,
                   DilationHFactor=1)  # fmt: skip
    path.write_bytes(model.build([x], [y]))
    return shape


@pytest.mark.parametrize("name", SHAPES)
def test_neighbouring_outputs_share_inputs(name: str, tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    path = tmp_path / "line.tflite"
    shape = one_layer(path, name)
    (x,) = generate_inputs(1, [(shape, "int8")])
    (expected,) = interpret(import_model(path).main, [x])
    instructions = []
    for optimize in ("time", "balanced"):
        with edgec.compile(path, board="mps2_an385", engine="core", optimize=optimize) as model:
            result = model.run_all([x])
        assert result.outputs[0].tobytes() == expected.tobytes()
        instructions.append(result.instructions)
    fast, usual = instructions
    assert fast < usual if name not in ("prime", "one") else fast <= usual


def test_outputs_whose_taps_differ_are_summed_one_by_one(tmp_path: Path) -> None:
    """One row between padding: the first output has its lower taps, the second its upper ones."""
    builder = OnnxBuilder(3, (1, 2, 1, 2))
    w = builder.constant(builder.rng.normal(size=(2, 1, 2, 2)).astype(np.float32), "w")
    y = builder.add("Conv", ["x", w], group=2, pads=[1, 0, 1, 0])
    path = builder.save(y, tmp_path / "row.onnx")
    (x,) = generate_inputs(1, [((1, 2, 1, 2), "float32")])
    (expected,) = interpret(import_model(path).main, [x])
    with edgec.compile(path, board="host", optimize="time", float_sums="ordered") as model:
        np.testing.assert_array_equal(model.run_all([x]).outputs[0], expected)
