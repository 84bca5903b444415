"""int16 activations and int8 weights: C on the host and on emulated cores, every bit.

Layers whose accumulators fit in int32, and one that needs int64.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

import edgec
from edgec.boards.board import load_board
from edgec.loop.microkernel import kernels_of
from edgec.options import Options
from edgec.oracle.frameworks import open_oracle
from edgec.pipeline import compile_model

SCALE = 0.001


def int16_model(path: Path) -> None:
    """Convolution, depthwise convolution and a dense layer that sums 720 large weights."""
    rng = np.random.default_rng(16)
    model = TfliteBuilder()

    def constants(shape: tuple[int, ...], axis: int, channels: int) -> list[int]:
        data = rng.integers(-127, 128, shape).astype(np.int8)
        if len(shape) == 2:
            data = np.where(data > 0, data // 4 + 95, data // 4 - 95).astype(np.int8)
        scales = rng.uniform(0.001, 0.004, channels)
        w = model.tensor("w", shape, "int8", scale=scales, axis=axis, data=data)
        bias = rng.integers(-(10**6), 10**6, channels)
        return [w, model.tensor("b", (channels,), "int64", scale=scales * SCALE, data=bias)]

    x = model.tensor("x", (1, 12, 5, 3), "int16", scale=SCALE)
    a = model.tensor("a", (1, 12, 5, 12), "int16", scale=0.003)
    same = {"Padding": 0, "StrideH": 1, "StrideW": 1, "DilationHFactor": 1, "DilationWFactor": 1}
    model.operator("CONV_2D", [x, *constants((12, 3, 3, 3), 0, 12)], [a], "Conv2DOptions",
                   **same, FusedActivationFunction=1)  # fmt: skip
    b = model.tensor("b", (1, 12, 5, 12), "int16", scale=0.004)
    model.operator("DEPTHWISE_CONV_2D", [a, *constants((1, 3, 3, 12), 3, 12)], [b],
                   "DepthwiseConv2DOptions", **same, DepthMultiplier=1)  # fmt: skip
    flat = model.tensor("flat", (1, 720), "int16", scale=0.004)
    model.operator("RESHAPE", [b], [flat])
    y = model.tensor("y", (1, 7), "int16", scale=0.02)
    model.operator("FULLY_CONNECTED", [flat, *constants((7, 720), 0, 7)], [y],
                   "FullyConnectedOptions")  # fmt: skip
    path.write_bytes(model.build([x], [y]))


def windows_model(path: Path) -> None:
    """Convolutions whose windows are padded, dilated, strided, whole, or single pixels."""
    rng = np.random.default_rng(18)
    model = TfliteBuilder()
    x = at = model.tensor("x", (1, 12, 5, 3), "int16", scale=SCALE)
    layers = [  # kernel, stride, dilation, is valid, outputs
        ((1, 1, 3, 8), 1, 1, 0, (12, 5)),
        ((3, 3, 8, 20), 1, 1, 0, (12, 5)),
        ((3, 2, 20, 32), 1, 2, 0, (12, 5)),
        ((2, 2, 32, 12), 2, 1, 1, (6, 2)),
        ((1, 1, 12, 7), 2, 1, 0, (3, 1)),
    ]
    for number, ((height, width, depth, channels), stride, dilation, valid, out) in enumerate(
        layers
    ):
        shape = (channels, height, width, depth)
        data = rng.integers(-128, 128, shape).astype(np.int8)
        scales = rng.uniform(0.0005, 0.002, channels)
        bias = rng.integers(-(10**6), 10**6, channels)
        constants = [
            model.tensor(f"w{number}", shape, "int8", scale=scales, axis=0, data=data),
            model.tensor(f"b{number}", (channels,), "int64", scale=scales * SCALE, data=bias),
        ]
        y = model.tensor(f"y{number}", (1, *out, channels), "int16", scale=SCALE)
        model.operator("CONV_2D", [at, *constants], [y], "Conv2DOptions", Padding=valid,
                       StrideH=stride, StrideW=stride, DilationHFactor=dilation,
                       DilationWFactor=dilation, FusedActivationFunction=number % 2)  # fmt: skip
        at = y
    path.write_bytes(model.build([x], [at]))


def operators_model(path: Path) -> None:
    """Pools, logistic, tanh, LEAKY_RELU, a sum, a transposed convolution, a mean and a softmax."""
    rng = np.random.default_rng(17)
    model = TfliteBuilder()

    def tensor(name: str, shape: tuple[int, ...], scale: float) -> int:
        return model.tensor(name, shape, "int16", scale=scale)

    x = tensor("x", (1, 12, 5, 3), SCALE)
    window = {"Padding": 0, "StrideH": 2, "StrideW": 1, "FilterHeight": 3, "FilterWidth": 2}
    a, b = (tensor(name, (1, 6, 5, 3), SCALE) for name in "ab")
    model.operator("AVERAGE_POOL_2D", [x], [a], "Pool2DOptions", **window)
    model.operator("MAX_POOL_2D", [x], [b], "Pool2DOptions", **window)
    c, d = (tensor(name, (1, 6, 5, 3), 1 / 32768) for name in "cd")
    model.operator("LOGISTIC", [a], [c])
    model.operator("TANH", [b], [d])
    e = tensor("e", (1, 6, 5, 3), 5e-5)
    model.operator("SUB", [c, d], [e], "SubOptions")
    f = tensor("f", (1, 6, 5, 3), 4e-5)
    model.operator("LEAKY_RELU", [e], [f], "LeakyReluOptions", Alpha=0.25)
    data = rng.integers(-127, 128, (4, 3, 4, 3)).astype(np.int8)
    w = model.tensor("w", data.shape, "int8", scale=0.01, data=data)
    shape = np.array((1, 12, 10, 4), np.int32)
    target = model.tensor("shape", (4,), "int32", data=shape)
    g = tensor("g", (1, 12, 10, 4), 3e-4)
    model.operator("TRANSPOSE_CONV", [target, w, f], [g], "TransposeConvOptions",
                   Padding=0, StrideH=2, StrideW=2)  # fmt: skip
    axes = model.tensor("axes", (1,), "int32", data=np.array([1], np.int32))
    h = tensor("h", (1, 10, 4), 2e-4)
    model.operator("MEAN", [g, axes], [h], "ReducerOptions", KeepDims=False)
    y = tensor("y", (1, 10, 4), 1 / 32768)
    model.operator("SOFTMAX", [h], [y], "SoftmaxOptions", Beta=1.0)
    path.write_bytes(model.build([x], [y]))


def test_accumulators_are_narrow_where_proven(tmp_path: Path) -> None:
    int16_model(tmp_path / "m.tflite")
    compiled = compile_model(tmp_path / "m.tflite", load_board("host").core)
    found = {
        node.op.name: node.output.type.dtype
        for node in compiled.module.main.nodes
        if node.op.name in ("conv2d", "depthwise_conv2d", "dense")
    }
    assert found == {"conv2d": "int32", "depthwise_conv2d": "int32", "dense": "int64"}
    titles = [step.title for step in compiled.program.steps]
    assert [title.split(" ")[:3] for title in titles if "int64" in title] == [
        ["dense", "in", "int64+requantize"]
    ]


def kernels(
    write: Callable[[Path], None], board: str, folder: Path, no_asm: bool = False
) -> list[frozenset[str]]:
    """The microkernels of each step."""
    write(folder / "m.tflite")
    core = load_board(board).core
    options = Options(optimize="time", no_asm=no_asm)
    compiled = compile_model(folder / "m.tflite", core, options)
    return [kernels_of(v.function) for v in compiled.choice.variants]


def test_kernels_of_dsp_cores(tmp_path: Path) -> None:
    """All windows of whole quads; the first layer's pixels have three channels."""
    names = kernels(windows_model, "mps2_an386", tmp_path)
    assert ["ec_matrix_1_s16_dsp" in found for found in names] == [False, True, True, True, True]
    assert "ec_copy_row_s16" in names[3]  # these windows are whole
    name = "ec_depthwise_windows_s16_dsp"
    assert name in kernels(int16_model, "mps2_an386", tmp_path)[1]
    assert name not in kernels(int16_model, "mps2_an386", tmp_path, no_asm=True)[1]


