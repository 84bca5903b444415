"""Numbers of channels that no unrolling divides, fused and not, against our own reference."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tflite_builder import TfliteBuilder

import edgec
from edgec.frontends import import_model
from edgec.graph.interpret import interpret
from edgec.runners.samples import generate_inputs


def odd_model(path: Path, outputs: int, inputs: int) -> tuple[int, ...]:
    """A 3x3 convolution and a dense, `outputs` channels each; returns the input's shape."""
    rng = np.random.default_rng(outputs * 100 + inputs)
    model = TfliteBuilder()
    shape = (1, 3, 3, inputs)
    x = model.tensor("x", shape, "int8", scale=0.05, zero_point=3)
    taps = rng.integers(-127, 128, (outputs, 3, 3, inputs)).astype(np.int8)
    w = model.tensor("w", taps.shape, "int8", scale=0.01, data=taps)
    b = model.tensor("b", (outputs,), "int32", scale=0.0005, data=np.arange(outputs, dtype="<i4"))
    y = model.tensor("y", (1, 3, 3, outputs), "int8", scale=0.1, zero_point=0)
    model.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", Padding=0, StrideW=1, StrideH=1,
                   DilationWFactor=1, DilationHFactor=1)  # fmt: skip
    flat = model.tensor("flat", (1, 9 * outputs), "int8", scale=0.1, zero_point=0)
    model.operator("RESHAPE", [y], [flat])
    rows = rng.integers(-127, 128, (outputs, 9 * outputs)).astype(np.int8)
    v = model.tensor("v", rows.shape, "int8", scale=0.01, data=rows)
    z = model.tensor("z", (1, outputs), "int8", scale=0.2, zero_point=-5)
    model.operator("FULLY_CONNECTED", [flat, v, -1], [z], "FullyConnectedOptions")
    path.write_bytes(model.build([x], [z]))
    return shape


@pytest.mark.parametrize("unfused", [False, True])
@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (3, 4), (5, 3), (7, 8)])
def test_odd_channels_on_the_host(outputs: int, inputs: int, unfused: bool, tmp_path: Path) -> None:
    check(tmp_path, outputs, inputs, board="host", engine="host", unfused=unfused)


@pytest.mark.parametrize("board", ["sim_m0", "mps2_an386"])
def test_odd_channels_on_a_core(board: str, tmp_path: Path) -> None:
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    check(tmp_path, 5, 3, board=board, engine="core", unfused=False)
    check(tmp_path, 5, 3, board=board, engine="core", unfused=True)


@pytest.mark.parametrize("board", ["sim_m0", "mps2_an385", "qemu_riscv32"])
@pytest.mark.parametrize(("outputs", "inputs"), [(8, 1), (10, 5), (12, 16)])
def test_four_pixels_of_nine(board: str, outputs: int, inputs: int, tmp_path: Path) -> None:
    """At `time` four pixels have three sums where there is no DSP extension."""
    pytest.importorskip("unicorn", reason="unicorn is not installed (edgec[sim])")
    check(tmp_path, outputs, inputs, board=board, engine="core", optimize="time")


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize(("outputs", "inputs"), [(3, 4), (5, 3), (9, 17), (18, 40)])
def test_odd_channels_on_vectors(outputs: int, inputs: int, compiler: str, tmp_path: Path) -> None:
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not installed (Debian package qemu-system-arm)")
    if compiler == "gcc" and shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed (Debian package gcc-arm-none-eabi)")
    how = {"board": "mps3_an547", "engine": "qemu", "unfused": False, "compiler": compiler}
    check(tmp_path, outputs, inputs, **how)


def check(folder: Path, outputs: int, inputs: int, **how: object) -> None:
    path = folder / "odd.tflite"
    shape = odd_model(path, outputs, inputs)
    (x,) = generate_inputs(1, [(shape, "int8")])
    (expected,) = interpret(import_model(path).main, [x])
    with edgec.compile(path, **how) as model:
        assert model.run(x).tobytes() == expected.tobytes()
