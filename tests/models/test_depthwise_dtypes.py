"""Depthwise convolutions between values of int8 and of int16: the same bits on every core."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from quantized_files import qdq_bytes

import edgec
from edgec.graph.builder import GraphBuilder
from edgec.graph.interpret import interpret
from edgec.graph.ir import Function
from edgec.graph.types import TensorType
from edgec.loop.microkernel import kernels_of
from edgec.ops.clip import ClipAttrs
from edgec.ops.depthwise_conv2d import DepthwiseConv2dAttrs
from edgec.quantizer.post_training import Recipe, quantize_function

Shape = tuple[int, int, int]
Pair = tuple[int, int]

#: What the first layer stores is int16, what it reads and what the second stores is int8.
TO_16_AND_BACK = Recipe("minmax", int16=("one",))
ALL_16 = Recipe("minmax", activations="int16")
#: Shape of the input, kernel, stride, dilation, padding, outputs of each channel, and what the
#: first layer runs on where the core has the DSP extension and an FPU.
SHAPES: dict[str, tuple[Shape, Pair, Pair, Pair, tuple[Pair, Pair], int, str]] = {
    "3x3": ((9, 6, 8), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 1, "depthwise_3x3"),
    "odd channels": ((5, 7, 5), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 1)), 1, "depthwise_3x3"),
    "two of each": ((6, 5, 4), (3, 3), (1, 1), (1, 1), ((1, 1), (1, 0)), 2, "depthwise_3x3"),
    "no padding": ((8, 9, 4), (3, 3), (1, 1), (1, 1), ((0, 0), (0, 0)), 1, "depthwise_3x3"),
    "steps": ((8, 9, 12), (3, 3), (2, 2), (1, 1), ((0, 1), (1, 1)), 1, "depthwise_windows"),
    "wide": ((8, 20, 8), (2, 5), (1, 1), (1, 1), ((0, 0), (0, 0)), 1, "depthwise_windows"),
    "dilated": ((12, 9, 4), (3, 2), (1, 1), (2, 3), ((2, 0), (0, 0)), 1, "depthwise_windows"),
    "many taps": ((9, 9, 8), (5, 5), (1, 1), (1, 1), ((2, 2), (2, 2)), 1, ""),
    "odd and stepping": ((7, 7, 3), (3, 3), (2, 1), (1, 1), ((1, 1), (1, 1)), 1, ""),
}
#: One for each way to run; `make test-full` takes all.
QUICK = ("3x3", "two of each", "steps", "many taps")
SOME = [pytest.param(name, marks=[pytest.mark.full] * (name not in QUICK)) for name in SHAPES]


def two_layers(name: str) -> Function:
    shape, kernel, stride, dilation, padding, each, _ = SHAPES[name]
    rng = np.random.default_rng(4)
    b = GraphBuilder()
    y = b.param("x", TensorType((1, *shape), "float32"))
    for layer in ("one", "two"):
        channels = y.type.shape[3] * (each if layer == "one" else 1)
        weights = rng.standard_normal((*kernel, channels)).astype(np.float32)
        bias = rng.standard_normal(channels).astype(np.float32)
        attrs = DepthwiseConv2dAttrs(stride=stride, dilation=dilation, padding=padding)
        operands = [y, b.constant("w", weights), b.constant("b", bias)]
        y = b.op("depthwise_conv2d", operands, attrs, name=layer)
        if layer == "one":
            y = b.op("clip", [y], ClipAttrs(0.0, 4.0), name="relu")
    return b.finish([y])


def inputs(name: str, count: int, seed: int) -> list[list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    shape = (1, *SHAPES[name][0])
    return [[rng.normal(0.5, 1.5, shape).astype(np.float32)] for _ in range(count)]


def check(
    name: str, recipe: Recipe, board: str, engine: str | None, optimize: str, path: Path
) -> set[str]:
    """The kernels of the model, which gives what the integers give."""
    made = quantize_function(two_layers(name), inputs(name, 12, 0), recipe)
    path.write_bytes(qdq_bytes(made))
    with edgec.compile(path, board=board, engine=engine, optimize=optimize) as model:
        for sample in inputs(name, 3, 8):
            assert np.array_equal(model.run(*sample), interpret(made.integers, sample)[0])
        return {n for variant in model.compiled.chosen for n in kernels_of(variant.function)}


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("optimize", ["time", "balanced", "size"])
def test_on_a_core_with_dsp(name: str, optimize: str, tmp_path: Path) -> None:
    found = check(name, TO_16_AND_BACK, "mps2_an386", "core", optimize, tmp_path / "m.onnx")
    if optimize == "time" and SHAPES[name][-1]:
        assert f"ec_{SHAPES[name][-1]}_onnx_s8_s16_dsp" in found


@pytest.mark.parametrize("name", SOME)
@pytest.mark.parametrize("recipe", [TO_16_AND_BACK, ALL_16], ids=["mixed", "int16"])
@pytest.mark.parametrize("board", ["host", "mps2_an386", "mps3_an547"])
def test_on_emulated_boards(name: str, recipe: Recipe, board: str, tmp_path: Path) -> None:
    engine = None if board == "host" else "qemu"
    if engine and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    found = check(name, recipe, board, engine, "time", tmp_path / "m.onnx")
    if name == "steps" and recipe is ALL_16 and board == "mps2_an386":
        assert "ec_depthwise_windows_limited_s16_dsp" in found