def test_kernels_of_mve_cores(tmp_path: Path) -> None:
    """All windows but the dilated ones, and the dense layer whose sums need 64 bits."""
    names = kernels(windows_model, "mps3_an547", tmp_path)
    assert ["ec_conv_s16_mve" in found for found in names] == [True, True, False, True, True]
    assert "ec_pad_rows_s16_mve" in names[1]
    assert "ec_matrix_1_s16_dsp" in names[2]
    names = kernels(int16_model, "mps3_an547", tmp_path)
    assert "ec_depthwise_s16_mve" in names[1]
    assert "ec_matrix_1_s16_s64_mve" in names[2]


@pytest.mark.parametrize(
    ("board", "engine", "unfused"),
    [
        ("host", "host", False),
        ("host", "host", True),
        ("mps2_an386", "core", False),
        ("mps2_an385", "core", True),
        ("sim_m0", "core", False),
        ("mps3_an547", "qemu", False),
    ],
)
@pytest.mark.parametrize("write", [int16_model, windows_model, operators_model])
def test_int16_layers_equal_tflm(
    write: Callable[[Path], None], board: str, engine: str, unfused: bool, tmp_path: Path
) -> None:
    if engine == "core":
        pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    elif engine == "qemu" and shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    path = tmp_path / "m.tflite"
    write(path)
    oracle = open_oracle(path)
    rng = np.random.default_rng(3)
    limits = (-32768, 32767)
    with edgec.compile(path, board=board, engine=engine, unfused=unfused) as model:
        for case in range(4):
            x = rng.integers(*limits, (1, 12, 5, 3), endpoint=True).astype(np.int16)
            if case > 1:
                x = rng.choice(np.array(limits, np.int16), x.shape)
            (expected,) = oracle.run([x]).outputs
            assert model.run(x).tobytes() == expected.tobytes()
